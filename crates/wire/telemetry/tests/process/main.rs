//! A real daemon process under signals, a service manager, scrapers and a log nobody reads.
//!
//! The daemon is this test program itself, started again with `probe` as the only test: see
//! [`probe`].

mod child;
mod logs;
mod metrics;
mod probe;
mod service_manager;
mod signals;
