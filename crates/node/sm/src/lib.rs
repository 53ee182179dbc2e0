//! The Service Manager of a node.

mod controller;
mod images;
pub mod seams;

pub use self::controller::{ControllerLink, Services, SmProtocol};
pub use self::images::{ControllerUrls, NodeImages};
