//! Shows how far a copy is.

use tokio::sync::watch;

use super::Progress;
use super::path::RelPath;
use super::plan::Plan;

/// Counts what has been moved, where somebody looks.
#[derive(Debug, Clone)]
pub(super) struct Meter(Option<watch::Sender<Progress>>);

impl Meter {
    pub(super) fn new(to: Option<&watch::Sender<Progress>>, plan: &Plan) -> Self {
        let small = || plan.batches.iter().flatten();
        let progress = Progress {
            files: (small().count() + plan.large.len()) as u64,
            bytes: small().chain(&plan.large).map(|it| it.size).sum(),
            ..Progress::default()
        };
        let meter = Self(to.cloned());
        meter.change(|it| *it = progress);
        meter
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        if let Some(sender) = &self.0 {
            sender.send_modify(change);
        }
    }

    pub(super) fn begin(&self, path: &RelPath) {
        self.change(|it| it.current = Some(path.to_string()));
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.change(|it| it.bytes_done += bytes);
    }

    pub(super) fn add_batch(&self, files: usize, bytes: u64) {
        self.change(|it| {
            it.files_done += files as u64;
            it.bytes_done += bytes;
        });
    }

    /// How many bytes have been moved.
    pub(super) fn bytes_done(&self) -> u64 {
        let sender = self.0.as_ref();
        sender.map_or(0, |it| it.borrow().bytes_done)
    }

    /// Goes on from somewhere else: back after an interruption, or ahead of what is there already.
    pub(super) fn set_bytes(&self, bytes: u64) {
        self.change(|it| it.bytes_done = bytes);
    }

    pub(super) fn finish_one(&self) {
        self.change(|it| it.files_done += 1);
    }

    pub(super) fn end(&self) {
        self.change(|it| it.current = None);
    }
}
