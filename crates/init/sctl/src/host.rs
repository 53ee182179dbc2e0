//! What specifiers say about a machine.

use muster_unit_file::fs::RealFs;
use muster_unit_file::specifier::HostFacts;
use muster_units::facts::{self, KernelNames};

/// Reads the facts of a system. What only a running system knows is left out unless it is this one.
pub(crate) fn facts(fs: &RealFs, running: bool) -> HostFacts {
    let names = rustix::system::uname();
    let word = |text: &std::ffi::CStr| -> Box<str> { text.to_string_lossy().into() };
    let names = KernelNames {
        machine: word(names.machine()),
        release: running.then(|| word(names.release())),
        hostname: running.then(|| word(names.nodename())),
    };
    facts::read(fs, &names)
}

/// Bytes of memory that this machine has.
pub(crate) fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    let (pages, unit): (u64, u64) = (info.totalram, info.mem_unit.into());
    pages.saturating_mul(unit)
}
