//! Programs, arguments and prefixes.

use muster_engine::protocol::ExecKind;
use muster_unit_file::config::CommandPhase;

use super::rig::{Fake, START, built_by, context, failure};

fn argv(lines: &str) -> Vec<String> {
    let built = built_by(&mut Fake::default(), lines, START, |_| {}).unwrap();
    built.context.argv.into_iter().map(Into::into).collect()
}

#[test]
fn variables_come_from_the_environment_of_the_process() {
    let environment = "Environment=\"ONE=a b\" TWO=c\n";
    assert_eq!(
        argv(&format!(
            "{environment}ExecStart=/bin/x $ONE ${{ONE}} x${{TWO}} $LANG ${{NONE}}"
        )),
        ["/bin/x", "a", "b", "a b", "xc", "C", ""]
    );
    // With a colon before the path nothing is replaced.
    assert_eq!(
        argv(&format!("{environment}ExecStart=:/bin/x $ONE ${{TWO}}")),
        ["/bin/x", "$ONE", "${TWO}"]
    );
    // With an at sign the zeroth argument is the unit's own.
    assert_eq!(argv("ExecStart=@/bin/x -x y"), ["-x", "y"]);
}

#[test]
fn programs_without_a_path_are_looked_for() {
    let mut fake = Fake::default();
    fake.programs = ["/usr/bin/tool", "/opt/a/tool", "/opt/b/tool"]
        .map(str::to_owned)
        .into();
    let mut program = |lines: &str| {
        let built = built_by(&mut fake, lines, START, |_| {})?;
        Ok::<_, muster_engine::protocol::SpawnError>(built.context.program.to_string())
    };
    assert_eq!(program("ExecStart=tool").unwrap(), "/usr/bin/tool");
    assert_eq!(
        program("ExecSearchPath=/opt/b:/opt/a\nExecStart=tool").unwrap(),
        "/opt/b/tool"
    );
    let error = program("ExecStart=nothing").unwrap_err();
    assert_eq!((error.exit_code, error.errno), (203, 2));
    assert!(error.step.contains("nothing"), "{}", error.step);
}

#[test]
fn prefixes_decide_about_rights() {
    let lines = "User=web\nNoNewPrivileges=yes\nPrivateTmp=yes\n";
    let built = |command: &str| {
        let lines = format!("{lines}ExecStart={command}");
        built_by(&mut Fake::default(), &lines, START, |_| {}).unwrap()
    };
    let plain = built("/bin/x");
    let identity = plain.context.identity.unwrap();
    assert_eq!(
        (identity.uid, identity.gid, identity.groups),
        (33, 34, vec![34, 40])
    );
    assert!(plain.context.no_new_privileges);
    assert_eq!(plain.not_applied, ["PrivateTmp"]);
    let full = built("+/bin/x");
    assert!(full.context.identity.is_none() && !full.context.no_new_privileges);
    assert!(full.not_applied.is_empty());
    let own_change = built("!/bin/x");
    assert!(own_change.context.identity.is_none() && own_change.context.no_new_privileges);
    // Where the kernel has ambient capabilities, two marks mean nothing.
    assert!(built("!!/bin/x").context.identity.is_some());
}

#[test]
fn an_older_directive_gives_all_but_the_main_command_full_rights() {
    let lines = "User=web\nPermissionsStartOnly=yes\nExecStart=/bin/x\nExecStartPre=/bin/y";
    let pre = (CommandPhase::StartPre, ExecKind::StartPre);
    let identity = |phase| {
        let built = built_by(&mut Fake::default(), lines, phase, |_| {});
        built.unwrap().context.identity
    };
    assert!(identity(START).is_some() && identity(pre).is_none());
}

#[test]
fn other_roots_are_refused_rather_than_ignored() {
    let error = failure("RootDirectory=/srv/box");
    assert_eq!(error.exit_code, 210);
    let lines = "RootDirectory=/srv/box\nExecStart=/bin/x\nExecStartPre=+/bin/y";
    let pre = (CommandPhase::StartPre, ExecKind::StartPre);
    assert!(built_by(&mut Fake::default(), lines, pre, |_| {}).is_ok());
}

#[test]
fn what_is_not_carried_out_is_named() {
    let lines = "ExecStart=/bin/x\nProtectSystem=strict\nSystemCallFilter=@system-service\nMemoryMax=1G\n\
                 CapabilityBoundingSet=CAP_CHOWN\nLoadCredential=a:/b\nTasksMax=5\nNice=5";
    let built = built_by(&mut Fake::default(), lines, START, |_| {}).unwrap();
    let expected = [
        "ProtectSystem",
        "CapabilityBoundingSet",
        "SystemCallFilter",
        "LoadCredential",
        "MemoryMax",
        "TasksMax",
    ];
    assert_eq!(built.not_applied, expected);
    let plain = built_by(&mut Fake::default(), "ExecStart=/bin/x", START, |_| {}).unwrap();
    assert!(plain.not_applied.is_empty());
}

#[test]
fn the_same_settings_give_the_same_context() {
    let lines = "User=jo\nEnvironment=A=1 B=2\nStateDirectory=x\nLimitNOFILE=5";
    assert_eq!(context(lines), context(lines));
}
