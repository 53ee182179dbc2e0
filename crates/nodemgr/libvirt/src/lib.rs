//! Virtual machines of libvirt, as a [`Provider`](muster_provider::Provider).
//!
//! A machine is a qcow2 overlay over a base image, a seed disc that cloud-init reads, and a domain whose metadata bears the
//! machine's mark from the call that defines it. libvirt itself is not linked here: it lives in `muster-libvirt-helper`, a
//! program that is started when it is needed and ended when it does not answer.
//!
//! # Entry points
//! * [`LibvirtProvider::open`] with [`Settings`] gives the provider.
//! * [`Catalog`] are the distributions that are known by name: none, but those that [`Settings::catalog`] is given, such as
//!   [`Catalog::published`]. Each has a list of checksums, and comes encrypted or from this host.
//! * [`protocol`], [`metadata`] and [`status`] are what this crate and the helper have in common.
//!
//! # What an order means
//! | field of the machine | meaning here |
//! |---|---|
//! | `image` | an absolute path, a URL with `digest`, or the name of a distribution of the catalog (`debian-12`) |
//! | `image_type: iso`, or `iso` | a system is installed from that disc on an empty disk |
//! | `cpus`, `memory_mb`, `disk_mb` | as they are; else those of [`Settings::defaults`]. A disk is never smaller than its image |
//! | `network` | a network of libvirt; unset, or `user`: QEMU's own network, with port 22 forwarded to a port of 127.0.0.1 |
//! | `arch` | amd64 or arm64; the host's own if it is not set |
//! | `user_data`, keys | on the seed disc, by `muster-seed` |
//!
//! # Where things are
//! ```text
//! FOLDER/machines/UUID/order.json   the plan, and whose it is: written first
//!                      disk.qcow2   the overlay
//!                      seed.iso     cloud-init's documents
//!                      console.log  what the machine says on its serial port
//!                      made         the machine has been started once
//!                      power.json   a stop or reboot that is under way
//! FOLDER/gone/UUID                  the mark of a machine that was destroyed, for a day
//! CACHE/                            base images, by digest
//! ```
//! UUID follows from the order's mark, so a token makes one machine whatever happens in between, and what is half made after a
//! crash is listed by its folder, whether libvirt knows it or not.
//!
//! # Power
//! A stop presses the power button, again and again, since a system that is still booting does not hear it, and cuts the power
//! after [`Settings::stop_grace`]. A reboot does the same and then starts the machine. What is under way is on disk
//! (`power.json`), so that it goes on after a crash of the manager. Hibernation is libvirt's managed save.
//!
//! # Tasks
//! | task | started by | does | ends |
//! |---|---|---|---|
//! | power, one for each machine that is being stopped or rebooted | a verb; after a crash the first look at the machine | presses, cuts or starts, one step at a time | with the stop or reboot, or the provider |
//! | downloads, one for each file | an order that needs it | fetches it once for all who wait | with the file, when the server is silent for [`Settings::stall`], when nobody asks any more, or with the provider |
//! | helper processes, at most [`Settings::helpers`] | calls | one call at a time | one is kept; others end when idle. All end with the provider, and with its process |
//!
//! # Invariants
//! * Nothing is changed in libvirt unless the domain bears the mark of the machine: the helper looks in the same breath.
//! * Nothing is deleted but the machine's own folder.
//! * A machine that was destroyed is not made again by its token.
//! * KVM is used only after something has been seen to boot with it.
//! * A downloaded image is used only after its checksum was right, and only if it refers to no other file.
//!
//! # What this crate does not do
//! Hypervisors of other hosts (disks are made here, so the URI must be local), networks and storage pools of libvirt's (it uses
//! networks that exist), and removal of base images from the cache.

#![forbid(unsafe_code)]

mod catalog;
mod checksum;
mod disk;
mod distributions;
mod domain;
mod download;
mod error;
mod fault;
mod folder;
mod helper;
mod image;
mod iso;
mod known;
mod kvm;
pub mod metadata;
mod plan;
mod power;
pub mod protocol;
mod provider;
mod settings;
pub mod status;
mod tool;

pub use catalog::{Catalog, Distribution, InvalidDistribution, Location};
pub use error::OpenLibvirtError;
pub use fault::FAULT_POINTS;
pub use provider::LibvirtProvider;
pub use settings::{Acceleration, Defaults, Settings};
