//! Plain unary calls: a channel that connects when needed and again after a failure.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use crate::connection::{Dial, Keepalive, Target};

/// Everything that can be set about a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelConfig {
    /// HTTP/2 keepalive, also while no call is under way.
    pub keepalive: Keepalive,
    /// A call that takes longer fails, unless it is a stream.
    pub call_timeout: Duration,
    /// Calls under way at once; further ones wait.
    pub concurrency: usize,
}

impl Default for ChannelConfig {
    fn default() -> Self {
        Self {
            keepalive: Keepalive::default(),
            call_timeout: Duration::from_secs(30),
            concurrency: 64,
        }
    }
}

/// A channel to `target` for generated clients. It dials at the first call and after every failure;
/// a call that finds the peer unreachable fails instead of waiting for it. Must be called inside a
/// tokio runtime.
pub fn channel(target: &Target, config: ChannelConfig) -> Channel {
    Endpoint::from(target.origin())
        .http2_keep_alive_interval(config.keepalive.interval)
        .keep_alive_timeout(config.keepalive.timeout)
        .keep_alive_while_idle(true)
        .timeout(config.call_timeout)
        .concurrency_limit(config.concurrency)
        .connect_with_connector_lazy(target.tls().connector())
}
