//! The service as its callers see it: every call over a real socket, and who may make it over TLS.

mod access;
mod actions;
mod fake;
mod rig;
mod socket;
mod streams;
mod views;
