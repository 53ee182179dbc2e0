//! `GET /metrics` in OpenMetrics text.

mod address;
mod server;

pub use address::{MetricsAddress, ParseMetricsAddressError};
pub use server::{MetricsServer, ServeMetricsError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// What this crate itself counts; a daemon registers it with `Registry::register_collector`.
#[derive(Debug, Default)]
pub struct LogMetrics(());

impl Collector for LogMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let lost = ConstCounter::new(crate::lost_lines());
        let help = "Log lines dropped because standard error did not take them in time";
        let metric =
            encoder.encode_descriptor("muster_log_lines_lost", help, None, MetricType::Counter)?;
        lost.encode(metric)
    }
}
