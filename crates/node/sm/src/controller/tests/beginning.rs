//! What a node says first when there were instances before.

use super::*;

#[tokio::test]
async fn the_first_stream_begins_with_the_instances_that_were_saved() {
    let folder = tempfile::tempdir().unwrap();
    let (mut before, task) =
        rig_of(folder, Vec::new(), Arc::new(NoImages), Arc::new(Answers)).await;
    let launching = tokio::spawn(task);
    let mut node = before.nodes.recv().await.expect("a node");
    node.command(update(&["one", "two"])).await;
    while all_statuses(&mut node).await != ["one failed", "two failed"] {}
    before.link.stop().await;
    before.server.shutdown().await;
    let Rig {
        folder, launcher, ..
    } = before;
    drop(launcher);
    launching.await.unwrap();

    // The launcher has not come to say anything yet.
    let (mut after, task) = rig_of(folder, Vec::new(), Arc::new(NoImages), Arc::new(Answers)).await;
    let mut node = after.nodes.recv().await.expect("a node");
    assert!(matches!(node.next().await, Out::SmInfo(_)));
    let said = all_statuses(&mut node).await;
    let items: Vec<&str> = said.iter().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(items, ["one", "two"]);
    drop(task);
    after.link.stop().await;
    after.server.shutdown().await;
}
