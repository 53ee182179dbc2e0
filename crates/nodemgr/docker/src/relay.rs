//! Connections to ports of a container: a small program in it carries the bytes.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use muster_executor::{Chunk, Command, ExecutorError, FailureClass, Operation, Running, TcpLike};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::exec::Exec;

/// What waits in each direction.
const BUFFER: usize = 64 << 10;
/// A port elsewhere that refuses does so at once; who has not by then is connected.
const REFUSAL: Duration = Duration::from_millis(300);
/// How long the machine may take to start the program.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much of what the program says is shown.
const LONGEST_WORDS: usize = 512;

/// What the program says before it connects.
const READY: &[u8] = b"+\n";

/// Whichever program there is: each carries both directions and ends with the connection. On the machine's own addresses the
/// kernel tells beforehand whether anybody listens.
const RELAY: &str = r#"
case "$1" in 127.*|localhost|::1)
  port=$(printf '%04X' "$2")
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$port [0-9A-F]*:0000 0A" || { echo "nobody listens there" >&2; exit 1; }
esac
if command -v socat >/dev/null; then set -- socat - "TCP:$1:$2"
elif command -v nc >/dev/null; then set -- nc "$1" "$2"
elif command -v bash >/dev/null; then set -- bash -c 'exec 3<>"/dev/tcp/$0/$1" || exit 1; cat <&3 & cat >&3; wait' "$1" "$2"
else echo "the machine has neither socat, nc nor bash, which could carry a connection" >&2; exit 126; fi
echo +; exec "$@""#;

fn failed(
    host: &str,
    port: u16,
    class: FailureClass,
    source: impl Into<muster_executor::BoxError>,
) -> ExecutorError {
    ExecutorError::new(Operation::Forward, format!("{host}:{port}"), class, source)
}

/// Opens a connection, as seen from the container.
pub(crate) async fn connect(
    exec: &Exec,
    host: &str,
    port: u16,
) -> Result<Box<dyn TcpLike>, ExecutorError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_%".contains(&byte);
    if host.is_empty() || host.starts_with('-') || !host.bytes().all(letter) {
        let source = "it is no name or address of a host";
        return Err(failed(host, port, FailureClass::Refused, source));
    }
    let command = Command::shell(RELAY).arg("sh").arg(host);
    let command = command.arg(port.to_string()).input();
    let mut running = exec.run(&command).await?;
    let (mut words, mut said) = (Vec::new(), BytesMut::new());
    let first = loop {
        // Before it is ready it may take its time; then it only has to be refused.
        let limit = match said.starts_with(READY) {
            true if is_loopback(host) => break said.split_off(READY.len()),
            true => REFUSAL,
            false => PATIENCE,
        };
        match tokio::time::timeout(limit, running.next()).await {
            Ok(Some(Chunk::Stderr(bytes))) => {
                let room = LONGEST_WORDS.saturating_sub(words.len()).min(bytes.len());
                words.extend_from_slice(&bytes[..room]);
            }
            Ok(Some(Chunk::Stdout(bytes))) => {
                said.extend_from_slice(&bytes);
                if said.len() > READY.len() {
                    break said.split_off(READY.len());
                }
            }
            Ok(None) => {
                let exit = running.wait().await?;
                let words = String::from_utf8_lossy(&words).trim().to_owned();
                let source = format!("the connection ended with {exit}: {words}");
                return Err(failed(host, port, FailureClass::Refused, source));
            }
            Err(_) if limit == REFUSAL => break said.split_off(READY.len()),
            Err(late) => return Err(failed(host, port, FailureClass::Unreachable, late)),
        }
    };
    let (near, far) = tokio::io::duplex(BUFFER);
    tokio::spawn(carry(running, first.freeze(), far));
    Ok(Box::new(near))
}

/// Whether the machine itself is meant.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.starts_with("127.") || host == "::1"
}

/// Carries until either side ends. Dropping the command at the end kills what is left of it.
async fn carry(mut running: Running, first: Bytes, far: DuplexStream) {
    let (mut read, mut write) = tokio::io::split(far);
    let stdin = running.stdin();
    let up = async move {
        let Some(stdin) = stdin else { return };
        let mut buffer = BytesMut::with_capacity(BUFFER);
        while let Ok(1..) = read.read_buf(&mut buffer).await {
            if stdin.write(buffer.split().freeze()).await.is_err() {
                break;
            }
            buffer.reserve(BUFFER);
        }
    };
    let down = async move {
        if write.write_all(&first).await.is_err() {
            return;
        }
        while let Some(chunk) = running.next().await {
            if let Chunk::Stdout(bytes) = chunk
                && write.write_all(&bytes).await.is_err()
            {
                return;
            }
        }
        // If it fails, nobody reads any more.
        let _ = write.shutdown().await;
    };
    // The far side decides: it may have much to say after the near side has said all.
    tokio::pin!(up, down);
    tokio::select! {
        () = &mut down => {}
        () = &mut up => down.await,
    }
}
