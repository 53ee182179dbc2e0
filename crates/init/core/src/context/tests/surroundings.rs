//! Environment, accounts, streams and settings.

use std::os::fd::AsFd;

use muster_engine::protocol::{ExecKind, ExitStatus};
use muster_exec::{FileAccess, Limit, Prepared, Stream, TakeControl};
use muster_unit_file::config::CommandPhase;
use proptest::prelude::*;

use super::rig::{Fake, START, built_by, context, failure, unit, variable};

const STOP_POST: (CommandPhase, ExecKind) = (CommandPhase::StopPost, ExecKind::StopPost);

#[test]
fn later_sources_of_variables_win_and_unset_wins_over_all() {
    let mut fake = Fake::default();
    fake.files
        .insert("/etc/one".into(), b"A=file\n# x\nE=from file\n".to_vec());
    fake.files.insert("/etc/d/b.env".into(), b"F=b\n".to_vec());
    fake.files
        .insert("/etc/d/a.env".into(), b"F=a\nG=a\n".to_vec());
    fake.variables.insert("P".into(), "passed".into());
    fake.variables.insert("A".into(), "passed".into());
    let lines = "ExecStart=/bin/x\nEnvironment=A=unit B=unit C=unit D=unit LANG=unit\nPassEnvironment=P A MISSING\n\
                 EnvironmentFile=/etc/one\nEnvironmentFile=-/etc/none\nEnvironmentFile=/etc/d/*.env\n\
                 UnsetEnvironment=C D=other INVOCATION_ID SYSTEMD_EXEC_PID";
    let context = built_by(&mut fake, lines, START, |_| {}).unwrap().context;
    let values = [
        "A",
        "B",
        "C",
        "D",
        "E",
        "F",
        "G",
        "P",
        "LANG",
        "MISSING",
        "INVOCATION_ID",
    ];
    let values = values.map(|name| variable(&context, name));
    let expected = [
        Some("file"),
        Some("unit"),
        None,
        Some("unit"),
        Some("from file"),
        Some("b"),
        Some("a"),
        Some("passed"),
        Some("unit"),
        None,
        None,
    ];
    assert_eq!(values, expected);
    assert!(context.pid_variables.is_empty());
}

/// Where a variable can come from, the stronger the later, and what takes it away.
fn any_sources() -> impl Strategy<Value = [Option<String>; 4]> {
    let value = || prop::option::of("[a-z]{1,6}");
    [value(), value(), value(), value()]
}

proptest! {
    #[test]
    fn the_strongest_source_of_a_variable_wins(
        [passed, stated, file, unset] in any_sources(),
        all in any::<bool>(),
    ) {
        let mut fake = Fake::default();
        let mut lines = "ExecStart=/bin/x\nPassEnvironment=LANG\n".to_owned();
        if let Some(value) = &passed {
            fake.variables.insert("LANG".into(), value.clone());
        }
        if let Some(value) = &stated {
            lines.push_str(&format!("Environment=LANG={value}\n"));
        }
        if let Some(value) = &file {
            fake.files.insert("/f".into(), format!("LANG={value}\n").into_bytes());
            lines.push_str("EnvironmentFile=/f\n");
        }
        if let Some(value) = &unset {
            let what = if all { "LANG".to_owned() } else { format!("LANG={value}") };
            lines.push_str(&format!("UnsetEnvironment={what}\n"));
        }
        // The manager says C.
        let strongest = file.or(stated).or(passed).unwrap_or_else(|| "C".to_owned());
        let expected = match unset {
            Some(value) if all || value == strongest => None,
            _ => Some(strongest),
        };
        let context = built_by(&mut fake, &lines, START, |_| {}).unwrap().context;
        prop_assert_eq!(variable(&context, "LANG").map(str::to_owned), expected);
    }

    #[test]
    fn any_streams_give_a_context_that_can_be_prepared(
        input in prop::sample::select(vec!["null", "tty", "tty-fail", "socket", "data", "file:/a", "fd:x"]),
        output in prop::sample::select(vec!["inherit", "null", "tty", "journal", "kmsg", "socket", "file:/a", "append:/a", "fd:x"]),
        errors in prop::sample::select(vec!["inherit", "null", "tty", "journal+console", "socket", "truncate:/a", "fd:x"]),
        text in any::<bool>(),
        connection in prop::option::of(Just(1u16)),
    ) {
        let text = if text { "StandardInputText=x\n" } else { "" };
        let lines = format!(
            "ExecStart=/bin/x\nStandardInput={input}\nStandardOutput={output}\nStandardError={errors}\n{text}"
        );
        let names = ["x"];
        let built = built_by(&mut Fake::default(), &lines, START, |facts| {
            facts.passed = &names;
            facts.log = Some(0);
            facts.connection = connection;
            facts.descriptors = 2;
        }).unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let mut descriptors = vec![null.as_fd(), null.as_fd()];
        descriptors.extend(built.added.as_ref().map(AsFd::as_fd));
        prop_assert!(Prepared::new(&built.context, &descriptors).is_ok());
    }
}

#[test]
fn an_environment_file_that_is_needed_must_be_there() {
    for path in ["/etc/none", "/etc/none*"] {
        let error = failure(&format!("EnvironmentFile={path}"));
        assert!(error.step.contains(path), "{}", error.step);
        assert!(error.early, "no process is made for it");
    }
}

#[test]
fn what_is_known_of_the_run_is_told() {
    let lines = "ExecStart=/bin/x\nPIDFile=/run/x.pid";
    let trigger = [("TRIGGER_UNIT", "x.timer".to_owned())];
    let context = built_by(&mut Fake::default(), lines, START, |facts| {
        facts.notify_socket = Some("/run/notify");
        facts.watchdog = Some(5_000_000);
        facts.main_pid = Some(42);
        facts.log_identity = Some((9, 77));
        facts.remote = Some(("::1", Some(80)));
        facts.trigger = &trigger;
    });
    let context = context.unwrap().context;
    for (name, value) in [
        ("NOTIFY_SOCKET", "/run/notify"),
        ("WATCHDOG_USEC", "5000000"),
        ("JOURNAL_STREAM", "9:77"),
        ("REMOTE_ADDR", "::1"),
        ("REMOTE_PORT", "80"),
        ("TRIGGER_UNIT", "x.timer"),
        ("PIDFILE", "/run/x.pid"),
        ("LANG", "C"),
        ("INVOCATION_ID", "00000000000000000000000000000007"),
    ] {
        assert_eq!(variable(&context, name), Some(value), "{name}");
    }
    assert_eq!(
        variable(&context, "MAINPID"),
        None,
        "the main process knows its own"
    );
    assert_eq!(variable(&context, "USER"), None, "no user is named");
    let pids: Vec<&str> = context.pid_variables.iter().map(|name| &**name).collect();
    assert_eq!(pids, ["SYSTEMD_EXEC_PID", "WATCHDOG_PID"]);
}

#[test]
fn what_runs_at_the_end_is_told_how_it_went() {
    let told = |exit| {
        let lines = "ExecStart=/bin/x\nExecStopPost=/bin/y";
        let built = built_by(&mut Fake::default(), lines, STOP_POST, |facts| {
            facts.ended = Some(("exit-code", exit));
            facts.main_pid = Some(42);
        });
        let context = built.unwrap().context;
        ["SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS", "MAINPID"]
            .map(|name| variable(&context, name).map(str::to_owned))
    };
    let some = |words: [&str; 2]| {
        let [code, status] = words.map(|word| Some(word.to_owned()));
        [
            Some("exit-code".to_owned()),
            code,
            status,
            Some("42".to_owned()),
        ]
    };
    assert_eq!(told(Some(ExitStatus::Code(3))), some(["exited", "3"]));
    assert_eq!(told(Some(ExitStatus::Signal(15))), some(["killed", "TERM"]));
    assert_eq!(told(Some(ExitStatus::Core(11))), some(["dumped", "SEGV"]));
    assert_eq!(told(None)[1..3], [None, None]);
}

#[test]
fn accounts_are_looked_up_by_name_and_number() {
    let jo = context("User=1000\nSupplementaryGroups=ssl 77\nWorkingDirectory=~");
    let identity = jo.identity.as_ref().unwrap();
    assert_eq!((identity.uid, identity.gid), (1000, 1000));
    assert_eq!(identity.groups, [1000, 41, 40, 77]);
    for (name, value) in [
        ("USER", "jo"),
        ("LOGNAME", "jo"),
        ("HOME", "/home/jo"),
        ("SHELL", "/bin/zsh"),
    ] {
        assert_eq!(variable(&jo, name), Some(value));
    }
    assert_eq!(&*jo.working_directory.unwrap().path, "/home/jo");
    let nobody = context("WorkingDirectory=~").working_directory.unwrap();
    assert_eq!(&*nobody.path, "/root", "the manager's own");
    let group = context("User=jo\nGroup=ssl").identity.unwrap();
    assert_eq!((group.gid, group.groups), (40, vec![40, 41]));
    let only_group = context("Group=ssl").identity.unwrap();
    assert_eq!(
        (only_group.uid, only_group.gid, only_group.groups),
        (0, 40, vec![])
    );
    assert_eq!(context("").identity, None);
    let error = failure("DynamicUser=yes\nUser=full");
    assert_eq!(error.exit_code, 217);
    assert!(error.step.contains("full"), "{}", error.step);
}

#[test]
fn login_variables_are_as_the_unit_wants_them() {
    let without = context("User=jo\nSetLoginEnvironment=no");
    assert_eq!(variable(&without, "HOME"), None);
    let root = context("SetLoginEnvironment=yes");
    assert_eq!(variable(&root, "HOME"), Some("/root"));
    assert_eq!(variable(&context(""), "HOME"), None);
}

/// Standard streams of a main process, with a log at place 0 and a connection where it is said.
fn streams(lines: &str, connection: Option<u16>, passed: &[&str]) -> [Stream; 3] {
    let lines = format!("ExecStart=/bin/x\n{lines}");
    let built = built_by(&mut Fake::default(), &lines, START, |facts| {
        facts.connection = connection;
        facts.passed = passed;
    });
    let context = built.unwrap().context;
    [context.stdin, context.stdout, context.stderr]
}

fn file(path: &str, access: FileAccess) -> Stream {
    Stream::File {
        path: path.into(),
        access,
    }
}

#[test]
fn streams_are_connected_as_the_file_says() {
    use Stream::{Fd, Null, Same};
    let plain = |lines: &str| streams(lines, None, &[]);
    assert_eq!(plain(""), [Null, Fd(0), Same(1)]);
    assert_eq!(plain("StandardOutput=null"), [Null, Null, Same(1)]);
    assert_eq!(
        plain("StandardError=journal\nStandardOutput=null"),
        [Null, Null, Fd(0)]
    );
    assert_eq!(
        plain("StandardOutput=append:/log\nStandardError=append:/log"),
        [Null, file("/log", FileAccess::Append), Same(1)]
    );
    assert_eq!(
        plain("StandardOutput=truncate:/a\nStandardError=file:/b"),
        [
            Null,
            file("/a", FileAccess::Truncate),
            file("/b", FileAccess::Write)
        ]
    );
    assert_eq!(
        plain("StandardInput=file:/both\nStandardOutput=file:/both"),
        [file("/both", FileAccess::ReadWrite), Same(0), Same(1)]
    );
    assert_eq!(
        plain("StandardInput=file:/in")[0],
        file("/in", FileAccess::Read)
    );
    // The list had one descriptor, so the data are the second.
    assert_eq!(plain("StandardInputText=hello"), [Fd(1), Fd(0), Same(1)]);
}

#[test]
fn connections_and_named_descriptors_are_streams_too() {
    use Stream::{Fd, Null, Same};
    let socket = "StandardInput=socket";
    assert_eq!(streams(socket, Some(4), &[]), [Fd(4), Same(0), Same(1)]);
    assert_eq!(streams(socket, None, &["only"]), [Fd(0), Same(0), Same(1)]);
    assert_eq!(
        streams(socket, None, &["one", "two"]),
        [Null, Null, Same(1)]
    );
    let named = "StandardInput=fd:b\nStandardOutput=fd:a\nStandardError=fd";
    assert_eq!(
        streams(named, None, &["a", "b", "stderr"]),
        [Fd(1), Fd(0), Fd(2)]
    );
    assert_eq!(failure("StandardOutput=fd:none").exit_code, 209);
}

#[test]
fn streams_of_a_request_come_before_everything_else() {
    let lines = "ExecStart=/bin/x\nStandardInput=tty\nStandardOutput=null";
    let built = built_by(&mut Fake::default(), lines, START, |facts| {
        facts.stdio = Some([3, 4, 5])
    });
    let context = built.unwrap().context;
    let streams = [context.stdin, context.stdout, context.stderr];
    assert_eq!(streams, [3, 4, 5].map(Stream::Fd));
}

#[test]
fn terminals_are_taken_only_by_what_talks_to_people() {
    let lines =
        "StandardInput=tty-force\nTTYPath=/dev/tty7\nTTYReset=yes\nTTYRows=24\nTTYColumns=80";
    let start = context(lines);
    let terminal = start.terminal.as_ref().unwrap();
    assert_eq!(&*terminal.path, "/dev/tty7");
    assert_eq!(
        (terminal.control, terminal.size),
        (TakeControl::Force, Some((24, 80)))
    );
    assert_eq!(
        [&start.stdin, &start.stdout],
        [&Stream::Terminal, &Stream::Same(0)]
    );
    assert_eq!(variable(&start, "TERM"), Some("linux"));
    let lines = format!("ExecStart=/bin/x\nExecReload=/bin/y\n{lines}");
    let reload = (CommandPhase::Reload, ExecKind::Reload);
    let reload = built_by(&mut Fake::default(), &lines, reload, |_| {})
        .unwrap()
        .context;
    assert_eq!(
        [&reload.stdin, &reload.stdout],
        [&Stream::Null, &Stream::Terminal]
    );
    assert_eq!(reload.terminal.unwrap().control, TakeControl::No);
    assert_eq!(
        &*context("StandardOutput=tty").terminal.unwrap().path,
        "/dev/console"
    );
}

#[test]
fn a_terminal_is_waited_for_by_a_helper_alone() {
    let waits = context("StandardInput=tty");
    assert_eq!(waits.terminal.unwrap().control, TakeControl::Wait);
    assert!(waits.sandbox.is_some());
    let fails = context("StandardInput=tty-fail");
    assert_eq!(fails.terminal.unwrap().control, TakeControl::IfFree);
    assert!(fails.sandbox.is_none());
}

#[test]
fn a_terminal_is_restored_after_a_unit_that_uses_one_and_says_so() {
    let restorer = |lines: &str| {
        let config = unit(&format!("ExecStart=/bin/x\n{lines}"));
        crate::context::terminal_restorer(&config, "/helper")
    };
    assert!(restorer("TTYReset=yes").is_none());
    assert!(restorer("StandardInput=tty").is_none());
    for lines in [
        "StandardOutput=tty",
        "StandardInput=tty",
        "StandardInput=tty-force",
    ] {
        let context = restorer(&format!("TTYPath=/dev/x\nTTYReset=yes\n{lines}")).unwrap();
        assert_eq!(context.stdin, Stream::Terminal);
        let terminal = context.terminal.unwrap();
        assert_eq!(
            (&*terminal.path, terminal.control),
            ("/dev/x", TakeControl::No)
        );
        assert!(terminal.reset && !terminal.hang_up && !terminal.clear);
    }
}

#[test]
fn settings_arrive_in_the_kernels_numbers() {
    let context = context(
        "UMask=0027\nNice=-5\nOOMScoreAdjust=-900\nIgnoreSIGPIPE=no\nCPUSchedulingPolicy=rr\nCPUSchedulingPriority=7\n\
         CPUAffinity=0 2-3\nIOSchedulingClass=idle\nTimerSlackNSec=5us\nCoredumpFilter=0x3\nLimitNPROC=9:10\n\
         WorkingDirectory=-/srv",
    );
    assert_eq!((context.umask, context.nice), (0o027, Some(-5)));
    let sandbox = context.sandbox.as_ref().unwrap();
    assert_eq!(sandbox.oom_score_adjust, Some(-900));
    assert!(!context.ignore_sigpipe);
    let scheduler = context.scheduler.unwrap();
    assert_eq!((scheduler.policy, scheduler.priority), (libc::SCHED_RR, 7));
    assert_eq!(context.processors, [0, 2, 3]);
    let io = context.io_priority.unwrap();
    assert_eq!((io.class, io.level), (3, 4));
    assert_eq!(
        (context.timer_slack, context.coredump_filter),
        (Some(5000), Some(3))
    );
    let limit = |resource, soft, hard| Limit {
        resource,
        soft,
        hard,
    };
    // The manager's default for open files comes behind what the unit says.
    let expected = [
        limit(libc::RLIMIT_NPROC, 9, 10),
        limit(libc::RLIMIT_NOFILE, 1024, 524_288),
    ];
    assert_eq!(context.limits, expected);
    let folder = context.working_directory.unwrap();
    assert_eq!((&*folder.path, folder.optional), ("/srv", true));
    assert!(context.new_session);
}

#[test]
fn sockets_are_as_the_unit_wants_them_and_kept_descriptors_as_they_were() {
    let lines = "ExecStart=/bin/x\nNonBlocking=yes";
    let names = ["web.socket", "stored"];
    let built = built_by(&mut Fake::default(), lines, START, |facts| {
        facts.passed = &names;
        facts.sockets = 1;
    });
    let passed = built.unwrap().context.passed;
    let passed: Vec<_> = passed
        .iter()
        .map(|fd| (fd.fd, &*fd.name, fd.nonblocking))
        .collect();
    assert_eq!(passed, [(0, "web.socket", Some(true)), (1, "stored", None)]);
}

#[test]
fn only_the_main_command_has_the_root_where_the_unit_says_so() {
    let lines =
        "RootDirectory=/srv/box\nRootDirectoryStartOnly=yes\nExecStart=/bin/x\nExecStartPre=/bin/y";
    let pre = (CommandPhase::StartPre, ExecKind::StartPre);
    let root = |lines: &str, phase| {
        let built = built_by(&mut Fake::default(), lines, phase, |_| {}).unwrap();
        let sandbox = built.context.sandbox;
        sandbox.is_some_and(|sandbox| format!("{sandbox:?}").contains("/srv/box"))
    };
    assert!(root(lines, START) && !root(lines, pre));
    let everybody = lines.replace("=yes", "=no");
    assert!(root(&everybody, START) && root(&everybody, pre));
}
