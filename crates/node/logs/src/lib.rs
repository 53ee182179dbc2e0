//! Logs of the node and its instances, found and packed on request.

mod collector;
mod request;
mod settings;

pub use self::collector::LogCollector;
pub use self::request::LogRequest;
pub use self::settings::LogSettings;
