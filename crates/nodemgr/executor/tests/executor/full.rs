//! More than a machine is asked for at once.

use std::time::Duration;

use futures_util::future::try_join_all;
use muster_executor::{Command, Executor as _, FailureClass, Transfer};

use crate::server::{PATIENCE, Server};
use crate::ssh::can_log_in;

/// As many commands as run over all connections that there may be.
const MOST: usize = 32 * 8;

#[tokio::test]
async fn whoever_finds_every_connection_full_waits_for_room() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let executor = server.executor();
    let long = Command::new("cat").input();
    let running = try_join_all((0..MOST).map(|_| executor.run(&long)));
    let mut running = running.await.unwrap();
    // As long as it has time.
    let hasty = Command::new("true").timeout(Duration::from_millis(300));
    let error = executor.run(&hasty).await.unwrap_err();
    assert_eq!(error.class, FailureClass::TimedOut, "{error}");
    let mut waiting = {
        let executor = executor.clone();
        tokio::spawn(async move { executor.probe().await })
    };
    let early = tokio::time::timeout(Duration::from_millis(300), &mut waiting).await;
    assert!(early.is_err(), "every connection is full");
    drop(running.pop());
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.expect("there is room").unwrap().unwrap();
    // Files go over other connections: they wait until one is not used at all, and take its place.
    let (from, to) = (server.path("client.pub"), server.path("work/copy"));
    let upload = Transfer::upload(&from, &to);
    let copy = executor.copy(&upload);
    tokio::pin!(copy);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut copy).await;
    assert!(early.is_err(), "every connection is used");
    drop(running);
    let copied = tokio::time::timeout(PATIENCE, copy).await;
    copied.expect("there is room").unwrap();
    assert!(to.exists());
}
