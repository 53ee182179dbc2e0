use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use super::*;

/// The shells that machines have.
const SHELLS: [&[&str]; 3] = [&["dash"], &["bash"], &["busybox", "sh"]];

/// Those in which root finds a way to become another. BusyBox's programs know none, and its shell prefers them.
const CHANGING: [&[&str]; 2] = [SHELLS[0], SHELLS[1]];

/// Runs a command as a transport would, with a shell of this machine.
fn run(shell: &[&str], command: &Command) -> (Started, Output) {
    let path = std::env::var("PATH").unwrap();
    run_with(&path, shell, command)
}

fn run_with(path: &str, shell: &[&str], command: &Command) -> (Started, Output) {
    use std::io::Write as _;
    let script = Script::new(command).unwrap();
    let mut child = std::process::Command::new(shell[0])
        .args(&shell[1..])
        .args(["-c", READER])
        .env("PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let line = script.line();
    assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&line).unwrap();
    // A command that is not started reads nothing, and may have ended before this.
    let _ = stdin.write_all(b"input\n");
    drop(stdin);
    let mut output = child.wait_with_output().unwrap();
    let (started, rest) = script.heading().take(&output.stdout).unwrap();
    output.stdout = rest.to_vec();
    (started, output)
}

/// Every byte that an argument can hold, and what shells trip over.
fn odd() -> Vec<Vec<u8>> {
    let mut odd: Vec<Vec<u8>> = [
        "", " ", "'", "\"", "\\", "\n", "a\n\nb\n", "$HOME", "`id`", "*", "%b", "\\n", "-n", "é",
    ]
    .map(|it| it.as_bytes().to_vec())
    .into();
    odd.push((1..=255).collect());
    odd.extend((1..=255).map(|byte| vec![b'a', byte, b'b']));
    odd
}

#[test]
fn arguments_and_variables_pass_as_they_are() {
    let odd = odd();
    for shell in SHELLS {
        let args = odd.iter().map(|it| OsStr::from_bytes(it).to_owned());
        let command = Command::new("printf").arg("%s\\0").args(args);
        let (started, output) = run(shell, &command);
        assert!(matches!(started, Started::Process(_)));
        let printed: Vec<Vec<u8>> = output
            .stdout
            .split(|&it| it == 0)
            .map(<[u8]>::to_vec)
            .collect();
        assert_eq!(&printed[..odd.len()], odd.as_slice(), "{shell:?}");
    }
    let mut command = Command::new("env").arg("-0");
    for (index, value) in odd.iter().enumerate() {
        command = command.env(format!("ODD_{index}"), OsStr::from_bytes(value));
    }
    let (_, output) = run(&["sh"], &command);
    let lines: Vec<&[u8]> = output.stdout.split(|&it| it == 0).collect();
    for (index, value) in odd.iter().enumerate() {
        let line = [format!("ODD_{index}=").as_bytes(), value].concat();
        assert!(lines.contains(&line.as_slice()), "{index}");
    }
}

#[test]
fn the_launcher_is_the_reader_in_a_posix_shell() {
    assert_eq!(LAUNCHER, format!("exec sh -c '{READER}'"));
}

#[test]
fn the_command_reads_what_follows_and_ends_as_itself() {
    for shell in SHELLS {
        let (started, output) = run(shell, &Command::shell("cat; exit 7"));
        assert!(matches!(started, Started::Process(_)), "{shell:?}");
        assert_eq!(output.stdout, b"input\n", "{shell:?}");
        assert_eq!(output.status.code(), Some(7), "{shell:?}");
    }
}

/// Starts a command as a transport would that leaves it alone afterwards, in a group of its own.
fn leave(shell: &[&str], command: &Command) -> std::process::Child {
    use std::io::Write as _;
    use std::os::unix::process::CommandExt as _;
    let script = Script::with_grace(command, Duration::ZERO).unwrap();
    let mut child = std::process::Command::new(shell[0])
        .args(&shell[1..])
        .args(["-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&script.line()).unwrap();
    child
}

#[test]
fn the_machine_itself_kills_what_nobody_else_does() {
    use std::os::unix::process::ExitStatusExt as _;
    let forever = Command::shell("sleep 1000 & sleep 1000").timeout(Duration::from_millis(1));
    let left = SHELLS.map(|shell| leave(shell, &forever));
    for (shell, child) in SHELLS.iter().zip(left) {
        // The output ends only when all of the group has.
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{shell:?}");
    }
}

#[test]
fn what_watches_a_command_is_none_of_its_children_and_ends_with_it() {
    let script = r#"wait; read -r children </proc/$$/task/$$/children; echo "$$ $children""#;
    let short = Command::shell(script).timeout(Duration::from_secs(3600));
    for shell in SHELLS {
        let child = leave(shell, &short);
        let group = rustix::process::Pid::from_child(&child);
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let (_, begun) = printed.split_once('\n').unwrap();
        assert_eq!(begun, format!("{group} \n"), "{shell:?}");
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while rustix::process::test_kill_process_group(group).is_ok() {
            assert!(std::time::Instant::now() < deadline, "{shell:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn what_cannot_be_started_says_why() {
    let cases = [
        (Command::new("no-such-program-here"), NotStarted::Program),
        (Command::new("/no/such/program"), NotStarted::Program),
        (Command::new("/etc/passwd"), NotStarted::Executable),
        (Command::new("./."), NotStarted::Executable),
        (
            Command::new("true").folder("/no/such/folder"),
            NotStarted::Folder,
        ),
        (Command::new("true").user("no-such-user"), NotStarted::User),
    ];
    for (command, why) in cases {
        for shell in SHELLS {
            assert_eq!(run(shell, &command).0, Started::Not(why), "{shell:?}");
        }
    }
}

/// What a user who is nobody becomes another with, as `sudo` without a password does.
const SUDO: &str = r#"#!/bin/sh
[ "$1 $2" = "-n -u" ] || exit 2
user=$3
shift 3
[ "$1" != -- ] || shift
exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"
"#;

/// Starts a shell as a user who may become others, and may do nothing else.
const NOBODY: [&str; 7] = [
    "setpriv",
    "--reuid=nobody",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=+setuid,+setgid",
    "--ambient-caps=+setuid,+setgid",
    "--",
];

fn make(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn programs_and_folders_are_looked_for_by_whoever_runs_them() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: nobody but root becomes others");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let open = place.path();
    fs::set_permissions(open, fs::Permissions::from_mode(0o755)).unwrap();
    let closed = open.join("closed");
    fs::create_dir(&closed).unwrap();
    make(&open.join("sudo"), SUDO, 0o755);
    let tool = "#!/bin/sh\nid -un\nprintf '%s\\n' \"$PWD $VALUE $*\"\n";
    make(&open.join("tool"), tool, 0o700);
    make(&closed.join("closed-tool"), tool, 0o755);
    make(&closed.join("no-tool"), tool, 0o644);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let (open, closed) = (open.to_str().unwrap(), closed.to_str().unwrap());
    let path = format!("{open}:{}:{closed}", std::env::var("PATH").unwrap());
    let as_root = |program: &str| Command::new(program).user("root");
    let as_nobody = |program: &str| Command::new(program).user("nobody");

    for shell in SHELLS {
        let from_nobody = [NOBODY.as_slice(), shell].concat();
        for (command, folder) in [
            (as_root(&format!("{open}/tool")).folder("/"), "/"),
            (as_root(&format!("{closed}/closed-tool")).folder("/"), "/"),
            (as_root("closed-tool").folder("/"), "/"),
            (as_root("./closed-tool").folder(closed), closed),
        ] {
            let odd = "it's \"$(id)\"\\n";
            let command = command.arg(odd).env("VALUE", odd);
            let (started, output) = run_with(&path, &from_nobody, &command);
            assert!(
                matches!(started, Started::Process(_)),
                "{shell:?} {command:?} {started:?}"
            );
            let printed = String::from_utf8(output.stdout).unwrap();
            assert_eq!(printed, format!("root\n{folder} {odd} {odd}\n"));
        }
        let other = format!("{closed}/other-tool");
        let no_tool = format!("{closed}/no-tool");
        for (command, why) in [
            (as_root(&other), NotStarted::Program),
            (as_root("other-tool"), NotStarted::Program),
            (as_root(&no_tool), NotStarted::Executable),
            (as_root("true").folder(&other), NotStarted::Folder),
        ] {
            let (started, _) = run_with(&path, &from_nobody, &command);
            assert_eq!(started, Started::Not(why), "{shell:?} {command:?}");
        }
    }
    for shell in CHANGING {
        // Whom everything is open to becomes somebody to whom it is not.
        for (command, why) in [
            (as_nobody(&format!("{open}/tool")), NotStarted::Executable),
            (as_nobody("closed-tool"), NotStarted::Program),
        ] {
            let (started, _) = run_with(&path, shell, &command);
            assert_eq!(started, Started::Not(why), "{shell:?} {command:?}");
        }
        // A folder that somebody else entered is where a command may begin, as it may in his own.
        let within = as_nobody("pwd").folder(closed);
        let (started, output) = run_with(&path, shell, &within);
        assert!(matches!(started, Started::Process(_)), "{shell:?}");
        assert_eq!(output.stdout, format!("{closed}\n").as_bytes());
    }
}

#[test]
fn whoever_becomes_another_still_leads_the_group() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: nobody but root becomes others");
        return;
    }
    for shell in CHANGING {
        let command = Command::shell("echo $$").user("nobody");
        let (started, output) = run(shell, &command);
        assert!(
            matches!(started, Started::Process(_)),
            "{shell:?} {started:?}"
        );
        let process = String::from_utf8(output.stdout).unwrap();
        let process = process.trim().parse().unwrap();
        assert_eq!(started, Started::Process(process), "{shell:?}");
    }
}

#[test]
fn nothing_of_a_command_is_in_the_list_of_processes() {
    // The line is input, and the launcher is the same for every command.
    assert!(!LAUNCHER.contains("secret"));
    let command = Command::new("sh")
        .args(["-c", "cat /proc/$$/cmdline"])
        .env("PASSWORD", "secret");
    let (_, output) = run(&["sh"], &command);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("secret"));
}

#[test]
fn commands_that_no_program_can_be_given_are_refused() {
    let cases = [
        Command::new(""),
        Command::new("a\0b"),
        Command::new("true").arg("a\0b"),
        Command::new("true").env("", "x"),
        Command::new("true").env("A=B", "x"),
        Command::new("true").user("root; id"),
        Command::new("true").user("-x"),
    ];
    for command in cases {
        let error = Script::new(&command).unwrap_err();
        assert_eq!(error.class, FailureClass::Refused);
    }
}

#[test]
fn the_heading_is_found_after_noise_and_in_pieces() {
    let script = Script::new(&Command::new("true")).unwrap();
    let whole = format!("welcome\n{} 42\r\nout", script.tag);
    for cut in 0..whole.len() {
        let mut heading = script.heading();
        let first = heading.take(&whole.as_bytes()[..cut]);
        let (started, rest) = match first {
            Some(answer) => answer,
            None => heading.take(&whole.as_bytes()[cut..]).unwrap(),
        };
        assert_eq!(started, Started::Process(42));
        assert!(b"out".starts_with(rest.as_ref()));
    }
    let mut heading = script.heading();
    let noise = vec![b'x'; MOST_NOISE + 1];
    let answer = Started::Not(NotStarted::Answer);
    assert_eq!(heading.take(&noise).map(|it| it.0), Some(answer));
}

#[test]
fn debug_output_shows_no_values_of_variables() {
    let command = Command::new("true").env("PASSWORD", "hunter2");
    let text = format!("{command:?}");
    assert!(text.contains("PASSWORD") && !text.contains("hunter2"));
}
