//! What goes wrong on a node, told to the controller at least once.
//!
//! Alerts have two origins. Parts of the Service Manager [raise](AlertSink) them: quotas that are passed, resources that
//! cannot be had. And the journal holds them: what the kernel, the init system, the managers and the instances log as an
//! error. Both are merged when they come in floods, kept in the node's database while the controller is away, and handed
//! out in order until they are confirmed.
//!
//! ```no_run
//! use std::sync::Arc;
//! use muster_alert::{AlertId, AlertSettings, Alerts, InstanceUnits, JournalSettings};
//! use muster_store::{OnDamage, Store, StoreConfig, spool};
//! # use muster_telemetry::CancellationToken;
//! # async fn example(units: Arc<dyn InstanceUnits>, stop: CancellationToken)
//! #     -> Result<(), Box<dyn std::error::Error>> {
//! let config = StoreConfig::new("servicemanager.db", "muster-sm 0.1.0", OnDamage::StartEmpty)
//!     .schema(&muster_alert::SCHEMA)
//!     .schema(&spool::SCHEMA);
//! let alerts = Alerts::open(Store::open(&config)?.store, AlertSettings::default()).await?;
//! let sink = alerts.handle();        // for those who raise
//! let outbox = alerts.outbox();      // for the one who delivers
//! let journal = alerts.journal(JournalSettings::default(), units)?;
//! tokio::spawn(alerts.run(stop.clone()));
//! tokio::spawn(journal.run(stop));
//!
//! let mut news = outbox.news();
//! loop {
//!     for (id, alert) in outbox.next_batch(AlertId::START, 100).await? {
//!         // ... send it; when it has arrived:
//!         outbox.confirm(id).await?;
//!     }
//!     news.changed().await?;
//! }
//! # }
//! ```
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | [`Alerts::run`], the one owner of floods and of everything that is written | raised alerts (bounded queue, [`AlertHandle::raise`](AlertSink::raise) never waits), what the journal's reader found (one at a time, answered when it is on the disk), confirmations | the database; [`Outbox::news`] |
//! | [`JournalSource::run`] | the journal's files, by inotify and every 5 s; read on a thread that may block | what it found, with the place up to which it has read |
//! | whoever delivers, through [`Outbox`] | alerts in order | confirmations |
//!
//! # What becomes an alert
//! Entries of priority 3 (error) or worse, and 4 (warning) or worse of the managers' own units and of what the init system
//! says about units. Filters (regular expressions, bounded) take entries out. An entry from or about the unit of an
//! instance is an instance alert; from or about a manager, a core alert; else a system alert. "About" counts only by the
//! word of process 1 or root.
//!
//! # Invariants
//! - **Nothing is missed.** The place in the journal moves on in the transaction that keeps the alerts of what was read. It
//!   is one number per source of entries, so that daemons that write at the same time do not hide each other's entries.
//!   On its first start ever, a node begins with what comes; from then on it reads everything.
//! - **Repeats are bounded.** An entry becomes an alert once, whenever the process is killed: alerts and place are one
//!   transaction. What was handed out and not confirmed is handed out again.
//! - **Losses are said.** Entries that were vacuumed before they were read, a journal that is removed or unreadable, alerts
//!   that did not fit into the queue or the database: each is a system alert with a number.
//! - **Bounded.** Alerts by count and bytes (the least important and oldest go first: instances, then managers and system,
//!   then quotas and resources), texts, floods, filters, the queue, and what is read of one entry, however large it is.
//! - **No loops.** This crate's own log lines never become alerts, and a failure that lasts is logged once.
//!
//! # Floods
//! Alerts of the same kind and source whose texts differ in numbers only are alike: the first is told at once, those
//! within the next 10 s as one with a count, and so on while they last. Counts survive a restart. Quota alerts are never
//! merged.
//!
//! # What this crate does not do
//! It does not decide when a quota is passed, does not talk to the controller, and does not store log lines: logs are
//! fetched by `muster-logs`. Of users' own journals it sees what lies in the given folders.

mod alerts;
mod database;
mod faults;
mod instances;
mod journal;
mod merge;
mod outbox;
mod settings;
mod sink;
mod text;

pub use self::alerts::{AlertHandle, Alerts, OpenAlertsError};
pub use self::database::SCHEMA;
pub use self::faults::FAULT_POINTS;
pub use self::instances::{InstanceUnit, InstanceUnits, instance_of_unit};
pub use self::journal::{FILTER_BYTES_MAX, FILTERS_MAX, JournalSettingsError, JournalSource};
pub use self::outbox::{AlertId, Outbox, OutboxError};
pub use self::settings::{AlertSettings, JournalSettings, Limits};
pub use self::sink::AlertSink;
