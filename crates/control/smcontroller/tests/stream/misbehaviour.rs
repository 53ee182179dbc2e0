//! What a bad node can do to itself, and not to others.

use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes};
use http::uri::PathAndQuery;
use muster_api::servicemanager::v5 as wire;
use muster_smcontroller::{
    Incident, Limits, NodeCommandError, NodeConfigs as _, NodeNetworks as _, Rate, StreamRefused,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use crate::rig::*;

/// A good node that is asked again and again while something else goes on; how long the slowest answer took.
fn keep_asking(site: &Site, mut until: mpsc::Receiver<()>) -> JoinHandle<(u32, Duration)> {
    let controller = site.controller.clone();
    tokio::spawn(async move {
        let (mut asked, mut slowest) = (0, Duration::ZERO);
        while until.try_recv() == Err(mpsc::error::TryRecvError::Empty) {
            let began = Instant::now();
            let status = controller.node_config_status(&id("good")).await;
            assert_eq!(status.unwrap().version, "good");
            slowest = slowest.max(began.elapsed());
            asked += 1;
        }
        (asked, slowest)
    })
}

#[tokio::test]
async fn a_node_that_floods_is_slowed_down_and_the_others_do_not_notice() {
    let rate = Rate {
        burst: 50,
        per_second: 100,
    };
    let limits = Limits {
        messages: rate,
        reply: TIME,
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let good = site.node("good").await.answer_all("good");
    let bad = site.node("bad").await;
    let (done, until) = mpsc::channel(1);
    let asking = keep_asking(&site, until);
    let began = Instant::now();
    let text = "x".repeat(1000);
    let flood = tokio::spawn(async move { while bad.try_say(alert(&text)).await {} });
    let reported = site.incident().await;
    let slowed = matches!(&reported, Incident::Slowed { node, .. } if *node == id("bad"));
    assert!(slowed, "{reported:?}");
    let mut taken = 0u32;
    while began.elapsed() < Duration::from_secs(2) {
        match timeout(Duration::from_millis(100), site.event()).await {
            Ok(Event::Alert(..)) => taken += 1,
            Ok(other) => panic!("reported once: {other:?}"),
            Err(_) => {}
        }
    }
    let seconds = u32::try_from(began.elapsed().as_secs()).unwrap() + 1;
    let allowed = rate.burst + rate.per_second * seconds;
    assert!(
        taken > rate.per_second,
        "it is slowed, not stopped: {taken}"
    );
    assert!(taken <= allowed, "{taken} of {allowed}");
    drop(done);
    let (asked, slowest) = asking.await.unwrap();
    assert!(asked > 20, "{asked} answers");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    flood.abort();
    site.end().await;
    good.await.unwrap();
}

#[tokio::test]
async fn what_is_not_taken_is_held_back_at_the_node() {
    let mut site = Site::new(quick()).await;
    let good = site.node("good").await.answer_all("good");
    let bad = site.node("bad").await;
    site.hold(&["bad"]);
    // 64 KiB each: neither the queue nor the stream's window can take them all.
    let text = "x".repeat(64 * 1024);
    let mut sent = 0;
    while let Ok(true) = timeout(Duration::from_millis(500), bad.try_say(alert(&text))).await {
        sent += 1;
        assert!(sent < 64, "nothing holds it back");
    }
    assert!(sent >= quick().incoming, "{sent} fit the queue");
    let status = site.controller.node_config_status(&id("good")).await;
    assert_eq!(status.unwrap().version, "good");
    site.hold(&[]);
    let mut taken = 0;
    while taken < sent {
        if let Event::Alert(..) = site.event().await {
            taken += 1;
        }
    }
    site.end().await;
    good.await.unwrap();
}

#[tokio::test]
async fn a_node_that_does_not_read_is_cut_off_and_kept_out_for_a_while() {
    let limits = Limits {
        reply: TIME,
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let good = site.node("good").await.answer_all("good");
    let _stalled = site.node("bad").await;
    let (done, until) = mpsc::channel(1);
    let asking = keep_asking(&site, until);
    let network = wire::UpdateNetworkParameters {
        network_id: "x".repeat(256 * 1024),
        ..Default::default()
    };
    let mut sent = 0;
    let failed = loop {
        let update = site
            .controller
            .update_networks(&id("bad"), vec![network.clone()]);
        match timeout(TIME, update).await.expect("bounded") {
            Ok(()) => sent += 1,
            Err(failed) => break failed,
        }
        assert!(sent < 300, "there is no end to what it takes");
    };
    assert!(
        matches!(failed, NodeCommandError::Stalled { .. }),
        "{failed:?}"
    );
    let Incident::Refused { why, kept_out, .. } = site.incident().await else {
        panic!("it is not reported");
    };
    let waited = quick().stall;
    assert_eq!(why, StreamRefused::Stalled { waited });
    assert_eq!(kept_out, Some(quick().quarantine_first));
    site.wait_for(&Event::gone("bad")).await;
    drop(done);
    let (asked, slowest) = asking.await.unwrap();
    assert!(asked > 5, "{asked} answers");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    // It comes back when it is let in again.
    site.node_when_let_in("bad").await;
    site.end().await;
    good.await.unwrap();
}

/// Carries bytes that need not be a message.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, bytes: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(bytes);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        bytes::Buf::advance(buffer, bytes::Buf::remaining(buffer));
        Ok(Some(()))
    }
}

/// Sends these on one stream; how that ends.
async fn send_raw(site: &Site, node: &str, messages: Vec<Bytes>) -> Status {
    let mut client = Grpc::new(site.channel(node, "sm").await);
    client.ready().await.unwrap();
    let (outgoing, queue) = mpsc::channel(16);
    let request = Request::new(ReceiverStream::new(queue));
    let path = PathAndQuery::from_static("/servicemanager.v5.SMService/RegisterSM");
    let response = client.streaming(request, path, Raw).await;
    let mut incoming = match response {
        Ok(response) => response.into_inner(),
        Err(status) => return status,
    };
    for message in messages {
        // The stream may have been cut meanwhile.
        let _ = outgoing.send(message).await;
    }
    loop {
        match timeout(TIME, incoming.message()).await.expect("an end") {
            Ok(Some(())) => {}
            Ok(None) => return Status::ok("the stream ended"),
            Err(status) => return status,
        }
    }
}

fn encoded(said: Said) -> Bytes {
    prost::Message::encode_to_vec(&message(said)).into()
}

#[tokio::test]
async fn garbage_ends_the_stream_and_each_time_the_node_is_kept_out_longer() {
    let mut site = Site::new(quick()).await;
    let good = site.node("good").await.answer_all("good");
    let garbage = || Bytes::from_static(b"\xff\xff\xff\xff\xff");
    let mut pause = quick().quarantine_first;
    // As the first message, and later.
    for before in [
        vec![],
        vec![encoded(info("bad"))],
        vec![encoded(info("bad"))],
    ] {
        let messages = before.into_iter().chain([garbage()]).collect();
        let began = Instant::now();
        send_raw(&site, "bad", messages).await;
        let Incident::Refused {
            node,
            why,
            kept_out,
            ..
        } = site.incident().await
        else {
            panic!("it is not reported");
        };
        assert_eq!(node, Some(id("bad")));
        assert!(matches!(why, StreamRefused::Undecodable { .. }), "{why:?}");
        assert_eq!(kept_out, Some(pause));
        site.open_when_let_in("bad").await;
        assert!(began.elapsed() >= pause, "let in early");
        pause *= 2;
    }
    let status = site.controller.node_config_status(&id("good")).await;
    assert_eq!(status.unwrap().version, "good");
    site.end().await;
    good.await.unwrap();
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_stream() {
    let limits = Limits {
        message_bytes: 10_000,
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let mut node = site.node("a").await;
    node.say(alert(&"x".repeat(20_000))).await;
    node.end().await;
    let why = site.refusal().await;
    assert!(matches!(why, StreamRefused::Undecodable { .. }), "{why:?}");
    site.wait_for(&Event::gone("a")).await;
    site.end().await;
}

#[tokio::test]
async fn a_stream_begins_with_the_node_and_nothing_else() {
    let mut site = Site::new(quick()).await;
    let mut node = site.open("a").await;
    node.say(alert("too early")).await;
    let status = node.end().await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let found = "Alert";
    assert_eq!(site.refusal().await, StreamRefused::NotHello { found });
    let mut node = site.open("b").await;
    node.say(info("b/../c")).await;
    assert_eq!(node.end().await.code(), Code::InvalidArgument);
    let why = site.refusal().await;
    assert!(matches!(why, StreamRefused::InvalidInfo { .. }), "{why:?}");
    site.end().await;
}

#[tokio::test]
async fn a_little_nonsense_is_thrown_away_and_too_much_of_it_ends_the_stream() {
    let limits = Limits {
        nonsense: Rate {
            burst: 10,
            per_second: 1,
        },
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let mut node = site.node("a").await;
    let nonsense = || {
        Said::UpdateInstancesStatus(wire::UpdateInstancesStatus {
            instances: vec![instance("good", "active"), instance("bad", "confused")],
        })
    };
    for _ in 0..5 {
        node.say(nonsense()).await;
        let good = Event::Changed("a".into(), vec!["good Active".into()]);
        assert_eq!(site.event().await, good, "the good one is passed on");
    }
    for _ in 0..20 {
        node.try_say(Said::Alert(wire::Alert::default())).await;
    }
    let status = node.end().await;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let why = site.refusal().await;
    assert!(matches!(why, StreamRefused::Nonsense { .. }), "{why:?}");
    site.end().await;
}

#[tokio::test]
async fn a_broken_connection_is_no_offence() {
    let mut site = Site::new(quick()).await;
    let proxy = muster_lab::proxy::TcpProxy::new(site.address()).unwrap();
    for round in 0..6 {
        let tls = site.client_tls("a", "sm").await;
        let target = muster_rpc::Target::new(tls, &proxy.addr().to_string()).unwrap();
        let channel = muster_rpc::channel(&target, Default::default());
        let node = Node::open(channel).await.expect("it is not kept out");
        node.say(info("a")).await;
        site.wait_for(&Event::Connected("a".into())).await;
        if round % 2 == 0 {
            proxy.reset();
        } else {
            // In the middle of a message.
            proxy.cut_after(muster_lab::proxy::Direction::ToServer, 5000);
            node.say(alert(&"x".repeat(20_000))).await;
        }
        let seen = site.wait_for(&Event::gone("a")).await;
        let reported = seen.iter().any(|event| matches!(event, Event::Incident(_)));
        assert!(!reported, "{seen:?}");
    }
    site.end().await;
}
