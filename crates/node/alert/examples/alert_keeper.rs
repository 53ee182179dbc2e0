//! A small daemon that takes alerts from a journal and delivers them to its standard output, for tests that hurt it.
//!
//! `alert_keeper FOLDER JOURNAL [LAST]`: each `alert NUMBER TEXT` that it prints is delivered, and confirmed afterwards. It
//! ends when it has confirmed one whose text ends in LAST. `ready` comes first.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_alert::{
    AlertId, AlertSettings, Alerts, InstanceUnit, InstanceUnits, JournalSettings, Outbox, SCHEMA,
};
use muster_api::domain::{AlertKind, InstanceFilter};
use muster_store::{OnDamage, Store, StoreConfig, spool};
use muster_telemetry::{CancellationToken, LogOptions};

#[derive(Debug)]
struct NoInstances;

impl InstanceUnits for NoInstances {
    fn by_unit(&self, _: &str) -> Option<InstanceUnit> {
        None
    }

    fn find(&self, _: &InstanceFilter) -> Vec<InstanceUnit> {
        Vec::new()
    }
}

/// Written past every buffer, so that a kill cannot hide what was said.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

async fn deliver(outbox: Outbox, last: Option<String>) {
    let mut news = outbox.news();
    loop {
        let batch = outbox.next_batch(AlertId::START, 16).await;
        let batch = batch.expect("alerts");
        let mut is_last = false;
        for (id, alert) in &batch {
            let AlertKind::System { message } = &alert.kind else {
                panic!("{alert:?}");
            };
            say(&format!("alert {} {message}", id.number()));
            is_last |= last.as_ref().is_some_and(|last| message.ends_with(last));
        }
        if let Some((id, _)) = batch.last() {
            // A full disk is a reason to deliver once more.
            if outbox.confirm(*id).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
            if is_last {
                return;
            }
        } else if news.changed().await.is_err() {
            return;
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    muster_fault::init(&[muster_alert::FAULT_POINTS, muster_store::FAULT_POINTS]);
    let _log = muster_telemetry::init(&LogOptions::default()).expect("a log");
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("FOLDER");
    let journal = arguments.next().expect("JOURNAL");
    let last = arguments.next();
    let config = StoreConfig::new(
        Path::new(&folder).join("sm.db"),
        "alert_keeper 1",
        OnDamage::Refuse,
    );
    let store = Store::open(&config.schema(&SCHEMA).schema(&spool::SCHEMA));
    let store = store.expect("the store").store;
    let alerts = Alerts::open(store, AlertSettings::default()).await;
    let alerts = alerts.expect("the alerts");
    let settings = JournalSettings {
        dirs: vec![journal.into()],
        ..JournalSettings::default()
    };
    let source = alerts.journal(settings, Arc::new(NoInstances));
    let source = source.expect("the journal");
    let outbox = alerts.outbox();
    let stop = CancellationToken::new();
    tokio::spawn(alerts.run(stop.clone()));
    tokio::spawn(source.run(stop));
    say("ready");
    deliver(outbox, last).await;
}
