//! What a native program may try to get out, one attempt per line with the kernel's error number: 0 is success.
//!
//! `who` only says who it is, for files that give rights.
#![expect(
    unsafe_code,
    reason = "what is tried has no safe form, or one that would not try it"
)]

use std::io;
use std::process::Command;

use libc::{c_long, c_ulong};

/// A file of the image that would make anybody root who runs it.
const RAISED: &str = "/app/raised";

/// The error number of a call that has just returned this.
fn number(result: c_long) -> i32 {
    match result {
        -1 => io::Error::last_os_error().raw_os_error().unwrap_or(-1),
        _ => 0,
    }
}

fn mount() -> i32 {
    // SAFETY: texts that end in zero, and no data.
    let result = unsafe {
        libc::mount(
            c"none".as_ptr(),
            c"/tmp".as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    number(c_long::from(result))
}

/// Follows another process of the same user.
fn ptrace() -> i32 {
    let Ok(mut other) = Command::new("/bin/sleep").arg("1000").spawn() else {
        return -1;
    };
    let pid = i32::try_from(other.id()).unwrap_or(-1);
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: attaching uses no memory of this process.
    let result = unsafe { libc::ptrace(libc::PTRACE_ATTACH, pid, nothing, nothing) };
    let number = number(result);
    let _ = other.kill();
    let _ = other.wait();
    number
}

fn socket(family: i32, protocol: i32) -> i32 {
    // SAFETY: no addresses are involved.
    number(c_long::from(unsafe {
        libc::socket(family, libc::SOCK_RAW, protocol)
    }))
}

/// A call that takes up to three numbers, and no addresses that anybody would look at.
fn call(call: c_long, arguments: [c_ulong; 3]) -> i32 {
    let [first, second, third] = arguments;
    // SAFETY: addresses among the arguments are null, which the kernel does not follow.
    number(unsafe { libc::syscall(call, first, second, third) })
}

/// A process in a new namespace of users.
fn clone() -> i32 {
    let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD).unsigned_abs();
    // SAFETY: the new process has a copy of the memory, as by fork, and ends at once.
    let result = unsafe { libc::syscall(libc::SYS_clone, c_ulong::from(flags), 0, 0, 0, 0) };
    if result == 0 {
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) }
    }
    number(result)
}

fn write(path: &str) -> i32 {
    match std::fs::write(path, "x") {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    }
}

fn device() -> i32 {
    let (mode, null) = (libc::S_IFCHR | 0o666, libc::makedev(1, 3));
    // SAFETY: a text that ends in zero.
    number(c_long::from(unsafe {
        libc::mknod(c"/tmp/null".as_ptr(), mode, null)
    }))
}

fn main() {
    // SAFETY: no addresses are involved.
    let who = unsafe { libc::geteuid() };
    if std::env::args().nth(1).as_deref() == Some("who") {
        println!("{who}");
        return;
    }
    let attempts: &[(&str, &dyn Fn() -> i32)] = &[
        ("mount", &mount),
        ("ptrace", &ptrace),
        ("raw socket", &|| socket(libc::AF_INET, libc::IPPROTO_ICMP)),
        ("packet socket", &|| socket(libc::AF_PACKET, 0)),
        // Of the session's keyring.
        ("keyctl", &|| {
            call(libc::SYS_keyctl, [0, c_ulong::MAX - 2, 0])
        }),
        ("unshare", &|| {
            let users = libc::CLONE_NEWUSER.unsigned_abs();
            call(libc::SYS_unshare, [users.into(), 0, 0])
        }),
        ("clone", &clone),
        ("bpf", &|| call(libc::SYS_bpf, [0; 3])),
        ("io_uring", &|| call(libc::SYS_io_uring_setup, [1, 0, 0])),
        // Without the words that the kernel wants to hear.
        ("reboot", &|| call(libc::SYS_reboot, [0; 3])),
        ("device", &device),
        ("write /usr", &|| write("/usr/x")),
        ("write /etc", &|| write("/etc/x")),
        ("write /app", &|| write("/app/x")),
        ("write /dev", &|| write("/dev/x")),
        ("write /tmp", &|| write("/tmp/x")),
    ];
    for (name, attempt) in attempts {
        println!("{name}: {}", attempt());
    }
    let raised = Command::new(RAISED).arg("who").output();
    let raised = raised.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("{who} raised: {}", raised.unwrap_or_default());
}
