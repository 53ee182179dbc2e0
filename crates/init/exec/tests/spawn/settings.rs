//! What a process finds of the settings it was given.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use muster_exec::{
    ExecContext, Identity, IoPriority, Keyring, Limit, Scheduler, Stream, TakeControl, Terminal,
    WorkingDirectory,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::rig::{is_root, output, program, shell, spawn, terminal, wait};

const RLIMIT_CORE: u32 = 4;
const RLIMIT_NOFILE: u32 = 7;
const SCHED_BATCH: i32 = 3;

fn with(script: &str, change: impl FnOnce(&mut ExecContext)) -> String {
    let mut context = shell(script);
    change(&mut context);
    output(&context)
}

#[test]
fn arguments_and_variables_arrive_as_they_are() {
    let script = "printf '%s|' \"$0\" \"$@\"; env | sort";
    let text = with(script, |context| {
        context
            .argv
            .extend(["zero", "a b", "", "$HOME ü"].map(Into::into));
        context.environment = vec!["A= x ".into(), "B=".into(), "PATH=/bin:/usr/bin".into()];
        context.pid_variables = vec!["OWN_PID".into()];
    });
    let (arguments, variables) = text.rsplit_once('|').unwrap();
    assert_eq!(arguments, "zero|a b||$HOME ü");
    assert!(variables.starts_with("A= x \nB=\n"), "{variables}");
}

#[test]
fn the_pid_is_filled_in_for_the_process_itself() {
    let text = with("echo $$ $OWN_PID $WATCHDOG_PID", |context| {
        context.pid_variables = vec!["OWN_PID".into(), "WATCHDOG_PID".into()];
        context.environment.push("OWN_PID=stale".into());
    });
    let numbers: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(numbers.len(), 3);
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{text}");
}

#[test]
fn the_folder_and_the_mask_are_set() {
    let folder = |path: &str, optional| WorkingDirectory {
        path: path.into(),
        optional,
    };
    let text = with("pwd; umask", |context| {
        context.working_directory = Some(folder("/usr/bin", false));
        context.umask = 0o077;
    });
    assert_eq!(text, "/usr/bin\n0077\n");
    assert_eq!(with("pwd", |_| {}), "/\n");
    let missing = |context: &mut ExecContext| {
        context.working_directory = Some(folder("/no/such/folder", true));
    };
    assert_eq!(with("pwd", missing), "/\n");
}

#[test]
fn signals_are_as_the_kernel_makes_them() {
    // Not by way of a shell, which may have ideas of its own about signals.
    let status = |ignore_sigpipe| {
        let path = "/usr/bin/cat";
        output(&ExecContext {
            argv: vec![path.into(), "/proc/self/status".into()],
            stdout: Stream::Fd(0),
            ignore_sigpipe,
            ..program(path)
        })
    };
    let text = status(true);
    let mask = |name: &str, text: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    let sigpipe = 1 << 12;
    assert_eq!(mask("SigBlk:", &text), 0);
    assert_eq!(mask("SigIgn:", &text), sigpipe);
    let text = status(false);
    assert_eq!(mask("SigIgn:", &text), 0);
}

#[test]
fn a_process_leads_a_session_if_it_is_to() {
    // pid, program, state, parent, group, session
    let fields = |new_session| {
        let text = with("cat /proc/$$/stat", |context| {
            context.new_session = new_session
        });
        let words: Vec<i64> = text
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        (words[0], words[2], words[3])
    };
    let (pid, group, session) = fields(true);
    assert!(pid == group && pid == session);
    let (pid, _, session) = fields(false);
    assert_ne!(pid, session);
}

/// In a container nobody may have a better level than the usual one: a daemon that wishes for one runs all the same.
#[test]
fn a_level_that_is_too_good_for_a_process_is_the_best_that_it_may_have() {
    let nice = |limit: u64, level: i8| {
        let old = getrlimit(Resource::Nice);
        let new = Rlimit {
            current: Some(limit),
            maximum: old.maximum.map(|highest| highest.max(limit)),
        };
        setrlimit(Resource::Nice, new).ok()?;
        let mut own = capabilities(None).unwrap();
        own.effective.remove(CapabilitySet::SYS_NICE);
        set_capabilities(None, own).unwrap();
        let text = with("nice", |context| context.nice = Some(level));
        own.effective |= own.permitted & CapabilitySet::SYS_NICE;
        set_capabilities(None, own).unwrap();
        setrlimit(Resource::Nice, old).unwrap();
        Some(text.trim_end().to_owned())
    };
    let usual = with("nice", |_| {});
    assert_eq!(nice(0, -5).as_deref(), Some(usual.trim_end()));
    assert_eq!(nice(0, 7).as_deref(), Some("7"));
    // Whoever may not raise the limit has no better levels to try.
    for (limit, level) in [(23, "-3"), (30, "-5")] {
        let got = nice(limit, -5);
        assert!(got.as_deref().is_none_or(|got| got == level), "{got:?}");
    }
}

#[test]
fn shares_of_the_machine_are_set() {
    if !is_root("shares_of_the_machine_are_set") {
        return;
    }
    let script = "nice; chrt -p $$ | head -1; taskset -p $$; ionice -p $$; \
                  cat /proc/self/timerslack_ns; ulimit -Sn; ulimit -Hn; ulimit -c; \
                  grep NoNewPrivs /proc/self/status; cat /proc/self/coredump_filter";
    let text = with(script, |context| {
        context.nice = Some(7);
        context.scheduler = Some(Scheduler {
            policy: SCHED_BATCH,
            priority: 0,
            reset_on_fork: false,
        });
        context.processors = vec![0];
        context.io_priority = Some(IoPriority { class: 2, level: 6 });
        context.timer_slack = Some(123_456);
        context.limits = vec![
            Limit {
                resource: RLIMIT_NOFILE,
                soft: 100,
                hard: 200,
            },
            Limit {
                resource: RLIMIT_CORE,
                soft: 0,
                hard: u64::MAX,
            },
        ];
        context.no_new_privileges = true;
        context.coredump_filter = Some(0x11);
    });
    let lines: Vec<&str> = text.lines().collect();
    let ends = [
        "7",
        "SCHED_BATCH",
        "affinity mask: 1",
        "best-effort: prio 6",
        "123456",
        "100",
        "200",
        "0",
        "NoNewPrivs:\t1",
        "00000011",
    ];
    assert_eq!(lines.len(), ends.len(), "{text}");
    for (line, end) in lines.iter().zip(ends) {
        assert!(line.ends_with(end), "{line:?} does not end in {end:?}");
    }
}

#[test]
fn a_limit_above_what_is_allowed_comes_as_near_as_it_can() {
    let text = with("ulimit -Hn; ulimit -Sn", |context| {
        context.limits = vec![Limit {
            resource: RLIMIT_NOFILE,
            soft: 1 << 30,
            hard: 1 << 30,
        }];
    });
    let numbers: Vec<u64> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers[0], numbers[1]);
    assert!(numbers[0] >= 1024, "{text}");
}

#[test]
fn an_identity_is_taken_as_a_whole() {
    if !is_root("an_identity_is_taken_as_a_whole") {
        return;
    }
    let script = "grep -E '^(Uid|Gid|Groups)' /proc/self/status";
    let text = with(script, |context| {
        context.identity = Some(Identity {
            uid: 4711,
            gid: 4712,
            groups: vec![4712, 4713],
        });
    });
    let expected =
        "Uid:\t4711\t4711\t4711\t4711\nGid:\t4712\t4712\t4712\t4712\nGroups:\t4712 4713 \n";
    assert_eq!(text, expected);
}

/// Some settings belong to memory, which the new process shares with its parent until it executes.
#[test]
fn the_caller_stays_as_it_was() {
    if !is_root("the_caller_stays_as_it_was") {
        return;
    }
    let state = || {
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        let status = read("/proc/thread-self/status");
        let kept = ["Umask", "Uid", "Groups", "SigBlk", "SigIgn", "NoNewPrivs"];
        let lines = status.lines();
        let kept: Vec<String> = lines
            .filter(|line| kept.iter().any(|key| line.starts_with(key)))
            .map(str::to_owned)
            .collect();
        (
            kept,
            read("/proc/self/coredump_filter"),
            read("/proc/self/limits"),
            std::env::current_dir().unwrap(),
            rustix::process::dumpable_behavior().unwrap(),
        )
    };
    let before = state();
    let text = with("true", |context| {
        context.identity = Some(Identity {
            uid: 4711,
            gid: 4712,
            groups: vec![],
        });
        context.coredump_filter = Some(0x1);
        context.umask = 0o777;
        context.no_new_privileges = true;
        context.working_directory = Some(WorkingDirectory {
            path: "/usr".into(),
            optional: false,
        });
    });
    assert_eq!(text, "");
    assert_eq!(state(), before);
}

#[test]
fn a_terminal_becomes_the_controlling_one() {
    let (terminal, path) = terminal();
    let context = ExecContext {
        stdin: Stream::Terminal,
        stdout: Stream::Same(0),
        stderr: Stream::Same(1),
        terminal: Some(Terminal {
            path: path.as_str().into(),
            control: TakeControl::IfFree,
            reset: true,
            hang_up: false,
            clear: true,
            size: Some((12, 34)),
        }),
        ..shell("tty; stty size; : < /dev/tty && echo controls")
    };
    let spawned = spawn(&context, &[], &Default::default()).unwrap();
    assert_eq!(wait(spawned.pid).exit_status(), Some(0));
    // What was written comes in as many pieces as it likes; an error says that the other side is closed.
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = rustix::io::read(terminal.as_fd(), &mut piece) {
        seen.extend_from_slice(&piece[..count]);
    }
    let seen = String::from_utf8_lossy(&seen).into_owned();
    assert!(seen.starts_with("\u{1b}[r\u{1b}[H\u{1b}[3J"), "{seen:?}");
    let expected = format!("{path}\r\n12 34\r\ncontrols\r\n");
    assert!(seen.ends_with(&expected), "{seen:?}");
}

#[test]
fn a_context_survives_being_stored() {
    let mut context = program("/usr/bin/true");
    context.identity = Some(Identity {
        uid: 1,
        gid: 2,
        groups: vec![3],
    });
    context.stderr = Stream::Same(1);
    let text = serde_json::to_string(&context).unwrap();
    let read: ExecContext = serde_json::from_str(&text).unwrap();
    assert_eq!(read, context);
    let least: ExecContext = serde_json::from_str("{}").unwrap();
    assert_eq!(least, ExecContext::default());
}

#[test]
fn a_keyring_is_the_users_own_and_another_in_each_process() {
    const NAME: &str = "a_keyring_is_the_users_own_and_another_in_each_process";
    if !is_root(NAME) {
        return;
    }
    let keys = |keyring, uid| {
        with("grep keyring /proc/keys || true", |context| {
            context.keyring = keyring;
            context.identity = Some(Identity {
                uid,
                gid: uid,
                groups: Vec::new(),
            });
        })
    };
    let own = keys(Keyring::Private, 4711);
    if own.is_empty() {
        println!("{NAME}: skipped, this kernel has no keyrings");
        return;
    }
    assert!(own.contains("_ses"), "{own}");
    assert!(own.lines().all(|line| line.contains(" 4711 ")), "{own}");
    // Root's key, which the process may read, tells which run it is.
    let told = |keyring| {
        with(
            "grep -c 'invocation_id: 16' /proc/keys || true",
            |context| {
                context.keyring = keyring;
                context.invocation = Some([7; 16]);
                context.identity = Some(Identity {
                    uid: 4711,
                    gid: 4711,
                    groups: Vec::new(),
                });
            },
        )
    };
    assert_eq!(told(Keyring::Private), "1\n");
    let shared = keys(Keyring::Shared, 4711);
    assert!(shared.contains("_uid.4711"), "{shared}");
    // Serial numbers of sessions that are this user's, and nobody else's on this machine.
    let sessions = || {
        let text = keys(Keyring::Private, 4713);
        let lines = text.lines().filter(|line| line.contains(" _ses"));
        let numbers = lines.filter_map(|line| line.split(' ').next());
        BTreeSet::from_iter(numbers.map(str::to_owned))
    };
    let (one, two) = (sessions(), sessions());
    assert!(!one.is_empty());
    assert!(
        !two.is_subset(&one),
        "each process has its own: {one:?} {two:?}"
    );
    let text = with("cat /proc/self/status", |context| {
        context.keyring = Keyring::Private;
        context.identity = Some(Identity {
            uid: 4711,
            gid: 4712,
            groups: Vec::new(),
        });
    });
    assert!(text.contains("Uid:\t4711\t4711\t4711\t4711"), "{text}");
    assert!(text.contains("Gid:\t4712\t4712\t4712\t4712"), "{text}");
}
