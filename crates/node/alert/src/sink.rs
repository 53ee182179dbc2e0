//! Where alerts go.

use std::fmt;

use muster_api::domain::Alert;

/// Takes alerts in. Never blocks: whoever raises an alert has other work to do.
pub trait AlertSink: Send + Sync + fmt::Debug + 'static {
    /// Takes an alert in, to be kept and told to the controller.
    fn raise(&self, alert: Alert);
}
