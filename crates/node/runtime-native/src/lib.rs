//! Instances as sandboxed programs of the host, each a unit of the init system at hand: for hosts without an OCI runtime, and
//! for users without root.
//!
//! ```text
//!   launcher --InstanceSpec--> NativeRuntime --UnitSpec--> muster-core | systemd
//!                                   |                            |
//!                         plan in FOLDER/ID        muster-native-exec start: the sandbox, then the program itself
//!                                                  muster-native-exec end  (after each end)
//! ```
//!
//! # What a program sees
//! | | |
//! |---|---|
//! | `/` | its image, read-only |
//! | `/usr`, `/bin`, `/sbin`, `/lib*`, `/etc` | its image's over the host's, read-only: programs find the host's libraries beside their own files. Which folders: [`NativeConfig::beside`] |
//! | `/proc` | its own processes (where the kernel lets us), `/dev`: null, zero, full, random, urandom, tty and what it was granted |
//! | `/tmp`, `/run`, `/dev/shm` | empty, in memory, limited |
//! | `/storage`, `/state.dat`, resources | as granted |
//! | the rest of the host | not there; neither is `/sys` |
//!
//! It runs as its user, without capabilities, without a way to get any, with a deny list of system calls ([`DENIED_CALLS`]) and
//! without new namespaces, with its own mount, IPC, UTS and network namespace (unless [`NativeConfig::host_network`] says
//! otherwise), in a cgroup with its limits. It is *not* in a PID namespace: the program itself is the unit's main process, with
//! nothing beside it.
//!
//! # Without root, and where the kernel refuses
//! Everything is tried (a user namespace first, which makes most of the rest possible). What could not be had is *dropped*, by the
//! name that the setting has in unit files where it has one: it is written to the unit's log and kept in the instance's folder,
//! and the instance's status tells it ([`muster_runtime::RunPlace::lacks`]). [`NativeConfig::strict`] makes any drop a failure instead. What was granted to a program, and the
//! network that was made for it, are never dropped.
//!
//! # Who does what
//! * [`plan`] decides. Pure.
//! * [`Natives`] is what [`muster_bundle::Supervised`] needs to know; the two together are the [`NativeRuntime`].
//! * [`sandbox`] is carried out in the unit, by the program `muster-native-exec`: nothing is ever mounted outside of it, so
//!   nothing can be left mounted. Sandboxes are made by [`muster_exec`], as those of unit files are; here is only what unit files
//!   have no words for: an image of layers over folders of the host, and limits below the unit's own group.
//!
//! # Tasks and channels
//! None of its own; see [`muster_bundle`].
//!
//! # Deliberately absent
//! Capabilities, kernel settings and a root that can be written to (items that ask are refused by name), PID namespaces, and, with
//! root, user namespaces (an item that asks is told that it runs without).

pub mod plan;
mod runtime;
pub mod sandbox;

pub use self::runtime::{NativeConfig, NativeError, NativeRuntime, Natives, UNIT_PREFIX};
pub use self::sandbox::DENIED_CALLS;
