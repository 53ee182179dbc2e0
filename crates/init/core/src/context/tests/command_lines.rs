//! Programs, arguments and prefixes.

use muster_engine::protocol::ExecKind;
use muster_exec::ExecContext;
use muster_unit_file::config::CommandPhase;

use super::rig::{Fake, START, built_by, context, failure, variable};

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

/// What only the helper learns may be in an argument, or be unwanted.
#[test]
fn whoever_knows_all_variables_replaces_them_and_takes_them_away() {
    let built = |lines: &str| {
        let mut fake = Fake::default();
        fake.distant = Some("/far");
        fake.files.insert("/near/b".into(), b"B=file\n".to_vec());
        let lines = format!("Environment=A=1\nUnsetEnvironment=A=2 LANG\n{lines}");
        built_by(&mut fake, &lines, START, |_| {}).unwrap().context
    };
    let argv = |context: &ExecContext| context.argv.join(" ");
    for lines in [
        "User=stranger",
        "User=jo\nPAMName=login",
        "EnvironmentFile=/near/b\nEnvironmentFile=-/far/x",
        "EnvironmentFile=/far/*.env",
    ] {
        let context = built(&format!("{lines}\nExecStart=/bin/x ${{HOME}} $A"));
        assert_eq!(argv(&context), "/bin/x ${HOME} $A", "{lines}");
        assert_eq!(variable(&context, "A"), Some("1"));
        assert_eq!(variable(&context, "LANG"), Some("C"), "{lines}");
        assert_eq!(variable(&context, "B"), None, "{lines}");
        let sandbox = context.sandbox.unwrap();
        assert!(sandbox.expands_arguments, "{lines}");
        assert_eq!(sandbox.unset_environment, ["A=2".into(), "LANG".into()]);
        let count = lines.matches("EnvironmentFile").count();
        assert_eq!(sandbox.environment_files.len(), count, "{lines}");
        let context = built(&format!("{lines}\nExecStart=:/bin/x ${{HOME}} $A"));
        assert!(!context.sandbox.unwrap().expands_arguments, "{lines}");
    }
    for lines in [
        "User=jo",
        "User=jo\nPrivateTmp=yes",
        "EnvironmentFile=/near/*",
    ] {
        let context = built(&format!("{lines}\nExecStart=/bin/x ${{A}} $LANG"));
        assert_eq!(argv(&context), "/bin/x 1", "{lines}");
        assert_eq!(variable(&context, "LANG"), None, "{lines}");
        let read = lines.starts_with("Env").then_some("file");
        assert_eq!(variable(&context, "B"), read, "{lines}");
        let sandbox = context.sandbox.unwrap_or_default();
        assert!(!sandbox.expands_arguments && sandbox.unset_environment.is_empty());
    }
}

#[test]
fn a_program_is_not_looked_for_where_nobody_may_answer() {
    let mut fake = Fake::default();
    fake.distant = Some("/far");
    fake.programs.insert("/usr/bin/tool".into());
    let mut built = |lines: &str| {
        let context = built_by(&mut fake, lines, START, |_| {}).unwrap().context;
        let folders = context.sandbox.map(|sandbox| sandbox.program_folders);
        (context.program.to_string(), folders)
    };
    let (program, folders) = built("ExecSearchPath=/far/bin:/usr/bin\nExecStart=tool");
    assert_eq!(program, "tool");
    assert_eq!(folders.unwrap(), ["/far/bin".into(), "/usr/bin".into()]);
    // Behind the folder that has it nobody looks.
    let near = built("ExecSearchPath=/usr/bin:/far/bin\nExecStart=tool");
    assert_eq!(near, ("/usr/bin/tool".to_owned(), None));
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
    assert!(plain.context.sandbox.is_some());
    let full = built("+/bin/x");
    assert!(full.context.identity.is_none() && !full.context.no_new_privileges);
    assert!(full.context.sandbox.is_none() && full.private_tmp.is_none());
    assert!(full.context.limits.is_empty() && !plain.context.limits.is_empty());
    let own_change = built("!/bin/x");
    assert!(own_change.context.identity.is_none() && own_change.context.no_new_privileges);
    assert!(own_change.context.sandbox.is_some());
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

/// The manager sees other folders than a process with a view of its own.
#[test]
fn programs_are_looked_for_in_what_the_process_will_see() {
    let mut fake = Fake::default();
    fake.programs.insert("/usr/local/bin/x".into());
    let mut built = |lines: &str| {
        let built = built_by(&mut fake, lines, START, |_| {}).unwrap();
        let sandbox = built.context.sandbox;
        let folders = sandbox.map(|sandbox| sandbox.program_folders);
        (built.context.program.to_string(), folders)
    };
    for view in ["RootDirectory=/a", "RootImage=/a", "ExtensionImages=/a"] {
        let (program, folders) = built(&format!("{view}\nExecStart=x"));
        assert_eq!(program, "x", "{view}");
        let folders = folders.unwrap();
        assert_eq!(&*folders[0], "/usr/local/sbin");
        assert_eq!(folders.len(), 6);
        // Marked, it sees what the manager sees.
        let marked = built(&format!("{view}\nExecStart=+x"));
        assert_eq!(marked, ("/usr/local/bin/x".to_owned(), None), "{view}");
    }
    let (_, folders) = built("ExecSearchPath=/o/b:/o/a\nPrivateTmp=yes\nExecStart=x");
    assert_eq!(folders.unwrap(), ["/o/b".into(), "/o/a".into()]);
    let whole = built("RootDirectory=/a\nExecStart=/bin/x");
    assert_eq!(whole, ("/bin/x".to_owned(), Some(Vec::new())));
}

#[test]
fn what_is_not_carried_out_is_named_or_fails_the_start() {
    let lines =
        "ExecStart=/bin/x\nRestrictFileSystems=ext4\nLogNamespace=a\nUtmpIdentifier=a\nNice=5";
    let built = built_by(&mut Fake::default(), lines, START, |_| {}).unwrap();
    // Filters of the group are a matter of its resources.
    let expected = ["LogNamespace"];
    assert_eq!(built.not_applied, expected);
    let plain = built_by(&mut Fake::default(), "ExecStart=/bin/x", START, |_| {}).unwrap();
    assert!(plain.not_applied.is_empty());
    // Neither the root nor secrets are dropped, whatever the unit says.
    for (lines, code, why) in [
        ("RootHash=ab", 226, "RootHash=: images are not checked"),
        ("RootVerity=/a", 226, "RootHash=: images are not checked"),
        ("SetCredentialEncrypted=a:b", 243, "SetCredentialEncrypted"),
        ("LoadCredentialEncrypted=a:/b", 243, "LoadCredential"),
    ] {
        for lines in [lines.to_owned(), format!("SandboxBestEffort=yes\n{lines}")] {
            let failure = failure(&lines);
            assert_eq!(failure.exit_code, code, "{lines}");
            assert!(failure.step.contains(why), "{lines}: {}", failure.step);
        }
    }
}

#[test]
fn the_same_settings_give_the_same_context() {
    let lines = "User=jo\nEnvironment=A=1 B=2\nStateDirectory=x\nLimitNOFILE=5";
    assert_eq!(context(lines), context(lines));
}
