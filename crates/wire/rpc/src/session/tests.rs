use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::*;

/// Text both ways (`google.protobuf.StringValue` to the encoder); `=` marks an answer.
struct Text;

const ANSWER: ReplyKind = ReplyKind("answer");

impl Protocol for Text {
    type Out = String;
    type In = String;
    const METHOD: &'static str = "/test.Text/Talk";

    fn reply_kind(message: &String) -> Option<ReplyKind> {
        message.starts_with('=').then_some(ANSWER)
    }
}

struct Rig {
    session: Session<Text>,
    incoming: SessionIncoming<Text>,
    outgoing: SessionOutgoing<Text>,
    peer: mpsc::Sender<Result<String, Status>>,
}

fn rig(config: SessionConfig) -> Rig {
    let (peer, inbound) = mpsc::channel(1);
    let (session, incoming, outgoing) = accept(ReceiverStream::new(inbound), config);
    Rig {
        session,
        incoming,
        outgoing,
        peer,
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(10), future)
        .await
        .expect("within ten seconds")
}

#[tokio::test]
async fn an_answer_goes_to_its_asker_and_the_rest_to_the_owner_in_order() {
    let mut rig = rig(SessionConfig::default());
    let asking = rig.session.clone();
    let ask = tokio::spawn(async move { asking.ask("?".into(), ANSWER).await });
    assert_eq!(soon(rig.outgoing.next()).await.unwrap().unwrap(), "?");
    for text in ["a", "=42", "b"] {
        rig.peer.send(Ok(text.into())).await.unwrap();
    }
    assert_eq!(soon(ask).await.unwrap().unwrap(), "=42");
    assert_eq!(soon(rig.incoming.recv()).await.unwrap(), "a");
    assert_eq!(soon(rig.incoming.recv()).await.unwrap(), "b");
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_kind_wait_for_each_other_and_a_late_answer_is_thrown_away() {
    let mut rig = rig(SessionConfig::default());
    let ask = |text: &str, seconds| {
        let (session, text) = (rig.session.clone(), text.to_owned());
        tokio::spawn(async move {
            session
                .ask_within(text, ANSWER, Duration::from_secs(seconds))
                .await
        })
    };
    let first = ask("1", 5);
    assert_eq!(rig.outgoing.next().await.unwrap().unwrap(), "1");
    let second = ask("2", 20);
    assert_eq!(
        first.await.unwrap(),
        Err(AskError::TimedOut { kind: ANSWER })
    );
    rig.peer.send(Ok("=1".into())).await.unwrap();
    assert_eq!(rig.outgoing.next().await.unwrap().unwrap(), "2");
    rig.peer.send(Ok("=2".into())).await.unwrap();
    assert_eq!(second.await.unwrap().unwrap(), "=2");
}

#[tokio::test]
async fn the_end_of_the_stream_fails_requests_at_once() {
    let mut rig = rig(SessionConfig::default());
    let asking = rig.session.clone();
    let ask = tokio::spawn(async move { asking.ask("?".into(), ANSWER).await });
    soon(rig.outgoing.next()).await;
    drop(rig.peer);
    assert_eq!(soon(ask).await.unwrap(), Err(AskError::Disconnected));
    assert_eq!(soon(rig.incoming.recv()).await, None);
    assert!(soon(rig.outgoing.next()).await.is_none());
    assert_eq!(rig.session.send("x".into()).await, Err(SessionEnded));
    assert_eq!(
        rig.session.ask("?".into(), ANSWER).await,
        Err(AskError::Disconnected)
    );
}

#[tokio::test]
async fn a_flooding_peer_is_held_back() {
    let mut rig = rig(SessionConfig {
        incoming: 2,
        ..SessionConfig::default()
    });
    let (peer, progress) = (rig.peer.clone(), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&progress);
    let sent = tokio::spawn(async move {
        for n in 0..100 {
            peer.send(Ok(n.to_string())).await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    // Two in the owner's queue, one held, one in the channel: then the peer stands still.
    let runs_away = async {
        while progress.load(Ordering::Relaxed) <= 4 {
            tokio::task::yield_now().await;
        }
    };
    assert!(
        timeout(Duration::from_millis(200), runs_away)
            .await
            .is_err()
    );
    assert_eq!(progress.load(Ordering::Relaxed), 4);
    for n in 0..100 {
        assert_eq!(soon(rig.incoming.recv()).await.unwrap(), n.to_string());
    }
    soon(sent).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_read_blocks_senders_but_not_the_end() {
    let rig = rig(SessionConfig {
        queue: 4,
        ..SessionConfig::default()
    });
    let mut taken = 0;
    while timeout(Duration::from_millis(200), rig.session.send("x".into()))
        .await
        .is_ok()
    {
        taken += 1;
        assert!(taken <= 4 + 4 + OUTBOUND, "the queue is bounded");
    }
    let ask = rig
        .session
        .ask_within("?".into(), ANSWER, Duration::from_millis(50));
    assert_eq!(soon(ask).await, Err(AskError::NotSent { kind: ANSWER }));
    rig.session.close(None);
    let mut incoming = rig.incoming;
    assert_eq!(soon(incoming.recv()).await, None);
}

#[tokio::test]
async fn the_peer_gets_the_status_it_was_closed_with() {
    let mut rig = rig(SessionConfig::default());
    rig.session.send("last".into()).await.unwrap();
    assert_eq!(soon(rig.outgoing.next()).await.unwrap().unwrap(), "last");
    rig.session
        .close(Some(Status::permission_denied("unknown node")));
    let end = soon(rig.outgoing.next()).await.unwrap().unwrap_err();
    assert_eq!(
        (end.code(), end.message()),
        (Code::PermissionDenied, "unknown node")
    );
}

#[tokio::test]
async fn dropping_every_handle_ends_the_session() {
    let mut rig = rig(SessionConfig::default());
    drop(rig.session);
    assert!(soon(rig.outgoing.next()).await.is_none());
}

#[tokio::test]
async fn what_arrived_before_the_connection_broke_still_reaches_the_owner() {
    let mut rig = rig(SessionConfig {
        incoming: 1,
        ..SessionConfig::default()
    });
    let peer = rig.peer;
    tokio::spawn(async move {
        for n in 0..10 {
            peer.send(Ok(n.to_string())).await.unwrap();
        }
        peer.send(Err(Status::unavailable("connection lost")))
            .await
            .unwrap();
    });
    drop(rig.outgoing);
    let ask = rig.session.ask("?".into(), ANSWER);
    assert_eq!(soon(ask).await, Err(AskError::Disconnected));
    for n in 0..10 {
        assert_eq!(soon(rig.incoming.recv()).await.unwrap(), n.to_string());
    }
    assert_eq!(soon(rig.incoming.recv()).await, None);
}
