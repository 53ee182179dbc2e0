//! The one system call that no library makes safely for us.

use std::ffi::c_void;

use rustix::io::Errno;

/// `struct clone_args` of the kernel, up to the field that 5.7 added.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct CloneArgs {
    pub(crate) flags: u64,
    pub(crate) pidfd: u64,
    pub(crate) child_tid: u64,
    pub(crate) parent_tid: u64,
    pub(crate) exit_signal: u64,
    pub(crate) stack: u64,
    pub(crate) stack_size: u64,
    pub(crate) tls: u64,
    pub(crate) set_tid: u64,
    pub(crate) set_tid_size: u64,
    pub(crate) cgroup: u64,
}

/// What the new process runs. It must not return, allocate, take a lock or panic.
pub(crate) type Entry = unsafe extern "C" fn(*mut c_void) -> !;

/// Makes a process that runs `entry(argument)` on the stack that `args` names, and gives its pid.
///
/// # Safety
/// With `CLONE_VM` in the flags, the caller does nothing but wait until the new process has executed a program or ended.
/// Everything that `entry` touches must stay valid until then, and the stack must be used by nobody else. All addresses in
/// `args` are valid, the stack's top aligned to 16 bytes.
#[expect(
    unsafe_code,
    reason = "the C library cannot start a process on a stack of our own by clone3"
)]
pub(crate) unsafe fn clone3(
    args: &mut CloneArgs,
    entry: Entry,
    argument: *mut c_void,
) -> Result<i32, Errno> {
    let result: i64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the parent sees an ordinary system call, which clobbers rcx and r11. The child starts behind it with an
    // empty stack, aligned as a call expects, and all other registers as they were; it never comes back.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") std::ptr::from_mut(args),
            in("rsi") size_of::<CloneArgs>(),
            in("r12") entry,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the kernel preserves every register but x0.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, x21",
            "blr x20",
            "brk #1",
            "2:",
            inlateout("x0") std::ptr::from_mut(args) => result,
            in("x1") size_of::<CloneArgs>(),
            in("x8") libc::SYS_clone3,
            in("x20") entry,
            in("x21") argument,
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("starting processes is written for x86_64 and aarch64");

    match i32::try_from(result) {
        Ok(pid) if pid > 0 => Ok(pid),
        Ok(error) => Err(Errno::from_raw_os_error(-error)),
        Err(_) => Err(Errno::OVERFLOW),
    }
}
