//! Memory that a quiet manager does not need.

/// Gives back what the allocator has free, and code that was needed to start and is not needed to wait.
#[expect(unsafe_code, reason = "the C library is asked to tidy up")]
pub(super) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only looks at free memory of the allocator's own.
    unsafe {
        libc::malloc_trim(0)
    };
    muster_handover::give_code_back();
}
