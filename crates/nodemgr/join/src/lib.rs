//! How a machine becomes a Node: Muster is put on it through its executor, and it calls the Unit's identity manager.
//!
//! # Entry points
//! * [`UnitFile`] is what a Unit is to those who join: addresses, certificates, and where its authority is. `muster up` writes
//!   one, operators write their own: a Unit on another machine is called with an operator's certificate.
//! * [`wait_ready`] waits for a machine that is booting.
//! * [`Facts::ask`] looks at a machine; [`plan`] decides what is to be done there, or why it cannot be; [`install`] does it.
//!   After that the node's identity manager runs and has called the Main Node's.
//! * [`begin_work`] starts everything else, once the node is provisioned.
//! * [`restart`] starts a node again after its machine was started or rebooted.
//!
//! # What a machine gets
//! | what | where |
//! |---|---|
//! | programs | `/opt/muster/bin` |
//! | configuration, keys, state | `/var/lib/muster/node` |
//! | sockets | `/run/muster-node` |
//! | all of that on its way, from the first try until it is in its places | `.muster-join` in the home of whoever logs in |
//! | on machines with systemd, a service that starts the node at every boot | `muster-node.service` |
//!
//! On other machines the node runs until the machine stops, and the node manager starts it again with the machine. Instances are programs of the native runtime and use the machine's
//! own network, whichever the Unit has for them: a machine may be a container itself. What such an instance offers is reached at
//! the machine's address, not at the one that the Unit gave it.
//!
//! # What a machine needs
//! A shell with the usual tools, as busybox has them, the C library that the programs are linked with, root, a home of whoever logs
//! in where programs can be executed, and a way to the Main Node; no address of its own, since it is the node that calls. A container need not be privileged, but instances have roots and
//! mounts of their own: it needs the capability `SYS_ADMIN`, `seccomp: unconfined` because the engine's profile keeps every
//! container from changing roots, `apparmor: unconfined` where the engine's kernel has AppArmor, and `/var/lib/muster` and `/run`
//! outside of its own layers (`mounts: [/var/lib/muster, {type: tmpfs, target: /run}]`).
//!
//! # Invariants
//! * Installing again brings and changes nothing that is the same, and restarts nothing.
//! * A copy that was cut goes on at the next try; nothing is brought to where others may write.
//! * Keys are made on the machine and never leave it; no secret is sent there.
//! * Whatever is refused is refused before anything is changed.
//!
//! # What this crate does not do
//! It certifies nobody: whoever has the authority provisions the node through the Main Node's identity manager, as for any other
//! node. It takes no node out of a Unit; destroying the machine is not enough for that.

#![forbid(unsafe_code)]

mod carry;
mod elf;
mod facts;
mod kept;
mod plan;
mod ready;
mod stage;
mod unit;

pub use self::carry::{JoinError, begin_work, install, restart};
pub use self::facts::{Facts, FactsError};
pub use self::plan::{Plan, Refusal, plan};
pub use self::ready::{NotReady, has_answered, wait_answer, wait_ready};
pub use self::unit::{Credentials, UnitFile, UnitFileError};
