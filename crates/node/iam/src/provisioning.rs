//! Provisioning: how a machine becomes a member of its device, and stops being one.
//!
//! ```text
//!                 Start                    Finish                 Pause
//! Unprovisioned --------> Started -----------------> Provisioned <------> Paused
//!       ^                  |  ^ \_ Start: over again      |      Resume     |
//!       |                  |  |                           |                 |
//!       |                  |  CreateKey, ApplyCert        CreateKey, ApplyCert (renewal)
//!       |                  v                              v                 v
//!       +----------- Deprovisioning <--------------- (Deprovision: the hook has run)
//! ```
//!
//! [`phase`] decides: what a request means in the current phase, as a list of [`phase::Action`]s. One
//! task, [`actor`], owns the phase and carries the lists out. A phase is entered by writing it to the
//! node's [`state_file`], in one step; everything between two phases may be done again. So whatever
//! moment the process dies at, the file says how to go on:
//!
//! | died while | found after the restart | goes on by |
//! |---|---|---|
//! | starting | unprovisioned | the request, again: it starts over |
//! | keys and certificates are made | started | the request, again |
//! | finishing | started | the request, again; the hook runs once more |
//! | deprovisioning, hook running | provisioned | the request, again; the hook runs once more |
//! | deprovisioning, after the hook | deprovisioning | itself, at the start of the daemon |
//!
//! Hook commands ([`hook`]) may therefore run more than once for one request, and have to bear it.

pub mod actor;
pub mod hook;
pub mod phase;
pub mod state_file;
