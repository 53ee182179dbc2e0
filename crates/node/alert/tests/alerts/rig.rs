//! A node's alerts, and a journal that is written by the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_alert::{
    AlertHandle, AlertId, AlertSettings, Alerts, InstanceUnit, InstanceUnits, JournalSettings,
    Outbox, SCHEMA,
};
use muster_api::domain::{
    Alert, AlertKind, InstanceFilter, InstanceIdent, ItemId, ItemType, SubjectId, Timestamp,
};
use muster_journal::{EntryTime, Id128, JournalWriter, SeqnumSource, WriterOptions};
use muster_store::{OnDamage, Store, StoreConfig, spool};
use muster_telemetry::CancellationToken;
use tokio::task::JoinHandle;

/// For everything that is expected to happen.
pub(crate) const TIME: Duration = Duration::from_secs(30);

pub(crate) fn open_store(folder: &Path) -> Store {
    let config = StoreConfig::new(folder.join("sm.db"), "test 1", OnDamage::Refuse);
    let opened = Store::open(&config.schema(&SCHEMA).schema(&spool::SCHEMA));
    opened.expect("the store").store
}

pub(crate) fn system(message: &str) -> Alert {
    Alert {
        timestamp: Timestamp::try_from(SystemTime::now()).expect("a time"),
        kind: AlertKind::System {
            message: message.to_owned(),
        },
    }
}

/// A number in letters: numbers in texts are not regarded.
pub(crate) fn letters(number: usize) -> String {
    let digit = |digit: u8| char::from(b'a' + (digit - b'0'));
    number.to_string().bytes().map(digit).collect()
}

/// What an alert says.
pub(crate) fn text(alert: &Alert) -> &str {
    match &alert.kind {
        AlertKind::System { message }
        | AlertKind::Core { message, .. }
        | AlertKind::Instance { message, .. }
        | AlertKind::ResourceAllocate { message, .. } => message,
        AlertKind::SystemQuota { .. } | AlertKind::InstanceQuota { .. } => "",
    }
}

pub(crate) fn ident() -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").expect("an id"),
        subject_id: SubjectId::new("subject").expect("an id"),
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

/// The unit of the only instance.
pub(crate) fn instance_unit() -> String {
    format!("muster-container-{}-1.service", ident().instance_id())
}

#[derive(Debug)]
pub(crate) struct OneInstance;

impl OneInstance {
    fn instance() -> InstanceUnit {
        InstanceUnit {
            ident: ident(),
            version: "1.2.3".to_owned(),
            unit: instance_unit(),
        }
    }
}

impl InstanceUnits for OneInstance {
    fn by_unit(&self, unit: &str) -> Option<InstanceUnit> {
        (unit == instance_unit()).then(Self::instance)
    }

    fn find(&self, filter: &InstanceFilter) -> Vec<InstanceUnit> {
        let instance = Self::instance();
        let is_meant = filter.matches(&instance.ident);
        is_meant.then_some(instance).into_iter().collect()
    }
}

/// The tasks of a node.
pub(crate) struct Node {
    pub(crate) store: Store,
    pub(crate) handle: AlertHandle,
    pub(crate) outbox: Outbox,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<Result<(), std::convert::Infallible>>>,
}

impl Node {
    /// Without a journal.
    pub(crate) async fn start(folder: &Path, settings: AlertSettings) -> Self {
        Self::with(folder, settings, None).await
    }

    /// With a journal in these folders.
    pub(crate) async fn follow(folder: &Path, dirs: &[&Path]) -> Self {
        let settings = JournalSettings {
            dirs: dirs.iter().map(|dir| dir.to_path_buf()).collect(),
            ..JournalSettings::default()
        };
        Self::with(folder, AlertSettings::default(), Some(settings)).await
    }

    pub(crate) async fn with(
        folder: &Path,
        settings: AlertSettings,
        journal: Option<JournalSettings>,
    ) -> Self {
        let store = open_store(folder);
        let alerts = Alerts::open(store.clone(), settings).await.expect("alerts");
        let stop = CancellationToken::new();
        let source = journal.map(|journal| {
            let source = alerts.journal(journal, Arc::new(OneInstance));
            source.expect("settings that make sense")
        });
        let (handle, outbox) = (alerts.handle(), alerts.outbox());
        let mut tasks = vec![tokio::spawn(alerts.run(stop.clone()))];
        tasks.extend(source.map(|source| tokio::spawn(source.run(stop.clone()))));
        Self {
            store,
            handle,
            outbox,
            stop,
            tasks,
        }
    }

    /// The journal has been looked at for the first time, and its place is known.
    pub(crate) async fn has_begun(&self) {
        let begun = || async {
            let count = self.store.read(|db| {
                db.query_row("SELECT count(*) FROM alert_settings", [], |row| {
                    row.get::<_, i64>(0)
                })
            });
            (count.await.expect("a count") > 0).then_some(())
        };
        poll(begun, "the journal was looked at").await;
    }

    /// Takes alerts until one ends with this text, and confirms them.
    pub(crate) async fn take_until(&self, last: &str) -> Vec<Alert> {
        let mut taken = Vec::new();
        let take = async {
            let mut news = self.outbox.news();
            loop {
                let batch = self.outbox.next_batch(AlertId::START, 100).await;
                let batch = batch.expect("a batch");
                if let Some((id, _)) = batch.last() {
                    self.outbox.confirm(*id).await.expect("confirmed");
                } else {
                    news.changed().await.expect("news");
                }
                taken.extend(batch.into_iter().map(|(_, alert)| alert));
                if taken.iter().any(|alert| text(alert).ends_with(last)) {
                    return;
                }
            }
        };
        if tokio::time::timeout(TIME, take).await.is_err() {
            panic!("no alert {last:?} among {taken:#?}");
        }
        taken
    }

    /// Ends the tasks and closes the database.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.expect("a task").expect("no error");
        }
        self.store.close().await.expect("closed");
    }
}

/// Waits until there is something.
pub(crate) async fn poll<T, F: Future<Output = Option<T>>>(look: impl Fn() -> F, what: &str) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let found = tokio::time::timeout(TIME, found).await;
    found.unwrap_or_else(|_| panic!("not within {TIME:?}: {what}"))
}

/// The log daemon's part: appends, rotates, removes.
pub(crate) struct Log {
    dir: PathBuf,
    name: &'static str,
    options: WriterOptions,
    writer: Option<JournalWriter>,
    archived: Vec<PathBuf>,
}

impl Log {
    pub(crate) fn new(dir: &Path, name: &'static str) -> Self {
        std::fs::create_dir_all(dir).expect("a folder");
        let mut options = WriterOptions::new(id(1), id(2));
        options.max_size = 256 << 20;
        let mut numbers = [0; 16];
        numbers[..name.len()].copy_from_slice(name.as_bytes());
        let numbers = SeqnumSource {
            id: Id128::from_bytes(numbers),
            next: 1,
        };
        let writer = JournalWriter::create(&path(dir, name), &options, numbers);
        Self {
            dir: dir.to_owned(),
            name,
            options,
            writer: Some(writer.expect("a journal")),
            archived: Vec::new(),
        }
    }

    fn writer(&mut self) -> &mut JournalWriter {
        self.writer.as_mut().expect("open")
    }

    /// An entry of the unit `a.service`.
    pub(crate) fn say(&mut self, priority: u8, message: &str) {
        self.append(&[
            format!("MESSAGE={message}"),
            format!("PRIORITY={priority}"),
            "_SYSTEMD_UNIT=a.service".to_owned(),
        ]);
    }

    pub(crate) fn append<T: AsRef<[u8]>>(&mut self, fields: &[T]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = u64::try_from(now.expect("a time").as_micros()).expect("a time");
        self.append_at(now, fields);
    }

    pub(crate) fn append_at<T: AsRef<[u8]>>(&mut self, now: u64, fields: &[T]) {
        let boot_id = id(2);
        let boot = format!("_BOOT_ID={boot_id}");
        let mut all: Vec<&[u8]> = fields.iter().map(AsRef::as_ref).collect();
        all.push(boot.as_bytes());
        let when = EntryTime {
            realtime: now,
            monotonic: now,
            boot_id,
        };
        self.writer().append(when, &all).expect("appended");
        self.writer().notify_readers().expect("told");
    }

    /// Begins a new file; where the old one is.
    pub(crate) fn rotate(&mut self) -> PathBuf {
        let numbers = self.writer().seqnums();
        let done = self.writer.take().expect("open").archive().expect("done");
        let archived = format!(
            "{}@{}-{:016x}-{:016x}.journal",
            self.name, done.seqnum_id, done.head_seqnum, done.head_realtime
        );
        let archived = self.dir.join(archived);
        std::fs::rename(path(&self.dir, self.name), &archived).expect("renamed");
        self.archived.push(archived.clone());
        let writer = JournalWriter::create(&path(&self.dir, self.name), &self.options, numbers);
        self.writer = Some(writer.expect("a journal"));
        archived
    }

    /// Removes all files that are done.
    pub(crate) fn vacuum(&mut self) {
        for file in self.archived.drain(..) {
            std::fs::remove_file(file).expect("removed");
        }
    }
}

fn path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.journal"))
}

fn id(number: u8) -> Id128 {
    Id128::from_bytes([number; 16])
}
