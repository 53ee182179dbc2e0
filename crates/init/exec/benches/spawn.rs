//! Starting and reaping `/bin/true`: directly and through `muster-exec`, side by side with `posix_spawn`.
//!
//! ```text
//! cargo bench -p muster-exec
//! ```
//!
//! Each way runs the same number of processes in the same run, in turns, so that a slow moment of the machine hits all
//! of them. The processor time is that of this process alone: what a manager would pay.

#![expect(
    unsafe_code,
    reason = "posix_spawn and the processor time are asked for by system calls"
)]
#![expect(clippy::unwrap_used, reason = "a broken benchmark should say where")]

use std::ffi::CString;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use muster_cgroup::{CgroupPath, Hierarchy, Tree};
use muster_exec::{
    CapabilitySets, ExecContext, Identity, Launch, Namespace, Prepared, Sandbox, Slot, Spawner,
    delegate,
};
use muster_mounts::{ProtectHome, ProtectSystem, View};
use muster_seccomp::{CallFilter, CallRule, Kinds, Policy};
use rustix::fs::MemfdFlags;
use rustix::process::{Pid, WaitOptions, waitpid};

const ROUNDS: usize = 10;
const PER_ROUND: usize = 100;
/// Children that run at the same time, as a manager with many jobs has them.
const AT_ONCE: usize = 4;

fn main() {
    let mut spawner = Spawner::new().unwrap();
    let (mut slot, _memory) = Slot::create().unwrap();
    let context = ExecContext {
        program: "/bin/true".into(),
        argv: vec!["true".into()],
        environment: vec!["PATH=/bin".into()],
        ..ExecContext::default()
    };
    let place = CgroupPath::root()
        .child(&format!("muster-bench-{}", std::process::id()))
        .unwrap();
    let tree = Hierarchy::detect().ok();
    let tree = tree.and_then(|hierarchy| Tree::open(&hierarchy, &place).ok());
    let empty = ExecContext {
        sandbox: Some(Box::default()),
        ..context.clone()
    };
    let full = sandboxed(&context);
    let mut totals: [Total; 5] = std::array::from_fn(|_| Total::default());
    for _ in 0..ROUNDS {
        totals[0].measure(|_| posix_spawn(c"/bin/true"), |_| {});
        totals[1].measure(
            |_| {
                let mut prepared = Prepared::new(&context, &[]).unwrap();
                let launch = Launch::default();
                spawner
                    .spawn(&mut prepared, &launch, &mut slot)
                    .unwrap()
                    .pid
            },
            |_| {},
        );
        for (total, context) in [(2, &empty), (3, &full)] {
            totals[total].measure(|_| helped(&mut spawner, &mut slot, context), |_| {});
        }
        let Some(tree) = &tree else { continue };
        let group = |number: usize| CgroupPath::parse(&format!("job-{number}.service")).unwrap();
        totals[4].measure(
            |number| {
                let mut prepared = Prepared::new(&context, &[]).unwrap();
                let target = tree.target(&group(number)).unwrap();
                let launch = Launch {
                    cgroup: Some(&target),
                    ..Launch::default()
                };
                spawner
                    .spawn(&mut prepared, &launch, &mut slot)
                    .unwrap()
                    .pid
            },
            |number| tree.remove(&group(number)).unwrap(),
        );
    }
    if let Some(folder) = tree.and_then(|tree| tree.folder(&CgroupPath::root())) {
        std::fs::remove_dir(folder).unwrap();
    }
    println!("{} processes of /bin/true each", ROUNDS * PER_ROUND);
    let names = [
        "posix_spawn",
        "spawn",
        "muster-exec, empty sandbox",
        "muster-exec, full sandbox",
        "spawn in a cgroup of its own",
    ];
    for (name, total) in names.iter().zip(&totals) {
        println!("{name:30} {total}");
    }
}

/// What a hardened service of a distribution asks for.
fn sandboxed(context: &ExecContext) -> ExecContext {
    let rule = CallRule {
        name: "@system-service".into(),
        removed: false,
        refusal: None,
    };
    let sandbox = Sandbox {
        unit: "bench.service".into(),
        view: View {
            protect_system: ProtectSystem::Strict,
            protect_home: ProtectHome::Yes,
            private_devices: true,
            protect_kernel_tunables: true,
            protect_kernel_modules: true,
            protect_kernel_logs: true,
            protect_control_groups: true,
            own_mounts: true,
            ..View::default()
        },
        namespaces: muster_exec::Namespaces {
            network: Namespace::Own,
            uts: true,
            ..Default::default()
        },
        capabilities: Some(CapabilitySets {
            bounding: 0,
            ambient: 0,
        }),
        system_calls: Policy {
            calls: Some(CallFilter {
                allow: true,
                rules: vec![rule],
            }),
            architectures: vec!["native".into()],
            namespaces: Some(Kinds(0)),
            restrict_realtime: true,
            restrict_suid_sgid: true,
            lock_personality: Some(0),
            memory_deny_write_execute: true,
            ..Policy::default()
        },
        ..Sandbox::default()
    };
    ExecContext {
        identity: Some(Identity {
            uid: 65534,
            gid: 65534,
            groups: Vec::new(),
        }),
        no_new_privileges: true,
        sandbox: Some(Box::new(sandbox)),
        ..context.clone()
    }
}

/// Starts a process by way of `muster-exec`, as a manager does it.
fn helped(spawner: &mut Spawner, slot: &mut Slot, context: &ExecContext) -> Pid {
    let delegated = delegate(context, env!("CARGO_BIN_EXE_muster-exec"), 0).unwrap();
    let job = rustix::fs::memfd_create("job", MemfdFlags::CLOEXEC).unwrap();
    let mut job = std::fs::File::from(job);
    job.write_all(&delegated.job).unwrap();
    let (_report, end) = std::io::pipe().unwrap();
    let fds = [job.as_fd(), end.as_fd()];
    let mut prepared = Prepared::new(&delegated.outer, &fds).unwrap();
    let spawned = spawner.spawn(&mut prepared, &Launch::default(), slot);
    spawned.unwrap().pid
}

#[derive(Default)]
struct Total {
    wall: Duration,
    cpu: Duration,
}

impl Total {
    fn measure(&mut self, mut start: impl FnMut(usize) -> Pid, mut end: impl FnMut(usize)) {
        let (wall, cpu) = (Instant::now(), own_cpu());
        let mut running: Vec<(usize, Pid)> = Vec::new();
        for number in 0..PER_ROUND {
            if running.len() == AT_ONCE {
                finish(running.remove(0), &mut end);
            }
            running.push((number, start(number)));
        }
        for child in running {
            finish(child, &mut end);
        }
        self.wall += wall.elapsed();
        self.cpu += own_cpu() - cpu;
    }
}

impl std::fmt::Display for Total {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = u32::try_from(ROUNDS * PER_ROUND).unwrap();
        let (wall, cpu) = (self.wall.as_secs_f64(), (self.cpu / count).as_secs_f64());
        write!(
            f,
            "{wall:.3} s, {:.3} ms of own processor time each",
            cpu * 1e3
        )
    }
}

fn finish((number, pid): (usize, Pid), end: &mut impl FnMut(usize)) {
    let status = waitpid(Some(pid), WaitOptions::empty()).unwrap();
    assert_eq!(status.and_then(|(_, status)| status.exit_status()), Some(0));
    end(number);
}

fn own_cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the structure.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let span = |time: libc::timeval| {
        let micros = time.tv_sec * 1_000_000 + time.tv_usec;
        Duration::from_micros(u64::try_from(micros).unwrap())
    };
    span(usage.ru_utime) + span(usage.ru_stime)
}

fn posix_spawn(program: &std::ffi::CStr) -> Pid {
    let (name, path) = (CString::from(c"true"), CString::from(c"PATH=/bin"));
    let argv = [name.as_ptr().cast_mut(), std::ptr::null_mut()];
    let environment = [path.as_ptr().cast_mut(), std::ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: a text and two lists of texts that end in null.
    let result = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            argv.as_ptr(),
            environment.as_ptr(),
        )
    };
    assert_eq!(result, 0);
    Pid::from_raw(pid).unwrap()
}
