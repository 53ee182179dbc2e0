//! Logs of the node and its instances, found and packed on request.

mod answer;
mod collector;
mod crash;
mod error;
mod fields;
mod line;
mod parts;
mod request;
mod scan;
mod settings;
mod wanted;

pub use self::collector::LogCollector;
pub use self::request::LogRequest;
pub use self::settings::LogSettings;
