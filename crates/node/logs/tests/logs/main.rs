//! Requests for logs, answered from real journals.

mod big;
mod crash;
mod requests;
mod rig;
