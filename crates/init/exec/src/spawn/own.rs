//! Settings of the caller's that a child changes, since they belong to the memory that both share.

use crate::prepared::Prepared;

const COREDUMP_FILTER: &str = "/proc/self/coredump_filter";

/// What the caller had before.
pub(super) struct OwnSettings {
    dumpable: Option<i32>,
    coredump_filter: Option<String>,
}

impl OwnSettings {
    pub(super) fn before(prepared: &Prepared<'_>) -> Self {
        let context = prepared.context;
        let shares = context.identity.is_some();
        let coredump_filter = context.coredump_filter.and_then(|wanted| {
            // It belongs to the memory and is handed on at execution, so the caller sets its own for a moment.
            let own = std::fs::read_to_string(COREDUMP_FILTER).ok()?;
            std::fs::write(COREDUMP_FILTER, format!("{wanted:#x}")).ok()?;
            Some(format!("0x{}", own.trim()))
        });
        Self {
            dumpable: shares.then(get_dumpable),
            coredump_filter,
        }
    }

    pub(super) fn restore(self) {
        if let Some(dumpable) = self.dumpable.filter(|dumpable| *dumpable == 1) {
            set_dumpable(dumpable);
        }
        // They were written a moment ago; nothing that could be done about a failure is left.
        if let Some(filter) = self.coredump_filter {
            let _ = std::fs::write(COREDUMP_FILTER, filter);
        }
    }
}

#[expect(unsafe_code, reason = "no safe function asks for this")]
fn get_dumpable() -> i32 {
    // SAFETY: no addresses are involved.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) }
}

#[expect(unsafe_code, reason = "no safe function sets this")]
fn set_dumpable(dumpable: i32) {
    // SAFETY: no addresses are involved.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, dumpable, 0, 0, 0) };
}
