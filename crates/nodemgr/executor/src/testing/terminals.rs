//! Cases: terminals, and forwarded ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::bench::{Bench, PATIENCE, ensure, expect_class, same, text};
use super::{Case, CaseResult, Stop, case};
use crate::command::{Command, Exit, Size, Terminal};
use crate::error::FailureClass;
use crate::forward::Forwarder;
use crate::running::Attached;

pub(super) const CASES: &[Case] = &[
    case!(Attach, "a terminal has its kind and size", size),
    case!(Attach, "a terminal is resized", resize),
    case!(Attach, "a shell is typed to and ends with its code", shell),
    case!(Attach, "every byte passes a raw terminal", raw),
    case!(
        Attach,
        "a program that is not there has no terminal",
        no_program
    ),
    case!(Attach, "whoever hangs up ends what runs there", hang_up),
    case!(Forward, "a port leads into the machine", forward),
    case!(Forward, "a port that nobody listens on is refused", no_port),
];

fn terminal() -> Terminal {
    let size = Size {
        columns: 91,
        rows: 33,
    };
    let kind = "vt100".to_owned();
    Terminal { kind, size }
}

async fn attach(bench: &Bench<'_>, command: Option<&Command>) -> Result<Attached, Stop> {
    let attached = bench.executor.attach(command, &terminal()).await;
    attached.map_err(|error| text(&error).into())
}

/// Reads until a text has appeared.
async fn until(attached: &mut Attached, wanted: &str) -> CaseResult {
    let deadline = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let left = deadline.saturating_duration_since(Instant::now());
        let next = tokio::time::timeout(left, attached.next()).await;
        let shown = || {
            format!(
                "{:?} appeared, not {wanted:?}",
                String::from_utf8_lossy(&seen)
            )
        };
        match next {
            Ok(Some(bytes)) => seen.extend_from_slice(&bytes),
            Ok(None) | Err(_) => return Err(shown().into()),
        }
    }
    Ok(())
}

async fn ends(attached: Attached) -> Result<Exit, Stop> {
    let ended = tokio::time::timeout(PATIENCE, attached.wait()).await;
    let ended = ended.map_err(|_| "it does not end".to_owned())?;
    ended.map_err(|error| text(&error).into())
}

async fn size(bench: &Bench<'_>) -> CaseResult {
    let script = "echo \"[$TERM]\"; test -t 0 && test -t 1 && test -t 2 && stty size";
    let mut attached = attach(bench, Some(&Command::shell(script))).await?;
    let mut seen = Vec::new();
    while let Some(bytes) = attached.next().await {
        seen.extend_from_slice(&bytes);
    }
    let seen = String::from_utf8_lossy(&seen).replace('\r', "");
    same("what appears", &seen, &"[vt100]\n33 91\n".to_owned())?;
    same("the exit", &ends(attached).await?, &Exit::Code(0))
}

async fn resize(bench: &Bench<'_>) -> CaseResult {
    let script = "stty -echo; echo ready; while read line; do stty size; done";
    let mut attached = attach(bench, Some(&Command::shell(script))).await?;
    let stdin = attached.stdin().ok_or("there is no input")?;
    until(&mut attached, "ready").await?;
    attached.resizer().resize(Size {
        columns: 132,
        rows: 50,
    });
    // The size and what is typed may take different ways.
    let deadline = Instant::now() + PATIENCE;
    let mut seen = String::new();
    while !seen.contains("50 132") {
        ensure(Instant::now() < deadline, || format!("it is {seen:?}"))?;
        let typed = stdin.write("\n").await;
        typed.map_err(|error| error.to_string())?;
        let bytes = attached.next().await.ok_or("it was closed")?;
        seen.push_str(&String::from_utf8_lossy(&bytes));
    }
    Ok(())
}

async fn shell(bench: &Bench<'_>) -> CaseResult {
    let mut attached = attach(bench, None).await?;
    let stdin = attached.stdin().ok_or("there is no input")?;
    let typed = stdin.write("echo $((6*7))marks; exit 5\n").await;
    typed.map_err(|error| error.to_string())?;
    until(&mut attached, "42marks").await?;
    same("the exit", &ends(attached).await?, &Exit::Code(5))
}

async fn raw(bench: &Bench<'_>) -> CaseResult {
    let script = "stty raw -echo; echo ready; exec head -c 256";
    let mut attached = attach(bench, Some(&Command::shell(script))).await?;
    let stdin = attached.stdin().ok_or("there is no input")?;
    until(&mut attached, "ready\n").await?;
    let all: Vec<u8> = (0..=255).collect();
    let typed = stdin.write(all.clone()).await;
    typed.map_err(|error| error.to_string())?;
    let mut seen = Vec::new();
    while let Some(bytes) = attached.next().await {
        seen.extend_from_slice(&bytes);
    }
    same("what appears", &seen, &all)
}

async fn no_program(bench: &Bench<'_>) -> CaseResult {
    let command = Command::new("no-such-program");
    let attached = bench.executor.attach(Some(&command), &terminal()).await;
    expect_class(attached, FailureClass::NoProgram)
}

async fn hang_up(bench: &Bench<'_>) -> CaseResult {
    let script = "echo $$ >leader; echo ready; exec sleep 1000";
    let command = Command::shell(script).folder(&bench.there);
    let mut attached = attach(bench, Some(&command)).await?;
    until(&mut attached, "ready").await?;
    drop(attached);
    let left = "if kill -0 $(cat leader) 2>/dev/null; then echo 1; else echo 0; fi";
    bench.wait(left, "0").await
}

async fn forward(bench: &Bench<'_>) -> CaseResult {
    let Some((host, port)) = bench.rig.echo() else {
        return Err(Stop::Skipped("there is no server to reach".to_owned()));
    };
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let executor = Arc::clone(&bench.executor);
    let forwarder = Forwarder::bind(executor, listen, host, port).await;
    let forwarder = forwarder.map_err(|error| text(&error))?;
    let address = forwarder.address();
    let talk = async {
        let talks = (0..5u8).map(|index| async move {
            let mut stream = TcpStream::connect(address).await?;
            let sent = vec![index; 300_000];
            let (mut read, mut write) = stream.split();
            let write = async {
                write.write_all(&sent).await?;
                write.shutdown().await
            };
            let mut back = Vec::new();
            let (written, _) = tokio::try_join!(write, read.read_to_end(&mut back))?;
            Ok::<_, std::io::Error>((written, back == sent).1)
        });
        futures_util::future::try_join_all(talks).await
    };
    let talked = tokio::select! {
        () = forwarder.run() => return Err("it ended".into()),
        talked = tokio::time::timeout(PATIENCE, talk) => talked,
    };
    let talked = talked.map_err(|_| "it does not end".to_owned())?;
    let talked = talked.map_err(|error| error.to_string())?;
    same("what came back is right", &talked, &vec![true; 5])
}

async fn no_port(bench: &Bench<'_>) -> CaseResult {
    // A port that was free a moment ago; the machine and this one are not always the same, but then it is free there too.
    let free = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let free = free.and_then(|it| it.local_addr());
    let port = free.map_err(|error| error.to_string())?.port();
    let connected = bench.executor.connect("127.0.0.1", port).await;
    expect_class(connected.map(drop), FailureClass::Refused)
}
