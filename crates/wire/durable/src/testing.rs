//! Flushes that are left out, so that tests can show that they notice. Only dev-dependencies turn this on.

use std::sync::atomic::{AtomicBool, Ordering};

/// Something that durability needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Of what is in a file.
    Content,
    /// Of what a folder says about the names in it.
    Name,
}

static CONTENT_IS_LEFT_OUT: AtomicBool = AtomicBool::new(false);
static NAMES_ARE_LEFT_OUT: AtomicBool = AtomicBool::new(false);

fn is_left_out(flush: Flush) -> &'static AtomicBool {
    match flush {
        Flush::Content => &CONTENT_IS_LEFT_OUT,
        Flush::Name => &NAMES_ARE_LEFT_OUT,
    }
}

/// From now on this process leaves it out.
pub fn leave_out(flush: Flush) {
    is_left_out(flush).store(true, Ordering::Relaxed);
}

pub(crate) fn is_made(flush: Flush) -> bool {
    !is_left_out(flush).load(Ordering::Relaxed)
}
