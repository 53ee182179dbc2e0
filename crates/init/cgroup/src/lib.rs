//! muster-cgroup.
