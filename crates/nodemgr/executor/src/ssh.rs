//! SSH: one connection for many commands, made again when it is lost.
//!
//! A server allows some sessions per connection (OpenSSH: ten). An executor uses fewer than that on each connection and makes
//! another connection when all are in use. There are 32 of them at most: whoever needs one more waits. Files and forwarded ports
//! have connections of their own: what is not read by whoever asked for it holds up all of a connection. What passes through a
//! forwarded port has one alone, as long as there are no more than eight; beyond that it shares one.

mod access;
mod exec;
pub(crate) mod link;

use std::path::Path;
use std::sync::Arc;

use muster_provider::{Capabilities, Capability, Means, Transport};

use crate::command::{Command, Terminal};
use crate::executor::{Answer, Executor, TcpLike};
use crate::files::Files;
use crate::running::{Attached, Running};
use crate::sftp::SftpFiles;
use crate::transfer::{Report, Transfer};

pub use access::{
    Endpoint, HostKeys, InvalidKey, SshAccess, SshIdentity, TrustedOnFirstUse, fingerprint,
};

/// Runs commands in a machine by SSH. Clones share the connections; the first use makes them.
#[derive(Debug, Clone)]
pub struct SshExecutor {
    pool: Arc<link::Pool>,
}

impl SshExecutor {
    /// A machine. Nothing is connected yet.
    #[must_use]
    pub fn new(access: SshAccess) -> Self {
        let pool = Arc::new(link::Pool::new(access));
        Self { pool }
    }

    pub(crate) fn pool(&self) -> &link::Pool {
        &self.pool
    }
}

impl Executor for SshExecutor {
    fn access(&self) -> Capabilities {
        let means = [
            Means::Exec,
            Means::Attach,
            Means::Sftp,
            Means::Rsync,
            Means::Forward,
        ];
        means.map(|it| Capability::new(Transport::Ssh, it)).into()
    }

    fn run<'a>(&'a self, command: &'a Command) -> Answer<'a, Running> {
        Box::pin(exec::run(&self.pool, command))
    }

    fn attach<'a>(
        &'a self,
        command: Option<&'a Command>,
        terminal: &'a Terminal,
    ) -> Answer<'a, Attached> {
        Box::pin(exec::attach(&self.pool, command, terminal))
    }

    fn files<'a>(&'a self, folder: &'a Path) -> Answer<'a, Arc<dyn Files>> {
        let files: Arc<dyn Files> = Arc::new(SftpFiles::new(self.clone(), folder));
        Box::pin(std::future::ready(Ok(files)))
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Answer<'a, Box<dyn TcpLike>> {
        Box::pin(async move {
            let session = self.pool.forward(host, port).await?;
            let stream = Held {
                stream: session.channel.into_stream(),
                _hold: session.hold,
            };
            Ok(Box::new(stream) as Box<dyn TcpLike>)
        })
    }

    fn sync<'a>(&'a self, transfer: &'a Transfer) -> Answer<'a, Report> {
        Box::pin(crate::rsync::sync(self, transfer))
    }
}

mod held;
use held::Held;
