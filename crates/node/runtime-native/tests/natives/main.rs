//! Native programs as they really run: in machines of the lab, on `muster-core`.

mod machine;
mod unified;
mod unprivileged;
