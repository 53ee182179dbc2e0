//! What clients and signals ask for. It is done after everything that could be read was read.

use muster_varlink::{CallId, Reply};

use super::{Daemon, control_time};
use crate::control::{
    FlushReply, JournalFile, Request, StatusReply, VacuumReply, failure, request_of,
};
use crate::input::Taken;
use crate::parse::priority::Level;
use crate::recorder::{chain, now};
use crate::store::StoreError;

/// Something that is to be done.
#[derive(Debug)]
pub(super) enum Pending {
    /// The manager's wish.
    Sync,
    /// A signal's.
    Rotate,
    /// A signal's.
    Flush,
    /// A client's: the server it came by, the call, and what it asks for.
    Call(usize, CallId, Request),
}

impl Daemon {
    /// Reads what clients of a control socket ask for.
    pub(super) fn serve(&mut self, index: usize) -> Taken {
        let time = control_time();
        let Some(server) = self.servers.get_mut(index) else {
            return Taken::All;
        };
        server.turn(time);
        let owner = rustix::process::geteuid().as_raw();
        while let Some(incoming) = server.next_call(time) {
            match request_of(&incoming.call, &incoming.peer, owner) {
                Ok(request) => self
                    .pending
                    .push(Pending::Call(index, incoming.id, request)),
                Err(reply) => {
                    // A client that is gone does not miss its reply.
                    let _ = server.reply(incoming.id, reply);
                }
            }
        }
        server.flush(time);
        Taken::All
    }

    /// Does what is pending. More may come in meanwhile; it is done in the next round.
    pub(super) fn answer_pending(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        // How it is can be said at any time; the rest is about what was sent before.
        let asks_for_all = |item: &Pending| !matches!(item, Pending::Call(_, _, Request::Status));
        if pending.iter().any(asks_for_all) {
            self.drain();
        }
        for item in pending {
            match item {
                Pending::Sync => self.report(|daemon| daemon.recorder.store.sync()),
                Pending::Rotate => self.report(|daemon| daemon.recorder.store.rotate(now())),
                Pending::Flush => {
                    self.report(|daemon| daemon.recorder.store.flush(now()).map(drop))
                }
                Pending::Call(index, call, request) => {
                    let reply = self
                        .carry_out(&request)
                        .unwrap_or_else(|error| failure(&chain(&error)));
                    if let Some(server) = self.servers.get_mut(index) {
                        // A client that is gone does not miss its reply.
                        let _ = server.reply(call, reply);
                        server.flush(control_time());
                    }
                }
            }
        }
    }

    fn report(&mut self, action: impl FnOnce(&mut Self) -> Result<(), StoreError>) {
        if let Err(error) = action(self) {
            self.recorder.say(Level::ERR, &chain(&error), &[]);
        }
    }

    fn carry_out(&mut self, request: &Request) -> Result<Reply, StoreError> {
        let store = &mut self.recorder.store;
        Ok(match request {
            Request::Synchronize => store.sync().map(|()| Reply::empty())?,
            Request::Rotate => store.rotate(now()).map(|()| Reply::empty())?,
            Request::Flush { bare } => {
                let persistent = store.flush(now())?;
                match bare {
                    true => Reply::empty(),
                    false => Reply::of(&FlushReply { persistent }),
                }
            }
            Request::Vacuum(call) => {
                let time = now();
                let removed = store.vacuum(time, Some(call.retention(time.realtime_us)))?;
                Reply::of(&VacuumReply { removed })
            }
            Request::Status => Reply::of(&self.status()?),
        })
    }

    fn status(&self) -> Result<StatusReply, StoreError> {
        let recorder = &self.recorder;
        let (archived, active_bytes) = recorder.store.files()?;
        let mut files: Vec<JournalFile> = archived
            .into_iter()
            .map(|file| JournalFile {
                name: file.name,
                bytes: file.bytes,
                active: false,
            })
            .collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(folder) = recorder.store.folder() {
            let name = folder.active();
            let name = name.file_name().unwrap_or_default().to_string_lossy();
            files.push(JournalFile {
                name: name.into(),
                bytes: active_bytes,
                active: true,
            });
        }
        let (store, counters) = (recorder.store.counters(), recorder.counters);
        Ok(StatusReply {
            storage: recorder
                .store
                .medium()
                .map_or("none", |medium| medium.name())
                .into(),
            folder: recorder
                .store
                .folder()
                .map(|folder| folder.path().to_string_lossy().into()),
            files,
            streams: self.streams.len() as u64,
            stored: store.stored,
            lost: store.lost,
            suppressed: counters.suppressed,
            below_level: counters.below_level,
            refused: counters.refused,
            lost_by_manager: counters.lost_by_manager,
            lost_by_kernel: counters.lost_by_kernel,
            lost_forwarding: recorder.forwarder.lost(),
            rotations: store.rotations,
            removed_files: store.removed_files,
            syncs: store.syncs,
        })
    }
}
