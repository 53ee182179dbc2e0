//! Rigs for tests of Muster against the real thing. A development dependency only: nothing in here ships.
//!
//! Every rig owns what it makes and takes it away when dropped.

pub mod pki;
