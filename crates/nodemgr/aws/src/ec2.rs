//! EC2's Query API, as far as machines need it: typed requests that become parameters, and answers that become values. Nothing
//! here does anything: [`Action::query`] says what is to be sent, [`read_answer`] and [`read_fault`] what came back.
//!
//! Answers come from outside. They are read within bounds, and nothing in them makes a panic.

mod action;
mod fault;
mod fleet;
mod identity;
mod images;
mod instances;
mod model;
mod query;
#[cfg(test)]
mod tests;
mod xml;

pub use action::{Action, ReadAnswerError, VERSION, read_answer, read_fault};
pub use fault::{Ec2Fault, Meaning};
pub use fleet::{
    CreateFleet, CreateLaunchTemplate, DeleteLaunchTemplate, DescribeLaunchTemplates, FleetAnswer,
    LaunchTemplate,
};
pub use identity::GetCallerIdentity;
pub use images::{DescribeImages, newest};
pub use instances::{
    DescribeInstances, InstanceData, InstancePage, RebootInstances, RootVolume, RunInstances,
    StartInstances, StopInstances, StopMode, TerminateInstances,
};
pub use model::{Filter, Image, Instance};
pub use query::Query;
pub use xml::{Element, ReadXmlError};
