//! Views in real mount namespaces, looked at from inside. Each directive is tried for what it forbids and what it leaves.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod disk;
mod extensions;
mod guest;
mod images;
mod kernel;
mod paths;
mod protections;
mod random;
mod rig;
mod roots;
mod travel;
mod users;
