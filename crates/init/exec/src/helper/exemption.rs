//! This process may open what its program will not be able to open.

use rustix::fd::{AsFd, OwnedFd};

use super::calls;
use super::outcome::{During, SetupError};
use crate::bpf;
use crate::job::Job;
use crate::step::Step;

/// The map in which this process is exempt from the restriction of its group, where there is one.
pub(super) struct Exemption(Option<OwnedFd>);

impl Exemption {
    /// Takes the descriptor that the job names.
    pub(super) fn take(job: &Job) -> Result<Self, SetupError> {
        let map = job.exemptions.map(|number| calls::take(i32::from(number)));
        let map = map.transpose().during(Step::Fds, || {
            "cannot take the map of processes that may open every file".to_owned()
        })?;
        Ok(Self(map))
    }

    /// A process that this one has made is not exempt before it has said so itself.
    pub(super) fn renew(&self) -> Result<(), SetupError> {
        let renewed = self
            .0
            .as_ref()
            .map_or(Ok(()), |map| bpf::begin_exemption(map.as_fd()));
        renewed.during(Step::Bpf, || {
            "cannot keep access to all file systems while the process is set up".to_owned()
        })
    }

    /// The restriction holds from now on: nothing but the program may be opened after this. Allocates nothing unless it fails.
    pub(super) fn end(&self) -> Result<(), SetupError> {
        let ended = self
            .0
            .as_ref()
            .map_or(Ok(()), |map| bpf::end_exemption(map.as_fd()));
        ended.during(Step::Bpf, || "cannot restrict file systems".to_owned())
    }
}
