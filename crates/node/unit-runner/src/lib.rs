//! Runs instances as units of the init system at hand: Muster core or systemd.
