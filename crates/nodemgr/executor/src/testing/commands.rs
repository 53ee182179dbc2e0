//! Cases: commands.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;

use super::bench::{Bench, PATIENCE, ensure, expect_class, same, text};
use super::{Case, CaseResult, Stop, case};
use crate::command::{Command, Exit};
use crate::error::FailureClass;
use crate::power::PowerVerb;
use crate::running::Chunk;

pub(super) const CASES: &[Case] = &[
    case!(Exec, "a machine that is ready says so", probes),
    case!(Exec, "a command ends with its exit code", exit_codes),
    case!(Exec, "a command that is killed ends by its signal", signals),
    case!(
        Exec,
        "a code that a shell gives to a signal stays a code",
        high_exit_codes
    ),
    case!(
        Exec,
        "output and errors are separate and in order",
        separate
    ),
    case!(Exec, "every byte passes as it is", binary),
    case!(Exec, "ten megabytes pass through a command", ten_megabytes),
    case!(Exec, "arguments pass as they are", arguments),
    case!(Exec, "variables pass as they are", variables),
    case!(Exec, "a command starts in its folder", folder),
    case!(
        Exec,
        "a folder that is not there is not started in",
        no_folder
    ),
    case!(
        Exec,
        "a program that is not there is not started",
        no_program
    ),
    case!(
        Exec,
        "a file that cannot be executed is told from one that is not there",
        not_executable
    ),
    case!(Exec, "a command without input reads its end", no_input),
    case!(Exec, "the end of the input reaches the command", input_ends),
    case!(Exec, "a command may end before its input", input_left),
    case!(Exec, "a command runs as another user", other_user),
    case!(Exec, "a user that is not there is not run as", no_user),
    case!(Exec, "a timeout kills the whole group", timeout),
    case!(
        Exec,
        "a command that nobody wants is killed with its group",
        dropped
    ),
    case!(
        Exec,
        "a process that is left behind holds nothing up",
        left_behind
    ),
    case!(
        Exec,
        "a process that is left behind and never falls silent holds nothing up",
        left_chatting
    ),
    case!(Exec, "output that nobody reads is not lost", slow_reader),
    case!(Exec, "thirty commands run at once", at_once),
    case!(
        Exec,
        "the machine is switched off and booted from inside",
        power
    ),
];

async fn probes(bench: &Bench<'_>) -> CaseResult {
    let probed = bench.executor.probe().await;
    probed.map_err(|error| text(&error).into())
}

async fn exit_codes(bench: &Bench<'_>) -> CaseResult {
    for code in [0, 1, 7, 126, 127, 255] {
        let output = bench.run(Command::shell(format!("exit {code}"))).await?;
        same("the exit", &output.exit, &Exit::Code(code))?;
    }
    Ok(())
}

async fn high_exit_codes(bench: &Bench<'_>) -> CaseResult {
    if !bench.rig.tells_codes_from_signals() {
        let why = "one number says both how it ended and by which signal";
        return Err(Stop::Skipped(why.to_owned()));
    }
    for code in 128..=255 {
        let output = bench.run(Command::shell(format!("exit {code}"))).await?;
        same("the exit", &output.exit, &Exit::Code(code))?;
    }
    Ok(())
}

async fn signals(bench: &Bench<'_>) -> CaseResult {
    for signal in ["KILL", "TERM", "SEGV"] {
        let output = bench
            .run(Command::shell(format!("kill -s {signal} $$")))
            .await?;
        same("the exit", &output.exit, &Exit::Signal(signal.to_owned()))?;
    }
    Ok(())
}

async fn separate(bench: &Bench<'_>) -> CaseResult {
    let script = "i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let output = bench.run(Command::shell(script)).await?;
    let lines = |word: &str| {
        let lines = (0..500).map(|index| format!("{word} {index}\n"));
        lines.collect::<String>().into_bytes()
    };
    same("standard output", &output.stdout, &lines("out"))?;
    same("standard error", &output.stderr, &lines("err"))
}

async fn echo(bench: &Bench<'_>, content: Bytes) -> Result<Vec<u8>, Stop> {
    let command = Command::new("cat").input();
    let running = bench.executor.run(&command).await;
    let mut running = running.map_err(|error| text(&error))?;
    let stdin = running.stdin().ok_or("there is no input")?;
    let write = async move { stdin.write(content).await };
    let both = async { tokio::join!(write, running.output(usize::MAX)) };
    let done = tokio::time::timeout(PATIENCE, both).await;
    let (written, output) = done.map_err(|_| "it does not end".to_owned())?;
    written.map_err(|error| error.to_string())?;
    Ok(output.map_err(|error| text(&error))?.stdout)
}

async fn binary(bench: &Bench<'_>) -> CaseResult {
    let all: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    same(
        "what comes back",
        &echo(bench, all.clone().into()).await?,
        &all,
    )
}

async fn ten_megabytes(bench: &Bench<'_>) -> CaseResult {
    let mut state = 1u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    let noise: Vec<u8> = noise.take(10_000_000).collect();
    let back = echo(bench, noise.clone().into()).await?;
    ensure(back == noise, || format!("{} bytes came back", back.len()))
}

/// What shells, lines and texts trip over.
fn odd() -> Vec<OsString> {
    let mut odd: Vec<OsString> = [
        "", " a  b ", "'", "\"", "\\", "\n", "a\nb\n", "$HOME", "${x}", "`id`", "$(id)", "*", "~",
        "!!", "%s", "\\n", "-n", "--", "é", "日本", ";", "&", "|", "#",
    ]
    .map(OsString::from)
    .into();
    odd.push(OsString::from_vec((1..=255).collect()));
    odd
}

async fn arguments(bench: &Bench<'_>) -> CaseResult {
    let odd = odd();
    let command = Command::new("printf").arg("%s\\0").args(odd.clone());
    let printed = bench.sure(command).await?;
    let wanted: Vec<u8> = odd
        .into_iter()
        .flat_map(|it| [it.into_vec(), vec![0]].concat())
        .collect();
    same("the arguments", &printed, &wanted)
}

async fn variables(bench: &Bench<'_>) -> CaseResult {
    let odd = odd();
    let mut command = Command::shell(
        (0..odd.len())
            .map(|index| format!("printf '%s\\0' \"$ODD_{index}\";"))
            .collect::<String>(),
    );
    for (index, value) in odd.iter().enumerate() {
        command = command.env(format!("ODD_{index}"), value);
    }
    let printed = bench.sure(command).await?;
    let wanted: Vec<u8> = odd
        .into_iter()
        .flat_map(|it| [it.into_vec(), vec![0]].concat())
        .collect();
    same("the variables", &printed, &wanted)
}

async fn folder(bench: &Bench<'_>) -> CaseResult {
    for name in ["plain", "with a space", "it's", "-dash"] {
        let folder = bench.there(name);
        bench
            .sure(Command::new("mkdir").arg("--").arg(&folder))
            .await?;
        let printed = bench
            .sure(Command::shell("pwd -P; touch \"$PWD/mark\"").folder(&folder))
            .await?;
        let printed = String::from_utf8_lossy(&printed).trim().to_owned();
        ensure(printed.ends_with(name), || format!("it is in {printed}"))?;
    }
    let marks = bench.script("ls -d ./*/mark | wc -l").await?;
    same("the marks", &marks, &"4".to_owned())
}

async fn no_folder(bench: &Bench<'_>) -> CaseResult {
    let command = Command::new("true").folder(bench.there("missing"));
    expect_class(bench.executor.run(&command).await, FailureClass::NotStarted)
}

async fn no_program(bench: &Bench<'_>) -> CaseResult {
    for program in ["no-such-program", "/no/such/program"] {
        let command = Command::new(program);
        expect_class(bench.executor.run(&command).await, FailureClass::NoProgram)?;
    }
    Ok(())
}

async fn not_executable(bench: &Bench<'_>) -> CaseResult {
    bench.script("echo true >plain; chmod 644 plain").await?;
    for program in [bench.there("plain"), bench.there("")] {
        let command = Command::new(program);
        let class = FailureClass::NotExecutable;
        expect_class(bench.executor.run(&command).await, class)?;
    }
    Ok(())
}

async fn no_input(bench: &Bench<'_>) -> CaseResult {
    same(
        "what it read",
        &bench.sure(Command::new("cat")).await?,
        &Vec::new(),
    )
}

async fn input_ends(bench: &Bench<'_>) -> CaseResult {
    let back = echo(bench, Bytes::from_static(b"one\ntwo")).await?;
    same("what came back", &back, &b"one\ntwo".to_vec())
}

async fn input_left(bench: &Bench<'_>) -> CaseResult {
    let command = Command::shell("exit 4").input();
    let running = bench.executor.run(&command).await;
    let mut running = running.map_err(|error| text(&error))?;
    let stdin = running.stdin().ok_or("there is no input")?;
    let write = async move {
        // It ends while this is written; that is no failure of the command.
        let _ = stdin.write(vec![b'x'; 8_000_000]).await;
    };
    let both = async { tokio::join!(write, running.wait()) };
    let done = tokio::time::timeout(PATIENCE, both).await;
    let ((), exit) = done.map_err(|_| "it does not end".to_owned())?;
    let exit = exit.map_err(|error| text(&error))?;
    same("the exit", &exit, &Exit::Code(4))
}

async fn other_user(bench: &Bench<'_>) -> CaseResult {
    if bench.script("id -u").await? != "0" {
        let why = "the executor's user may not become another";
        return Err(Stop::Skipped(why.to_owned()));
    }
    let command = Command::shell("id -un; id -gn; kill -s KILL $$").user("nobody");
    let output = match bench.run(command).await {
        // Small systems have no program for it; the executor says so, and whoever runs the suite counts what was left out.
        Err(Stop::Failed(why)) if why.contains("the machine offers no way") => {
            return Err(Stop::Skipped(why));
        }
        other => other?,
    };
    same("the exit", &output.exit, &Exit::Signal("KILL".to_owned()))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(printed.starts_with("nobody\n"), || {
        format!("it runs as {printed:?}")
    })
}

async fn no_user(bench: &Bench<'_>) -> CaseResult {
    let command = Command::new("true").user("no-such-user");
    expect_class(bench.executor.run(&command).await, FailureClass::NotStarted)
}

/// Starts a child and a grandchild that write their numbers down, and stays.
const FAMILY: &str = "sh -c 'sleep 1000 & echo $! >grandchild; wait' & echo $! >child; \
     while [ ! -s grandchild ]; do sleep 0.01; done; echo ready; sleep 1000";

/// Prints how many of that family are left.
const LEFT: &str = "n=0; for f in child grandchild; do \
     if kill -0 $(cat $f) 2>/dev/null && ! grep -q '^State:.Z' /proc/$(cat $f)/status 2>/dev/null; then n=$((n+1)); fi; done; echo $n";

async fn timeout(bench: &Bench<'_>) -> CaseResult {
    // A busy machine may need longer to begin: then it is given longer.
    for seconds in [2, 8, 30] {
        let command = Command::shell(FAMILY)
            .folder(&bench.there)
            .timeout(Duration::from_secs(seconds));
        let mut running = match bench.executor.run(&command).await {
            Err(error) if error.class == FailureClass::TimedOut => continue,
            running => running.map_err(|error| text(&error))?,
        };
        let first = running.next().await;
        let ended = tokio::time::timeout(PATIENCE, running.wait()).await;
        let ended = ended.map_err(|_| "it does not end".to_owned())?;
        expect_class(ended, FailureClass::TimedOut)?;
        if first == Some(Chunk::Stdout(Bytes::from_static(b"ready\n"))) {
            return bench.wait(LEFT, "0").await;
        }
        bench.script("rm -f child grandchild").await?;
    }
    Err("it never began".into())
}

async fn dropped(bench: &Bench<'_>) -> CaseResult {
    let command = Command::shell(FAMILY).folder(&bench.there);
    let running = bench.executor.run(&command).await;
    let mut running = running.map_err(|error| text(&error))?;
    running.next().await.ok_or("it wrote nothing")?;
    same(
        "those that run",
        &bench.script(LEFT).await?,
        &"2".to_owned(),
    )?;
    drop(running);
    bench.wait(LEFT, "0").await
}

async fn left_behind(bench: &Bench<'_>) -> CaseResult {
    let began = Instant::now();
    let output = bench
        .run(Command::shell("sleep 300 & echo $! >left; echo done").folder(&bench.there))
        .await?;
    same("its output", &output.stdout, &b"done\n".to_vec())?;
    ensure(began.elapsed() < PATIENCE, || {
        format!("it took {:?}", began.elapsed())
    })?;
    bench.script("kill $(cat left)").await.map(drop)
}

async fn left_chatting(bench: &Bench<'_>) -> CaseResult {
    let script = "while :; do echo chat; sleep 0.05; done & echo $! >left; echo done";
    let output = bench
        .run(Command::shell(script).folder(&bench.there))
        .await?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(printed.lines().any(|line| line == "done"), || {
        format!("it printed {printed:.300?}")
    })?;
    // It may have ended when nobody read what it wrote.
    let end = "kill $(cat left) 2>/dev/null || true";
    bench.script(end).await.map(drop)
}

async fn slow_reader(bench: &Bench<'_>) -> CaseResult {
    let script = "head -c 3000000 /dev/zero; echo end >&2";
    let running = bench.executor.run(&Command::shell(script)).await;
    let mut running = running.map_err(|error| text(&error))?;
    let mut length = 0;
    while let Some(chunk) = running.next().await {
        if let Chunk::Stdout(bytes) = chunk {
            length += bytes.len();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    same("the length", &length, &3_000_000)?;
    let exit = running.wait().await.map_err(|error| text(&error))?;
    same("the exit", &exit, &Exit::Code(0))
}

async fn at_once(bench: &Bench<'_>) -> CaseResult {
    // Each waits for all others, so that none ends unless all run at the same time.
    let script =
        "touch at-$N; while [ $(ls | grep -c '^at-') -lt 30 ]; do sleep 0.05; done; echo $N";
    let runs = (0..30).map(|index| {
        let command = Command::shell(script)
            .env("N", index.to_string())
            .folder(&bench.there);
        bench.run(command)
    });
    for (index, output) in join_all(runs).await.into_iter().enumerate() {
        let wanted = format!("{index}\n").into_bytes();
        same("its output", &output?.stdout, &wanted)?;
    }
    Ok(())
}

async fn power(bench: &Bench<'_>) -> CaseResult {
    let Some(log) = bench.rig.power_log() else {
        return Err(Stop::Skipped(
            "nothing stands in the place of its power".to_owned(),
        ));
    };
    for (verb, word) in [(PowerVerb::Off, "poweroff"), (PowerVerb::Reboot, "reboot")] {
        let switched = bench.executor.power(verb).await;
        switched.map_err(|error| text(&error))?;
        let logged = bench.sure(Command::new("cat").arg(&log)).await?;
        let logged = String::from_utf8_lossy(&logged).into_owned();
        ensure(logged.contains(word), || format!("it was asked {logged:?}"))?;
    }
    Ok(())
}
