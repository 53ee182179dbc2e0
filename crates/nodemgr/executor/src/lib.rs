//! How commands and files reach a machine: the [`Executor`] trait, what every executor promises, and the two that this crate
//! brings: this machine itself, and SSH.
//!
//! # Entry points
//! * [`Executor`] is the trait, held as `Arc<dyn Executor>`. An executor gives five things: [`run`](Executor::run) a
//!   [`Command`], [`attach`](Executor::attach) a terminal, [`files`](Executor::files) below a folder,
//!   [`connect`](Executor::connect) to a port, and its capabilities. Everything else is built on these once, for all:
//!   [`copy`](Executor::copy), [`sync`](Executor::sync), [`probe`](Executor::probe), [`power`](Executor::power), and
//!   [`Forwarder`].
//! * [`Running`] is a command that runs: input, output in the order in which it came, and how it ended. Dropping it kills it.
//! * [`Transfer`] says what is to be copied where, and [`transfer::plan`] decides what has to be done for it.
//!   [`Files`](files::Files) is the small trait over which that is done: the local file system, SFTP, Docker's archives.
//! * [`back::bring_back`] brings back only what changed in the machine since a folder was brought there.
//! * [`local::LocalExecutor`] and [`ssh::SshExecutor`] are the executors. [`script`] is the small shell program by which a
//!   command gets its folder, variables, user and process group where a transport cannot give them.
//! * [`ExecutorError`] says what failed with which object, and by its [`FailureClass`] what that means for the caller.
//! * `testing` (feature `testing`) is the conformance suite that every executor passes.
//!
//! # What an executor promises
//! 1. Standard output and error are separate, complete and in order; bytes pass as they are.
//! 2. A command that takes too long, or that nobody wants any more, is killed with every process of its group, also
//!    of those that became somebody else by `sudo`, if whoever logged in may become that user without a password.
//! 3. A command that does not exist fails as not started; one that runs ends by a code or by a signal, and says which.
//! 4. A copied file is there wholly or not at all under its name; a copy that was cut goes on where it was, if what is there
//!    already is what it should be.
//! 5. Whatever a machine says is in a folder, nothing is read or written outside of the two folders of a copy.
//! 6. A host key that is not the pinned one is refused before anything is sent; nothing is trusted on first use unless the
//!    caller says so.
//!
//! # Tasks
//! One per running command (it owns the process or channel, and ends with it), one per SFTP session, and those of russh: one
//! per connection. Each ends by itself when its handle is dropped. A [`Forwarder`] is a future that the caller runs.
//!
//! # What this crate does not do
//! It keeps nothing and knows no machines: whoever asks brings the address and the keys. Owners, special files and
//! set-user-id bits are never copied. A command whose connection was lost may go on in the machine.

pub mod back;
mod command;
mod error;
mod executor;
pub mod files;
mod forward;
mod gather;
mod linger;
pub mod local;
mod power;
mod rsync;
mod running;
pub mod script;
mod sftp;
mod signal;
pub mod ssh;
#[cfg(feature = "testing")]
pub mod testing;
pub mod transfer;

pub use command::{Command, Exit, Size, Terminal};
pub use error::{BoxError, ExecutorError, FailureClass, Operation};
pub use executor::{Answer, Executor, TcpLike};
pub use forward::Forwarder;
pub use muster_provider::{Capabilities, Capability, Means, Transport};
pub use power::PowerVerb;
pub use running::{
    Attached, Chunk, Driver, InputClosed, Output, Resizer, Running, Stdin, attached, running,
};
pub use signal::{signal_name, signal_number};
pub use transfer::{Direction, Progress, Report, Transfer, WithoutRsync};
