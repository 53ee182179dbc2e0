//! Containers as they really run: in machines of the lab, on `muster-core` and on systemd, with runc.

mod lifecycle;
mod limits;
mod rig;
mod survival;
mod systemd;
mod unified;
