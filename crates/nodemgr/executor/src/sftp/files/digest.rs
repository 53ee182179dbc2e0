//! Digests that the machine makes itself.

use super::{Digest, ExecutorError, RelPath, SftpFiles};
use crate::command::Command;
use crate::executor::Executor as _;
use crate::script::quote;

/// One line for each file: its digest, or a dash.
const SCRIPT: &str = r#"command -v sha256sum >/dev/null || exit 3
nl='
'
digest() {
  if [ "$(($(wc -c <"$1")))" -ge "$2" ] 2>/dev/null; then head -c "$2" <"$1" | sha256sum; else echo -; fi
}
while IFS= read -r line; do eval "$line"; done"#;

/// How long a line is: a digest, two spaces, a dash, a newline; with room.
const LINE: usize = 80;

impl SftpFiles {
    /// The digests, made in the machine; nothing if it has no way to make them.
    pub(super) async fn digest_there(
        &self,
        files: &[(RelPath, u64)],
    ) -> Result<Option<Vec<Option<Digest>>>, ExecutorError> {
        let command = Command::shell(SCRIPT).input();
        let mut running = match self.executor.run(&command).await {
            Err(error) if error.class.is_not_started() => return Ok(None),
            running => running?,
        };
        if let Some(stdin) = running.stdin() {
            let mut lines = Vec::new();
            for (path, length) in files {
                let mut path = self.path(path);
                if path.first() != Some(&b'/') {
                    path.splice(..0, *b"./");
                }
                // A line is a line: names that hold others are spelled out.
                let spelled = quote(&path)
                    .split(|&byte| byte == b'\n')
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
                    .join(b"'\"$nl\"'".as_slice());
                lines.extend_from_slice(b"digest ");
                lines.extend_from_slice(&spelled);
                lines.extend_from_slice(format!(" {length}\n").as_bytes());
            }
            // A machine that reads no more has ended, and says how.
            let _ = stdin.write(lines).await;
        }
        let output = running.output(files.len() * LINE + LINE).await?;
        if !output.exit.is_success() || output.cut {
            return Ok(None);
        }
        let digests: Vec<Option<Digest>> = output
            .stdout
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(parse)
            .collect();
        Ok((digests.len() == files.len()).then_some(digests))
    }
}

fn parse(line: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    hex::decode_to_slice(line.get(..64)?, &mut digest).ok()?;
    Some(digest)
}
