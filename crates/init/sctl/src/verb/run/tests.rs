use clap::Parser;
use muster_control::manager::WaitWhat;
use proptest::prelude::*;

use super::plan::{Caller, Plan, plan, slice_of};
use crate::cli::{Cli, Run, Verb};

fn options(words: &[&str]) -> Run {
    let words = ["sctl", "run"].iter().chain(words);
    let cli = Cli::try_parse_from(words).expect("the words are sound");
    match cli.verb {
        Verb::Run(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn caller() -> Caller {
    Caller {
        program: Some("/usr/bin/prog".to_owned()),
        folder: None,
        slice: Some("user.slice".to_owned()),
        pid: 42,
        random: "0123456789abcdef0123456789abcdef".to_owned(),
        variable: |name| (name == "HOME").then(|| "/root".to_owned()),
    }
}

fn planned(words: &[&str]) -> Result<Plan, String> {
    plan(&options(words), &caller())
}

fn setting<'a>(plan: &'a Plan, name: &str) -> Vec<&'a str> {
    let all = plan.call.properties.iter();
    all.filter(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
        .collect()
}

#[test]
fn a_command_becomes_a_service() {
    let plan = planned(&["prog", "-a", "b c"]).expect("a plan");
    assert_eq!(plan.call.unit, "run-0123456789ab.service");
    assert_eq!(plan.call.wait, WaitWhat::Job);
    assert_eq!(
        setting(&plan, "Service.ExecStart"),
        ["/usr/bin/prog -a \"b c\""]
    );
    assert_eq!(setting(&plan, "Unit.Description"), ["prog -a b c"]);
    assert_eq!(plan.started_by, None);
}

#[test]
fn options_become_settings() {
    let plan = planned(&[
        "--unit=x",
        "-p",
        "MemoryMax=1G",
        "-p",
        "After=a.service",
        "--uid=nobody",
        "--setenv=A=b c",
        "-E",
        "HOME",
        "--slice=s",
        "--nice=-5",
        "--wait",
        "-G",
        "prog",
        "$HOME",
        "100%",
    ])
    .expect("a plan");
    assert_eq!(plan.call.unit, "x.service");
    assert!(plan.call.collect);
    assert_eq!(setting(&plan, "Service.MemoryMax"), ["1G"]);
    assert_eq!(setting(&plan, "Unit.After"), ["a.service"]);
    assert_eq!(setting(&plan, "Service.User"), ["nobody"]);
    assert_eq!(
        setting(&plan, "Service.Environment"),
        ["\"A=b c\"", "HOME=/root"]
    );
    assert_eq!(setting(&plan, "Service.Slice"), ["s.slice"]);
    assert_eq!(setting(&plan, "Service.Nice"), ["-5"]);
    assert_eq!(
        setting(&plan, "Service.ExecStart"),
        ["/usr/bin/prog $$HOME \"100%%\""]
    );
}

#[test]
fn timers_start_the_service() {
    let plan =
        planned(&["--unit=x", "--on-calendar=daily", "--on-active=1h", "prog"]).expect("a plan");
    assert_eq!(plan.call.unit, "x.timer");
    assert_eq!(setting(&plan, "Timer.OnCalendar"), ["daily"]);
    assert_eq!(setting(&plan, "Timer.OnActiveSec"), ["1h"]);
    assert_eq!(setting(&plan, "Timer.RemainAfterElapse"), ["no"]);
    assert_eq!(plan.call.auxiliary.len(), 1);
    assert_eq!(plan.call.auxiliary[0].unit, "x.service");
    assert_eq!(plan.started_by, Some(("timer", "x.service".to_owned())));
}

#[test]
fn sockets_and_paths_start_the_service() {
    let plan = planned(&["--socket-property=ListenStream=/run/x", "prog"]).expect("a plan");
    assert_eq!(plan.call.unit, "run-0123456789ab.socket");
    assert_eq!(setting(&plan, "Socket.ListenStream"), ["/run/x"]);
    let plan = planned(&["--path-property=PathExists=/x", "prog"]).expect("a plan");
    assert_eq!(plan.call.unit, "run-0123456789ab.path");
}

#[test]
fn a_timer_may_start_a_unit_that_is_there() {
    let plan = planned(&["--unit=there", "--on-active=1s"]).expect("a plan");
    assert_eq!(plan.call.unit, "there.timer");
    assert_eq!(plan.call.auxiliary, []);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for words in [
        &["--on-active=1s", "--pipe", "prog"][..],
        &["--on-active=1s", "--path-property=PathExists=/x", "prog"],
        &["--timer-property=AccuracySec=1s", "prog"],
        &["--property=novalue", "prog"],
        &["--setenv=NOT_SET", "prog"],
        &["--unit=a b/c", "--scope", "--on-active=1s", "prog"],
        &[],
    ] {
        assert!(planned(words).is_err(), "{words:?}");
    }
}

#[test]
fn a_scope_takes_the_process_in() {
    let plan = planned(&["--scope", "prog"]).expect("a plan");
    assert_eq!(plan.call.unit, "run-0123456789ab.scope");
    assert_eq!(plan.call.pids, [42]);
    assert_eq!(setting(&plan, "Service.ExecStart"), [""; 0]);
}

#[test]
fn the_slice_of_a_process_is_its_deepest() {
    for (groups, slice) in [
        (
            "0::/user.slice/user-0.slice/session.scope\n",
            Some("user-0.slice"),
        ),
        ("0::/\n", None),
        (
            "1:name=systemd:/system.slice/x.service\n0::/\n",
            Some("system.slice"),
        ),
        ("", None),
    ] {
        assert_eq!(slice_of(groups).as_deref(), slice, "{groups}");
    }
}

proptest! {
    /// Whatever a word of the command is, unit files give it back: read by the parser that the manager has.
    #[test]
    fn words_survive_the_way_through_a_unit_file(words in prop::collection::vec("[ -~\u{e9}\t]{0,12}", 0..4)) {
        let mut all = vec!["--unit=x", "prog"];
        all.extend(words.iter().map(String::as_str));
        let plan = planned(&all).expect("a plan");
        let line = setting(&plan, "Service.ExecStart")[0].to_owned();
        let text = format!("[Service]\nExecStart={line}\n");
        let argv = read_back(&text);
        let mut expected = vec!["/usr/bin/prog".to_owned()];
        expected.extend(words);
        prop_assert_eq!(argv, expected);
    }
}

/// The words of `ExecStart=` after specifiers, as they are before variables are expanded; `$$` stands for `$`.
fn read_back(text: &str) -> Vec<String> {
    use muster_unit_file::config::UnitKind;
    use muster_unit_file::fs::RealFs;
    use muster_unit_file::load::{Loader, SearchPath};
    use muster_unit_file::name::UnitName;
    use muster_unit_file::specifier::HostFacts;

    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("x.service"), text).expect("a file");
    let path = folder.path().to_string_lossy().into_owned();
    let fs = RealFs::with_root("/");
    let mut loader = Loader::new(fs, SearchPath::new([path.as_str()]), HostFacts::default());
    let unit = loader.load(&UnitName::new("x.service").expect("a name"));
    let UnitKind::Service(service) = &unit.config.kind else {
        panic!("not a service");
    };
    let command = &service.commands[0].command;
    command
        .argv
        .iter()
        .map(|word| word.replace("$$", "$"))
        .collect()
}
