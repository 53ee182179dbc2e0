//! What the node has to give out to instances: devices, folders, groups, variables, host names.
//!
//! A resource is a name with something behind it. The resources file of a node says what: which devices and folders of the
//! host, which groups, variables and host names come with the name, and how many instances may have it at a time. An item asks
//! for names; this crate gives all of them or none, remembers who has what, and tells the controller what the node has.
//!
//! ```json
//! [{
//!     "name": "camera", "sharedCount": 1, "groups": ["video"], "devices": ["/dev/video0:/dev/camera"],
//!     "mounts": [{"source": "/opt/models", "destination": "/models", "options": ["ro"]}],
//!     "env": ["CAMERA=/dev/camera"], "hosts": [{"ip": "10.0.0.1", "hostname": "camera.local"}]
//! }]
//! ```
//!
//! # Entry points
//! * [`ResourceManager::start`] recovers who has what, reads the resources file and gives the handle and the one task, which has
//!   to run before the launcher starts. The handle is the launcher's
//!   [`Resources`](muster_launcher::seams::Resources): `take`, `release`, `keep_only`, `scarce`.
//! * [`ResourceManager::resources`] and [`ResourceManager::subscribe`] are for the node's announcement to the controller.
//! * [`ResourceTable::load`] reads a resources file alone.
//!
//! # What is given
//! [`Ledger::plan`] decides, purely: a request is refused if the resource is not described, if as many instances as
//! `sharedCount` says have it (0 is unlimited), if one of its devices is missing, or if it is asked for in a mode that does not
//! exist. Every refusal says which resource and why, for a taken share also who has it; it is the error of the start and an
//! alert. Modes are made of the letters `r`, `w` and `m`; without `w`, the folders of the resource are given read-only. Devices
//! are given as they are on the host: what may be done with one is up to its permissions and the instance's groups.
//!
//! A second `take` of the same instance replaces its first one, so repeating it after a death is harmless. What an instance has
//! it keeps, whatever happens to the file: a lower `sharedCount` or a name that vanished only holds for others.
//!
//! # Hot-plug
//! A resource is announced while all its devices are there. The folders of devices are watched (creation and removal of names
//! only: every program that writes to `/dev/null` would wake a watch for more), as is the resources file; changes are looked at
//! together, [`Settings::settle`] after the first. Where watching is not possible, looks are taken every
//! [`Settings::look_every`]. A device that vanishes while an instance has it is one alert, and another one when it came back
//! and went again; whether the instance can live without it is for the instance to say.
//!
//! A resources file that cannot be used is an error in the log with every problem and its line. At a start the node then has no
//! resources until it is mended, later it goes on with what it had.
//!
//! # Tasks and channels
//! | task | in | out |
//! |---|---|---|
//! | resources, one | requests (bounded to 32), changes in watched folders | database, then the answer; alerts; what is announced (watched) |
//!
//! # Invariants
//! * What is given is on disk before it is answered; what is taken back is off disk before it is given to another.
//! * Never more instances than `sharedCount` get a resource; a refused request changes nothing.
//!
//! # What this crate does not do
//! It makes no device node and no mount: that is the runtime's work, which also says when a folder or group does not exist.

mod access;
mod database;
mod fault;
mod ledger;
mod manager;
mod presence;
mod refusal;
mod table;
mod watch;

pub use self::access::{Access, UnknownMode};
pub use self::database::{LoadHoldsError, SCHEMA};
pub use self::fault::FAULT_POINTS;
pub use self::ledger::{Allocation, Ledger};
pub use self::manager::{ResourceManager, Settings, StartResourcesError};
pub use self::presence::{Absence, Missing};
pub use self::refusal::{AllocateError, Refusal, RefusalReason};
pub use self::table::{Resource, ResourceTable};
