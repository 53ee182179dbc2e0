//! `muster-init --supervise` with cores that crash, hang, are upgraded, and are not there.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use muster_lab::leaks::Snapshot;
use muster_lab::poll_until;
use muster_lab::program::Program;
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{Rig, TIME, exists, fake_core, field, init_program, looks_like_core, open_files};

fn kill9(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Init has nothing open but what it was given, what it keeps, signals, events, the link, and core's program.
fn assert_keeps(init: i32, kept: usize) {
    poll_until(TIME, "no descriptor is left over", || {
        open_files(init, |target| target.starts_with("/memfd:kept")) == kept
            && open_files(init, |target| target.starts_with("anon_inode:")) == 2
            && open_files(init, |target| target.contains("fake-core")) == 1
            && open_files(init, |target| target.starts_with("/memfd:muster-init")) == 0
            && open_files(init, |target| target.starts_with("socket:")) == 1
    });
}

#[test]
fn first_core_gets_nothing_and_its_arguments() {
    let mut rig = Rig::start(&[]);
    let begun = rig.wait_for_core();
    assert_eq!(field(&begun, "cause"), "FirstBoot");
    assert_eq!(field(&begun, "kept"), "0");
    assert_eq!(field(&begun, "safe"), "false");
    assert_eq!(field(&begun, "supervised"), "true");
    let folder = rig.folder.path().to_str().unwrap().to_owned();
    assert!(
        begun.ends_with(&format!("arguments=[{folder:?}]")),
        "{begun}"
    );
    rig.shut_down();
}

#[test]
fn nothing_is_left_behind() {
    muster_lab::alone!();
    let before = Snapshot::take().unwrap();
    let mut rig = Rig::start(&["--shutdown-timeout", "0.3"]);
    rig.wait_for_core();
    rig.order("store 50 a");
    let service = rig.spawn("exec sleep 600");
    let stubborn = rig.spawn("trap '' TERM; echo deaf$((1)); while :; do sleep 600; done");
    rig.wait_for("deaf1");
    rig.tell("shutdown exit 7");
    assert_eq!(rig.init.wait(TIME).unwrap().code(), Some(7));
    assert!(!exists(service) && !exists(stubborn));
    assert_eq!(rig.count("did not end and is killed"), 2);
    drop(rig);
    before.assert_unchanged(TIME);
}

#[test]
fn everything_kept_is_handed_to_the_next_core() {
    let mut rig = Rig::start(&[]);
    let first = rig.wait_for_core();
    let service = rig.spawn("exec sleep 600");
    rig.order("store 5000 fds:unit.service:x:");
    rig.order("drop fds:unit.service:x:1");
    rig.now();
    let start = Instant::now();
    rig.tell("kill 9");
    let second = rig.wait_for_core();
    let took = start.elapsed();
    // 1, 10 to 19, 100 to 199, 1000 to 1999 are gone.
    assert_eq!(field(&second, "kept"), "3889");
    assert_ne!(field(&first, "pid"), field(&second, "pid"));
    assert_eq!(field(&second, "crashes"), "1");
    assert!(second.contains("cause=Crash { outcome: killed by signal 9 }"));
    rig.order("check");
    assert_eq!(rig.count("checked 3889"), 1);
    assert!(exists(service));
    println!("another core had all of 3889 descriptors after {took:?}");
    rig.shut_down();
}

/// Cores are killed as soon as they exist, so somewhere in the handover, while processes end.
#[test]
fn cores_killed_while_they_take_over_lose_nothing() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    rig.order("store 3000 a");
    let service = rig.spawn("exec sleep 600");
    let folder = rig.folder.path().to_str().unwrap().to_owned();
    let parent = rig.spawn(&format!(
        "for n in 1 2 3 4 5 6 7 8 9; do (sh -c 'echo x >> {folder}/ended; exit 3' &); sleep 0.1; done"
    ));
    for _ in 0..7 {
        let core = core_of(rig.init.pid());
        kill9(core);
        rig.wait_for(&format!("core (pid {core})"));
    }
    rig.now();
    let begun = rig.wait_for_core();
    assert_eq!(field(&begun, "kept"), "3000");
    rig.order("check");
    rig.wait_for("checked 3000");
    assert!(exists(service));
    // The nine orphans and their parent: each is told while it runs, or to a core that begins.
    poll_until(TIME, "all exits were told", || {
        let lines = rig.init.lines();
        let live = lines
            .iter()
            .filter_map(|line| line.text.strip_prefix("exit "));
        let mut told: BTreeSet<u64> = live
            .filter_map(|rest| rest.split(' ').next()?.parse().ok())
            .collect();
        let lists = lines.iter().filter(|line| line.text.starts_with("begun "));
        for line in lists {
            let list = line.text.split("exits=[").nth(1).unwrap_or_default();
            let list = list.split(']').next().unwrap_or_default();
            let seqs = list.split(',').filter_map(|exit| exit.split(':').next());
            told.extend(seqs.filter_map(|seq| seq.parse::<u64>().ok()));
        }
        told.into_iter().eq(1..=10) && !exists(parent)
    });
    let ended = fs::read_to_string(format!("{folder}/ended")).unwrap();
    assert_eq!(ended.lines().count(), 9);
    rig.shut_down();
}

#[test]
fn exits_are_told_until_they_are_acknowledged() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    rig.order("acknowledge off");
    let mut pids = Vec::new();
    for n in 1..=3 {
        let pid = rig.spawn(&format!("exit {n}"));
        rig.wait_for(&format!("exit {n} {pid} exited with code {n}"));
        pids.push(pid);
    }
    rig.order("ack 1");
    fs::write(rig.folder.path().join("manual"), "").unwrap();
    rig.now();
    rig.tell("kill 6");
    let begun = rig.wait_for_core();
    let expected = format!("exits=[2:{},3:{}]", pids[1], pids[2]);
    assert!(begun.contains(&expected), "{begun}");

    // While this one does not say that it has adopted everything, nothing is reaped.
    let pid = rig.spawn("exit 4");
    poll_until(TIME, "the process has ended", || {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    });
    rig.now();
    rig.tell("kill 6");
    let begun = rig.wait_for_core();
    assert!(begun.contains(&expected), "{begun}");
    rig.order("adopt");
    rig.wait_for(&format!("exit 4 {pid} exited with code 4"));
    assert!(!exists(pid));
    rig.shut_down();
}

#[test]
fn orphans_become_children_of_init_and_are_reaped() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    let folder = rig.folder.path().to_str().unwrap().to_owned();
    rig.order(&format!(
        "spawn setsid sh -c '(sh -c \"echo \\$\\$ > {folder}/new; mv {folder}/new {folder}/pid; exit 9\" &)'"
    ));
    let mut pid = String::new();
    poll_until(TIME, "the orphan has run", || {
        pid = fs::read_to_string(format!("{folder}/pid")).unwrap_or_default();
        !pid.is_empty()
    });
    rig.wait_for(&format!("{} exited with code 9", pid.trim()));
    rig.shut_down();
}

#[test]
fn thousands_of_exits_are_all_told_once() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    rig.now();
    rig.tell("spawn i=0; while [ $i -lt 3000 ]; do (: &) ; i=$((i+1)); done; exit 77");
    rig.wait_for("exited with code 77");
    // Each orphan and the shell itself; the shell's other children are its own.
    poll_until(TIME, "all were told", || rig.count("exit ") >= 3001);
    let mut seqs: Vec<u64> = rig
        .init
        .lines()
        .iter()
        .filter_map(|line| {
            line.text
                .strip_prefix("exit ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .collect();
    let all = seqs.len();
    seqs.sort_unstable();
    seqs.dedup();
    assert_eq!(seqs.len(), all);
    assert_eq!(seqs, (1..=all as u64).collect::<Vec<_>>());
    rig.shut_down();
}

#[test]
fn crashing_core_gets_into_safe_mode() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    let service = rig.spawn("exec sleep 600");
    for (number, command) in ["kill 9", "exit 0", "kill 6"].into_iter().enumerate() {
        rig.now();
        rig.tell(command);
        let begun = rig.wait_for_core();
        assert_eq!(field(&begun, "crashes"), (number + 1).to_string());
        let is_safe = number == 2;
        assert_eq!(field(&begun, "safe"), is_safe.to_string());
        assert_eq!(begun.contains("\"--safe-mode\""), is_safe);
    }
    assert!(exists(service));
    // Whoever is at the machine can leave safe mode.
    rig.now();
    rig.tell("upgrade core same");
    let begun = rig.wait_for_core();
    assert_eq!(field(&begun, "safe"), "false");
    assert_eq!(field(&begun, "cause"), "Upgrade");
    rig.shut_down();
}

/// What a core is replaced for after this command.
fn cause_after(command: &str) -> String {
    let mut rig = Rig::start(&["--heartbeat", "0.2"]);
    rig.wait_for_core();
    rig.now();
    rig.tell(command);
    let begun = rig.wait_for_core();
    rig.shut_down();
    begun
}

#[test]
fn hanging_core_is_replaced() {
    for command in ["hang", "answer off"] {
        let begun = cause_after(command);
        assert!(begun.contains("cause=Hang"), "{command}: {begun}");
    }
}

#[test]
fn core_that_cannot_even_abort_is_replaced() {
    let stopped = cause_after("kill 19");
    assert!(stopped.contains("cause=Hang"), "{stopped}");
}

#[test]
fn core_that_closes_its_link_is_replaced() {
    let closed = cause_after("close");
    assert!(closed.contains("cause=Crash"), "{closed}");
}

#[test]
fn upgrade_starts_the_new_program_with_everything() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    let service = rig.spawn("exec sleep 600");
    rig.order("store 300 a");
    let new = rig.folder.path().join("new-core");
    fs::copy(fake_core(), &new).unwrap();
    rig.now();
    rig.tell(&format!("upgrade core {}", new.display()));
    let begun = rig.wait_for_core();
    assert_eq!(field(&begun, "cause"), "Upgrade");
    assert_eq!(field(&begun, "kept"), "300");
    let pid = field(&begun, "pid").to_owned();
    assert_eq!(fs::read_link(format!("/proc/{pid}/exe")).unwrap(), new);
    assert!(exists(service));
    // It is the program from now on.
    rig.now();
    rig.tell("kill 9");
    let begun = rig.wait_for_core();
    let pid = field(&begun, "pid").to_owned();
    assert_eq!(fs::read_link(format!("/proc/{pid}/exe")).unwrap(), new);
    rig.shut_down();
}

#[test]
fn upgrade_that_fails_is_rolled_back() {
    for bad in ["/bin/false", "/no/such/program", "/bin/cat"] {
        let mut rig = Rig::start(&["--hello-timeout", "2"]);
        rig.wait_for_core();
        let service = rig.spawn("exec sleep 600");
        rig.order("store 300 a");
        rig.now();
        rig.tell(&format!("upgrade core {bad}"));
        let begun = rig.wait_for_core();
        assert!(begun.contains("cause=RolledBack"), "{bad}: {begun}");
        assert_eq!(field(&begun, "kept"), "300");
        assert!(exists(service));
        rig.shut_down();
    }
}

#[test]
fn roll_back_works_after_init_was_replaced_too() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    rig.order("store 30 a");
    rig.now();
    rig.tell("upgrade both /bin/false");
    let begun = rig.wait_for_core();
    assert!(begun.contains("cause=RolledBack"), "{begun}");
    assert_eq!(field(&begun, "kept"), "30");
    assert_eq!(rig.count("stays"), 0);
    rig.shut_down();
}

/// More than there is room for is refused one by one, and core is told.
#[test]
fn descriptors_without_room_are_counted() {
    const TOO_MANY: usize = 17_000;
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    rig.order(&format!("store {TOO_MANY} a"));
    let refused = |rig: &Rig| -> usize {
        let lines = rig.init.lines();
        let counts = lines
            .iter()
            .filter_map(|line| line.text.strip_prefix("refused "));
        counts.map(|count| count.parse::<usize>().unwrap()).sum()
    };
    poll_until(TIME, "some are refused", || {
        refused(&rig) >= TOO_MANY - 16_384
    });
    // There is always room for another core, and room again when something is dropped.
    rig.order("drop a1");
    rig.now();
    rig.tell("kill 9");
    let kept: usize = field(&rig.wait_for_core(), "kept").parse().unwrap();
    assert!(kept > 0 && kept < TOO_MANY - refused(&rig));
    rig.order("store 20 b");
    rig.now();
    rig.tell("kill 9");
    let begun = rig.wait_for_core();
    assert_eq!(field(&begun, "kept"), (kept + 20).to_string());
    rig.shut_down();
}

#[test]
fn program_that_was_replaced_by_a_bad_one_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    fs::copy(fake_core(), &core).unwrap();
    let mut rig = Rig::start_program(&init_program(), &core, &[]);
    rig.wait_for_core();
    fs::copy("/bin/false", folder.path().join("bad")).unwrap();
    fs::rename(folder.path().join("bad"), &core).unwrap();
    rig.now();
    rig.tell("upgrade core same");
    let begun = rig.wait_for_core();
    assert!(begun.contains("cause=RolledBack"), "{begun}");
    fs::remove_file(&core).unwrap();
    rig.now();
    rig.tell("kill 9");
    rig.wait_for_core();
    rig.shut_down();
}

#[test]
fn init_is_replaced_under_load_and_keeps_everything() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    let pid = rig.init.pid();
    rig.order("store 5000 a");
    let service = rig.spawn("exec sleep 600");
    // Processes that end all the time.
    rig.order("spawn while :; do (: &); done");
    for _ in 0..3 {
        rig.now();
        rig.tell("upgrade both same");
        let begun = rig.wait_for_core();
        assert_eq!(field(&begun, "cause"), "Upgrade");
        assert_eq!(field(&begun, "kept"), "5000");
        rig.order("check");
        rig.wait_for("exit ");
        assert_keeps(pid, 5000);
    }
    assert_eq!(rig.count("checked 5000"), 3);
    assert_eq!(rig.count("stays"), 0);
    assert!(exists(service));
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert_eq!(line.matches("--resume=").count(), 1);
    // No exit was lost or told twice by the change of init: each core has acknowledged what it was told.
    let mut seqs: Vec<u64> = rig
        .init
        .lines()
        .iter()
        .filter_map(|line| {
            line.text
                .strip_prefix("exit ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .collect();
    let told = seqs.len();
    seqs.sort_unstable();
    seqs.dedup();
    assert_eq!(seqs.len(), told);
    rig.shut_down();
}

#[test]
fn init_that_cannot_take_over_is_not_executed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("muster-init");
    fs::copy(init_program(), &path).unwrap();
    let mut rig = Rig::start_program(&path, &fake_core(), &[]);
    rig.wait_for_core();
    rig.order("store 20 a");
    for bad in ["/bin/false", "none"] {
        fs::remove_file(&path).unwrap();
        if bad != "none" {
            fs::copy(bad, &path).unwrap();
        }
        rig.now();
        rig.tell("upgrade both same");
        let begun = rig.wait_for_core();
        assert_eq!(field(&begun, "cause"), "Upgrade");
        assert_eq!(field(&begun, "kept"), "20");
        rig.order("check");
        assert_keeps(rig.init.pid(), 20);
    }
    assert_eq!(rig.count("this init stays"), 2);
    rig.shut_down();
}

#[test]
fn signals_are_passed_on() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    for (signal, number) in [
        (Signal::TERM, 15),
        (Signal::HUP, 1),
        (Signal::INT, 2),
        (Signal::USR1, 10),
        (Signal::WINCH, 28),
        (Signal::POWER, 30),
    ] {
        rig.init.signal(signal).unwrap();
        rig.wait_for(&format!("signal {number}"));
    }
    rig.shut_down();
}

#[test]
fn supervisor_without_any_core_fails() {
    let folder = tempfile::tempdir().unwrap();
    let mut init = Program::new(init_program())
        .args(["--supervise", "--core", "/no/such/core", "--"])
        .arg(folder.path())
        .start()
        .unwrap();
    assert_eq!(init.wait(TIME).unwrap().code(), Some(1));
    init.wait_for_line("No such file", TIME).unwrap();
    init.wait_for_line("name it by --core", TIME).unwrap();
}

#[test]
fn supervisor_ends_by_itself_when_there_is_no_core_to_ask() {
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    fs::copy(fake_core(), &core).unwrap();
    let mut rig = Rig::start_program(&init_program(), &core, &[]);
    rig.wait_for_core();
    let service = rig.spawn("exec sleep 600");
    // From now on cores fail by themselves, and the delays get long.
    fs::write(rig.folder.path().join("manual"), "").unwrap();
    fs::remove_file(rig.folder.path().join("control")).unwrap();
    fs::create_dir(rig.folder.path().join("control")).unwrap();
    kill9(core_of(rig.init.pid()));
    poll_until(TIME, "core is away", || rig.count("safe mode") > 2);
    rig.init.terminate(TIME).unwrap();
    assert!(!exists(service));
}

/// The child of init that is core.
fn core_of(init: i32) -> i32 {
    let mut pid = 0;
    poll_until(TIME, "there is a core", || {
        let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
        let mut pids = children
            .split_ascii_whitespace()
            .map(|pid| pid.parse().unwrap());
        pid = pids.find(|pid| looks_like_core(*pid)).unwrap_or(0);
        pid != 0
    });
    pid
}

#[test]
fn soft_reboot_ends_everything_and_begins_anew() {
    let mut rig = Rig::start(&[]);
    rig.wait_for_core();
    rig.order("store 10 a");
    let service = rig.spawn("exec sleep 600");
    rig.now();
    rig.tell("shutdown soft-reboot");
    let begun = rig.wait_for_core();
    assert_eq!(field(&begun, "cause"), "SoftReboot");
    assert_eq!(field(&begun, "kept"), "0");
    assert!(!exists(service));
    rig.shut_down();
}

#[test]
fn idle_init_does_nothing() {
    let mut rig = Rig::start(&["--heartbeat", "0"]);
    rig.wait_for_core();
    rig.order("answer on");
    let pid = rig.init.pid();
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("voluntary_ctxt"))
            .unwrap();
        line.split_ascii_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    // A core that works for a while without saying anything.
    let before = switches();
    let sleeper = rig.spawn("sleep 1");
    rig.wait_for(&format!("{sleeper} exited"));
    assert!(switches() - before < 10, "{} wake-ups", switches() - before);
    rig.shut_down();
}

#[test]
fn mistakes_on_the_command_line_are_named() {
    let run = |arguments: &[&str]| {
        let mut init = Program::new(init_program())
            .args(arguments)
            .start()
            .unwrap();
        let code = init.wait(Duration::from_secs(10)).unwrap().code();
        (
            code,
            init.lines().pop().map(|line| line.text).unwrap_or_default(),
        )
    };
    let (code, text) = run(&[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("use --supervise"), "{text}");
    let (code, text) = run(&["--supervise", "--hartbeat=1"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("--hartbeat=1"), "{text}");
    let (code, text) = run(&["--version"]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with("muster-init 0."), "{text}");
    assert_eq!(run(&["--check-state=9"]).0, Some(1));
}
