//! Rigs for tests of Muster against the real thing: real processes, networks, disks and peers, and ways
//! to hurt them. A development dependency only: nothing in here ships.
//!
//! | rig | what it gives a test |
//! |---|---|
//! | [`pki`] | a certificate authority: node identities, right and wrong in every way, revocation |
//! | [`program`] | programs under test: captured, killed, stopped, restarted |
//! | [`net`] | hosts on a switch in network namespaces: cut, parted, lossy, slow |
//! | [`proxy`] | a TCP proxy: cut, reset, cut at a byte, swallow, refuse, delay, slow |
//! | [`leaks`] | proof that the test left nothing behind |
//! | [`preflight`], [`require!`] | what the test needs from the machine, or why it is skipped |
//! | [`alone!`] | a process of its own for the test, under any runner |
//! | [`poll_until`], [`rounds`], [`seed`] | waiting for conditions, long runs, repeatable chance |
//! | [`screen`] | a terminal with a program on it: keys, sizes, signals, what is seen |
//! | [`oci`] | images made on the spot |
//! | [`docker`] | Docker's engine, in namespaces of its own |
//! | [`guest`] | machines with a kernel of their own |
//! | [`powercut`] | disks that lose power |
//! | [`machine`] | any init as process 1, in namespaces |
//! | [`muster`], [`peer`] | Muster in such a machine, and systemd, to stand beside |
//! | [`instances`], [`python`] | processes of Muster's instances; Python's grpcio as a peer that is not ours |
//!
//! # Invariants
//! - Every rig owns what it makes, and dropping it takes that away, also when the test panics.
//! - A test process that is killed leaves nothing either: programs die with it, networks exist only
//!   through its descriptors.
//! - Nothing has a name or number that two tests could share; tests run at the same time.
//! - Memory and threads are bounded, and what a bound loses is counted.
//! - Nothing waits for a while; everything waits for a condition with a deadline.
//!
//! There is no runtime in here: rigs use threads, and work under tokio as well as without.
//!
//! # Examples
//! Identities:
//! ```
//! use muster_lab::pki::{CertSpec, Pki};
//! let pki = Pki::new("unit-7")?;
//! let dir = tempfile::tempdir()?;
//! let files = pki.issue(&CertSpec::node("main", "sm").localhost())?.write_to(dir.path(), "sm")?;
//! let ca = pki.write_ca(dir.path(), "ca")?;
//! let stale = pki.issue(&CertSpec::node("main", "sm").expired())?;
//! pki.revoke(&stale)?;
//! assert!(pki.crl_pem()?.contains("X509 CRL") && files.key.exists() && ca.exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! Programs:
//! ```
//! use std::time::Duration;
//! use muster_lab::program::Program;
//! const TIME: Duration = Duration::from_secs(10);
//! let mut daemon = Program::new("/bin/sh").args(["-c", "echo ready; exec sleep 600"]).start()?;
//! daemon.wait_for_line("ready", TIME)?;
//! daemon.sigstop()?; // it hangs
//! daemon.kill9()?; // it crashes
//! daemon.restart()?;
//! daemon.wait_for_line("ready", TIME)?;
//! daemon.terminate(TIME)?;
//! # Ok::<(), muster_lab::program::ProgramError>(())
//! ```
//! Hosts:
//! ```no_run
//! use std::net::TcpListener;
//! use muster_lab::{net::Net, program::Program};
//! let net = Net::new(&["main", "second"])?;
//! let main = net.host("main");
//! let listener = main.run(|| TcpListener::bind((main.ip(), 8093)))?;
//! let client = Program::new("muster-sm").on(net.host("second")).start()?;
//! net.partition("main", "second")?;
//! net.heal("main", "second")?;
//! net.loss(30)?;
//! net.link("second").cut()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! A hostile network path:
//! ```
//! use std::{io::Read, net::{TcpListener, TcpStream}, time::Duration};
//! use muster_lab::proxy::{Direction, TcpProxy};
//! let server = TcpListener::bind("127.0.0.1:0")?;
//! let proxy = TcpProxy::new(server.local_addr()?)?;
//! let mut client = TcpStream::connect(proxy.addr())?;
//! let accepted = server.accept()?;
//! proxy.delay(Duration::from_millis(20));
//! proxy.cut_after(Direction::ToServer, 1000);
//! proxy.reset();
//! assert!(client.read(&mut [0]).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! A test that proves that it leaves nothing:
//! ```no_run
//! # use std::time::Duration;
//! # use muster_lab::{leaks::Watch, net::Net, poll_until};
//! # fn node_joins() {
//! muster_lab::require!(Root, NetNs);
//! muster_lab::alone!();
//! let dir = tempfile::tempdir().unwrap();
//! let before = Watch::own().folder(dir.path()).take().unwrap();
//! let net = Net::new(&["main"]).unwrap();
//! poll_until(Duration::from_secs(10), "the node has joined", || true);
//! drop(net);
//! before.assert_unchanged(Duration::from_secs(10));
//! # }
//! ```

pub mod alone;
mod command;
pub mod docker;
pub mod guest;
pub mod instances;
mod knobs;
pub mod leaks;
pub mod machine;
pub mod muster;
pub mod net;
pub mod oci;
pub mod peer;
pub mod pki;
pub mod powercut;
pub mod preflight;
mod procs;
pub mod program;
pub mod proxy;
pub mod python;
pub mod registry;
pub mod screen;
pub mod time;

pub use self::knobs::{SEED_VARIABLE, SOAK_VARIABLE, rounds, seed};
pub use self::time::{poll_for, poll_until, try_poll_for};
