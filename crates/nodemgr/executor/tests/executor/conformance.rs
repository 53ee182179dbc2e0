//! The suite that every executor passes.

use std::path::PathBuf;
use std::sync::Arc;

use muster_executor::Executor;
use muster_executor::local::LocalExecutor;
use muster_executor::testing::{Rig, run, scratch};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::server::Server;

/// As many as SPECIFICATION.md says.
const CASES: usize = 59;

/// A server that sends back what it is sent, as long as the test runs.
pub(crate) async fn echo() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    port
}

#[derive(Debug)]
struct LocalRig {
    folder: TempDir,
    echo: u16,
}

impl Rig for LocalRig {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(LocalExecutor::new())
    }

    fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    fn echo(&self) -> Option<(String, u16)> {
        Some(("127.0.0.1".to_owned(), self.echo))
    }

    fn power_log(&self) -> Option<PathBuf> {
        None
    }
}

#[derive(Debug)]
struct SshRig {
    server: Server,
    echo: u16,
}

impl Rig for SshRig {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(self.server.executor())
    }

    fn folder(&self) -> PathBuf {
        self.server.path("work")
    }

    fn echo(&self) -> Option<(String, u16)> {
        Some(("127.0.0.1".to_owned(), self.echo))
    }

    fn power_log(&self) -> Option<PathBuf> {
        Some(self.server.path("power.log"))
    }
}

#[tokio::test]
async fn this_machine_conforms() {
    let rig = LocalRig {
        folder: scratch(),
        echo: echo().await,
    };
    let report = run(&rig).await;
    println!("{report}");
    assert_eq!(report.cases.len(), CASES);
    report.assert_skipped_only(&[(
        "the machine is switched off and booted from inside",
        "nothing stands in the place of its power",
    )]);
}

#[tokio::test]
async fn ssh_conforms() {
    if !crate::ssh::can_log_in() {
        return;
    }
    let rig = SshRig {
        server: Server::start(),
        echo: echo().await,
    };
    let report = run(&rig).await;
    println!("{report}");
    assert_eq!(report.cases.len(), CASES);
    report.assert_skipped_only(&[]);
}
