//! Starting and reaping `/bin/true`: directly and through `muster-exec`, side by side with `posix_spawn`.
//!
//! ```text
//! cargo bench -p muster-exec
//! ```
//!
//! Each way runs the same number of processes in the same run, in turns, so that a slow moment of the machine hits all
//! of them. The base line is a bare `posix_spawn`; of each way the table has the median round. The processor time is that of this
//! process alone: what a manager would pay. Fails when starting a process with an empty context takes more than a tenth longer
//! than the base line. Needs root.

#![expect(
    unsafe_code,
    reason = "posix_spawn and the processor time are asked for by system calls"
)]
#![expect(clippy::unwrap_used, reason = "a broken benchmark should say where")]

use std::ffi::CString;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::ExitCode;
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
/// Of the time of a bare `posix_spawn`.
const AT_MOST: f64 = 1.1;
/// The ways, the first of which the others are compared with, and which of them are to be about as fast.
const WAYS: [(&str, bool); 5] = [
    ("posix_spawn", false),
    ("spawn", true),
    ("muster-exec, empty sandbox", false),
    ("muster-exec, full sandbox", false),
    ("spawn in a cgroup of its own", false),
];

fn main() -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: spawn: not root");
        return ExitCode::SUCCESS;
    }
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
    print(&totals)
}

/// The table; whether everything that is to be reached is.
fn print(totals: &[Total]) -> ExitCode {
    println!("{ROUNDS} rounds of {PER_ROUND} processes of /bin/true each; medians of a round");
    println!(
        "{:30} {:>10} {:>12} {:>8} {:>8}",
        "", "wall", "own CPU each", "ratio", "at most"
    );
    let bare = totals.first().and_then(Total::median);
    let mut missed = false;
    for ((name, is_bound), total) in WAYS.iter().zip(totals) {
        let (Some((wall, cpu)), Some((base, _))) = (total.median(), bare) else {
            println!("{name:30} {:>10}", "-");
            continue;
        };
        let ratio = wall / base;
        let verdict = match (is_bound, ratio <= AT_MOST) {
            (false, _) => String::new(),
            (true, true) => format!("{AT_MOST:>8.2}  reached"),
            (true, false) => format!("{AT_MOST:>8.2}  not reached"),
        };
        missed |= *is_bound && ratio > AT_MOST;
        let (wall, cpu) = (wall * 1e3, cpu * 1e3 / PER_ROUND as f64);
        println!("{name:30} {wall:>7.1} ms {cpu:>9.3} ms {ratio:>7.2}x {verdict}");
    }
    match missed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
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

/// What the rounds of one way took, in seconds.
#[derive(Default)]
struct Total {
    wall: Vec<f64>,
    cpu: Vec<f64>,
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
        self.wall.push(wall.elapsed().as_secs_f64());
        self.cpu.push((own_cpu() - cpu).as_secs_f64());
    }

    /// The median of a round, and of its processor time; nothing if this machine cannot do it.
    fn median(&self) -> Option<(f64, f64)> {
        let median = |times: &[f64]| {
            let mut times = times.to_vec();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        };
        Some((median(&self.wall)?, median(&self.cpu)?))
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
