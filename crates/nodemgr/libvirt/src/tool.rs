//! Programs that do one thing and end.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

/// How much of a program's words is kept.
const MOST_OUTPUT: u64 = 1 << 20;
const MOST_SHOWN: usize = 500;

/// A program did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("cannot run {program}")]
    Start {
        program: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{program} did not end within {time:?}")]
    Late { program: PathBuf, time: Duration },
    #[error("{program} failed ({status}): {said}")]
    Failed {
        program: PathBuf,
        status: ExitStatus,
        said: String,
    },
}

/// Runs a program to its end and gives what it wrote. It is killed when it takes too long, and with whoever waits for it.
pub(crate) async fn run(
    program: &Path,
    arguments: &[&std::ffi::OsStr],
    time: Duration,
) -> Result<Vec<u8>, ToolError> {
    let start = |source| ToolError::Start {
        program: program.to_owned(),
        source,
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let work = async {
        let (mut written, mut said) = (Vec::new(), Vec::new());
        let (first, second) = tokio::join!(read(out, &mut written), read(err, &mut said));
        first.and(second)?;
        Ok((child.wait().await?, written, said))
    };
    let ended = tokio::time::timeout(time, work).await;
    let ended = ended.map_err(|_| ToolError::Late {
        program: program.to_owned(),
        time,
    })?;
    let (status, written, said) = ended.map_err(start)?;
    if status.success() {
        return Ok(written);
    }
    let said: String = String::from_utf8_lossy(&said)
        .chars()
        .filter(|letter| !letter.is_control() || *letter == '\n')
        .take(MOST_SHOWN)
        .collect();
    Err(ToolError::Failed {
        program: program.to_owned(),
        status,
        said: said.trim().replace('\n', "; "),
    })
}

async fn read(
    from: Option<impl tokio::io::AsyncRead + Unpin>,
    into: &mut Vec<u8>,
) -> std::io::Result<()> {
    let Some(mut from) = from else {
        return Ok(());
    };
    (&mut from).take(MOST_OUTPUT).read_to_end(into).await?;
    // What is more than that is read all the same, so that nobody waits for us.
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    async fn sh(script: &str, time: Duration) -> Result<Vec<u8>, ToolError> {
        run(
            Path::new("/bin/sh"),
            &["-c".as_ref(), script.as_ref()],
            time,
        )
        .await
    }

    #[tokio::test]
    async fn what_a_program_says_is_kept_and_bounded() {
        assert_eq!(sh("echo yes", TIME).await.unwrap(), b"yes\n");
        let failed = sh("echo why >&2; exit 3", TIME).await.unwrap_err();
        assert!(failed.to_string().contains("why"), "{failed}");
        let much = sh("head -c 3000000 /dev/zero", TIME).await.unwrap();
        assert_eq!(much.len() as u64, MOST_OUTPUT);
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended() {
        let late = sh("exec sleep 600", Duration::from_millis(200)).await;
        assert!(matches!(late, Err(ToolError::Late { .. })));
        let missing = run(Path::new("/no/such"), &[], TIME).await;
        assert!(matches!(missing, Err(ToolError::Start { .. })));
    }
}
