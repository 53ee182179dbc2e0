//! The client against servers made of the wire's generated traits.

mod calls;
mod cert_store;
mod fake;
mod follow;
