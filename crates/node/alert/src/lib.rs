//! What goes wrong on a node, told to the controller at least once.

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
