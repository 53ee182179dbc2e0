//! A link that is cut again and again, at any byte, in every way; and what must hold nevertheless.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_lab::proxy::{Direction, TcpProxy};
use muster_rpc::link::{LinkLimits, WindowLimits};
use muster_rpc::server::ServerConfig;
use muster_rpc::session::SessionConfig;
use muster_rpc::slots::{AskError, SlotLimits};
use muster_rpc::{Keepalive, LinkStatus, StreamBuilder, StreamConfig, StreamHandle};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::rig::*;

const WINDOW: usize = 32;
const KEEPALIVE: Keepalive = Keepalive {
    interval: Duration::from_millis(60),
    timeout: Duration::from_millis(60),
};
const ASK: Duration = Duration::from_millis(150);

/// What the controller saw.
#[derive(Default)]
struct Seen {
    streams: u64,
    /// Ids of alerts in order of arrival, with the number of their stream.
    alerts: Vec<(u64, u64)>,
    wrong: Vec<String>,
}

#[derive(Default)]
struct Asks {
    answered: AtomicU64,
    failed: AtomicU64,
}

impl Asks {
    fn note(&self, began: Instant, tag: &str, answer: Result<String, AskError>) {
        // The deadline, the grace, and what a loaded machine adds.
        assert!(
            began.elapsed() < ASK + Duration::from_secs(2),
            "a request hung"
        );
        match answer {
            Ok(answer) => {
                assert_eq!(answer, tag, "a request got another's answer");
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn config() -> StreamConfig {
    let quick = quick();
    let window = WindowLimits {
        messages: WINDOW,
        bytes: 64 * 1024,
        probe_delay: Duration::from_millis(2),
        probe_timeout: Duration::from_millis(120),
        retry: Duration::from_millis(5),
    };
    let slots = SlotLimits {
        deadline: ASK,
        drain: Duration::from_secs(5),
        queue: 4,
    };
    StreamConfig {
        limits: LinkLimits {
            window,
            slots,
            ..quick.limits
        },
        keepalive: KEEPALIVE,
        linger: Duration::from_millis(300),
        ..quick
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_durable_is_lost_over_many_cuts() {
    let cuts = muster_lab::rounds(200, 5000);
    let mut random = StdRng::seed_from_u64(muster_lab::seed());
    let server_config = ServerConfig {
        keepalive: KEEPALIVE,
        ..ServerConfig::default()
    };
    let slots = config().limits.slots;
    let sessions = SessionConfig {
        slots,
        ..SessionConfig::default()
    };
    let (server, mut streams) = start_cm(server_config, sessions).await;
    let proxy = TcpProxy::new(server.address()).unwrap();

    let seen = Arc::new(Mutex::new(Seen::default()));
    let asks = Arc::new(Asks::default());
    let done = Arc::new(AtomicBool::new(false));
    let controller = tokio::spawn({
        let (seen, asks) = (Arc::clone(&seen), Arc::clone(&asks));
        async move {
            // One after the other: what arrived on a broken stream comes before the next one's.
            while let Some(stream) = streams.recv().await {
                serve_stream(stream, Arc::clone(&seen), Arc::clone(&asks)).await;
            }
        }
    });

    let spool = MemorySpool::new();
    let (handle, incoming) = StreamBuilder::<SmEnd>::new(target(proxy.addr()), config())
        .hello(hello)
        .spool(Arc::clone(&spool) as _)
        .start();
    let answering = tokio::spawn(answer_controller(incoming, handle.clone()));
    let feeding = tokio::spawn(feed(handle.clone(), Arc::clone(&spool), Arc::clone(&done)));
    let asking = tokio::spawn(ask_controller(
        handle.clone(),
        Arc::clone(&asks),
        Arc::clone(&done),
    ));

    for cut in 0..cuts {
        let before = handle.stats();
        hurt(&proxy, &mut random).await;
        let hurt_at = Instant::now();
        let mut status = handle.status();
        eventually(&format!("cut {cut} is noticed and healed"), || {
            let now = handle.stats();
            // A trap may lie beyond what is sent: do not wait for it for ever. Everything else is
            // left to be noticed by the link itself.
            if now.broken == before.broken && hurt_at.elapsed() > Duration::from_millis(400) {
                proxy.reset();
            }
            now.broken > before.broken && now.opened > before.opened
        })
        .await;
        soon(status.wait_for(|status| *status == LinkStatus::Connected))
            .await
            .unwrap();
    }
    done.store(true, Ordering::Relaxed);
    feeding.await.unwrap();
    asking.await.unwrap();
    eventually("everything is confirmed", || spool.len() == 0).await;
    handle.stop().await;
    answering.await.unwrap();
    server.shutdown().await;
    controller.await.unwrap();

    let stats = handle.stats();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.wrong, Vec::<String>::new());
    check_arrivals(&seen.alerts, spool.confirmed(), stats.broken);
    assert!(stats.broken >= u64::from(cuts));
    let answered = asks.answered.load(Ordering::Relaxed);
    assert!(
        answered > u64::from(cuts),
        "only {answered} requests were answered"
    );
    eprintln!(
        "{cuts} cuts, {} streams, {} alerts, {} arrivals, {answered} answers, {} failed requests, {stats:?}",
        seen.streams,
        spool.confirmed(),
        seen.alerts.len(),
        asks.failed.load(Ordering::Relaxed),
    );
}

/// At least once, first arrivals in order, repeats bounded by what one cut can cost.
fn check_arrivals(alerts: &[(u64, u64)], last: u64, breaks: u64) {
    let arrived: BTreeSet<u64> = alerts.iter().map(|(id, _)| *id).collect();
    let lost: Vec<u64> = (1..=last).filter(|id| !arrived.contains(id)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let mut expected = 1;
    for (id, _) in alerts {
        assert!(*id <= expected, "{id} arrived before {expected}");
        if *id == expected {
            expected += 1;
        }
    }
    let repeats = alerts.len() as u64 - last;
    let most = breaks * WINDOW as u64;
    assert!(repeats <= most, "{repeats} repeats in {breaks} breaks");
    for pair in alerts.windows(2) {
        if pair[0].1 == pair[1].1 {
            assert_eq!(
                pair[1].0,
                pair[0].0 + 1,
                "a gap or a repeat within one stream"
            );
        }
    }
}

async fn hurt(proxy: &TcpProxy, random: &mut StdRng) {
    let ways = if random.random() {
        Direction::ToServer
    } else {
        Direction::ToClient
    };
    // Let some traffic pass first, so that cuts fall everywhere.
    tokio::time::sleep(Duration::from_millis(random.random_range(0..15))).await;
    match random.random_range(0..10) {
        0..=4 => {
            proxy.cut_after(ways, random.random_range(1..6000));
            // Traffic springs the trap; on a quiet link it is sprung for it.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        5..=6 => proxy.cut(),
        7..=8 => proxy.reset(),
        _ => {
            proxy.blackhole();
            tokio::time::sleep(KEEPALIVE.interval + KEEPALIVE.timeout).await;
            proxy.forward();
        }
    }
}

async fn serve_stream((session, mut incoming): Accepted, seen: Arc<Mutex<Seen>>, asks: Arc<Asks>) {
    let stream = {
        let mut seen = seen.lock().unwrap();
        seen.streams += 1;
        seen.streams
    };
    let asker = tokio::spawn({
        let session = session.clone();
        async move {
            for n in 0.. {
                let (tag, began) = (format!("{stream}.{n}"), Instant::now());
                let answer = session.ask(check_config(&tag), CONFIG_STATUS).await;
                let gone = answer == Err(AskError::Disconnected);
                asks.note(began, &tag, answer.map(config_tag));
                if gone {
                    break;
                }
            }
        }
    });
    let mut nth = 0;
    while let Some(message) = incoming.recv().await {
        if let Some(expected) = hello().get(nth)
            && *expected != message
        {
            let wrong = format!("stream {stream} has at {nth} not hello but {message:?}");
            seen.lock().unwrap().wrong.push(wrong);
        }
        nth += 1;
        match message.sm_outgoing_message {
            Some(Out::Log(log)) => {
                // The session may just have ended; then nobody waits for this.
                let _ = session.send(echo_reply(&log.correlation_id)).await;
            }
            other => {
                let text = alert_text(sm_message(other));
                if let Some(id) = text.and_then(|text| text.split(' ').next()?.parse().ok()) {
                    seen.lock().unwrap().alerts.push((id, stream));
                }
            }
        }
    }
    asker.await.unwrap();
}

fn sm_message(message: Option<Out>) -> muster_api::servicemanager::v5::SmOutgoingMessages {
    muster_api::servicemanager::v5::SmOutgoingMessages {
        sm_outgoing_message: message,
    }
}

/// Answers the controller, now and then too late.
async fn answer_controller(
    mut incoming: muster_rpc::StreamIncoming<SmEnd>,
    handle: StreamHandle<SmEnd>,
) {
    let mut count = 0_u64;
    while let Some(received) = incoming.recv().await {
        if let Some(In::CheckNodeConfig(check)) = received.message.sm_incoming_message {
            count += 1;
            if count.is_multiple_of(50) {
                tokio::time::sleep(ASK + Duration::from_millis(20)).await;
            }
            // The link may just have been stopped.
            let _ = handle
                .reply(received.stream, &config_status(&check.version))
                .await;
        }
    }
}

async fn feed(handle: StreamHandle<SmEnd>, spool: Arc<MemorySpool>, done: Arc<AtomicBool>) {
    let mut random = StdRng::seed_from_u64(7);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..random.random_range(1..8) {
            let filler = "x".repeat(random.random_range(0..2000));
            spool.append(|id| alert(&format!("{id} {filler}")));
        }
        handle.spool_offered();
        tokio::time::sleep(Duration::from_millis(1)).await;
        while spool.len() > 4000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn ask_controller(handle: StreamHandle<SmEnd>, asks: Arc<Asks>, done: Arc<AtomicBool>) {
    for n in 0.. {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let (tag, began) = (n.to_string(), Instant::now());
        let answer = handle.ask(&echo_request(&tag), ECHO).await;
        asks.note(began, &tag, answer.map(echo_tag));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
