//! What goes wrong on a node, told to the controller at least once.

mod sink;

pub use self::sink::AlertSink;
