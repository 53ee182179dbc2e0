//! What is asked of the log daemon itself: to write out, to begin new files, to move to the disk, to remove old files.

use std::path::Path;

use muster_control::manager::Empty;
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::value::number::parse_size;
use muster_varlink::Client;
use serde_json::json;

use super::LogsError;
use crate::cli::Logs;
use crate::console::{Console, Exit};
use crate::verb::VerbError;

/// Where the log daemon answers.
const SOCKET: &str = "/run/muster/io.muster.Log";

/// Whether the options ask for upkeep rather than for entries.
pub(super) fn is_asked(arguments: &Logs) -> bool {
    arguments.sync || arguments.rotate || arguments.flush || is_vacuum(arguments)
}

fn is_vacuum(arguments: &Logs) -> bool {
    arguments.vacuum_size.is_some()
        || arguments.vacuum_files.is_some()
        || arguments.vacuum_time.is_some()
}

/// Does what is asked, in an order in which it makes sense together.
pub(super) fn carry_out(arguments: &Logs, console: &mut Console) -> Result<Exit, VerbError> {
    let vacuum = vacuum_limits(arguments)?;
    let mut client = Client::connect("the log daemon", Path::new(SOCKET))
        .map_err(|source| LogsError::NoDaemon { source })?;
    let failed = |what| move |source| LogsError::Daemon { what, source };
    if arguments.flush {
        let reply: serde_json::Value = client
            .call("io.muster.Log.Flush", &Empty {})
            .map_err(failed("move the journal to the disk"))?;
        if reply.get("persistent") != Some(&json!(true)) && !arguments.quiet {
            console.note("The journal stays in memory: there is no /var/log/journal.");
        }
    }
    if arguments.sync {
        client
            .call::<_, Empty>("io.muster.Log.Synchronize", &Empty {})
            .map_err(failed("write the journal out"))?;
    }
    if arguments.rotate {
        client
            .call::<_, Empty>("io.muster.Log.Rotate", &Empty {})
            .map_err(failed("begin new journal files"))?;
    }
    if is_vacuum(arguments) {
        let reply: serde_json::Value = client
            .call("io.muster.Log.Vacuum", &vacuum)
            .map_err(failed("remove old journal files"))?;
        if !arguments.quiet {
            let removed = reply.get("removed").and_then(serde_json::Value::as_u64);
            console.note(format_args!(
                "Vacuuming done, removed {} archived files.",
                removed.unwrap_or(0)
            ));
        }
    }
    Ok(Exit::Success)
}

/// The limits, as the daemon takes them; what is not stated does not limit.
fn vacuum_limits(arguments: &Logs) -> Result<serde_json::Value, LogsError> {
    let mut limits = serde_json::Map::new();
    if let Some(text) = &arguments.vacuum_size {
        let bytes = parse_size(text, 1024).map_err(|_| LogsError::Option {
            text: format!("Failed to parse vacuum size: {text}"),
        })?;
        limits.insert("max_bytes".to_owned(), json!(bytes));
    }
    if let Some(files) = arguments.vacuum_files {
        limits.insert("max_files".to_owned(), json!(files));
    }
    if let Some(text) = &arguments.vacuum_time {
        let age = TimeSpan::parse(text).map_err(|_| LogsError::Option {
            text: format!("Failed to parse vacuum time: {text}"),
        })?;
        limits.insert("max_age_us".to_owned(), json!(age.as_micros()));
    }
    Ok(limits.into())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        logs: Logs,
    }

    fn limits(words: &[&str]) -> Result<serde_json::Value, LogsError> {
        let line = ["logs"].iter().chain(words);
        vacuum_limits(&Line::parse_from(line).logs)
    }

    #[test]
    fn limits_are_read_as_journalctl_reads_them() {
        let all = limits(&["--vacuum-size=2M", "--vacuum-files=3", "--vacuum-time=1h"]);
        let expected =
            json!({"max_bytes": 2 << 20, "max_files": 3, "max_age_us": 3_600_000_000_u64});
        assert_eq!(all.ok(), Some(expected));
        assert_eq!(limits(&[]).ok(), Some(json!({})));
        assert!(limits(&["--vacuum-size=much"]).is_err());
        assert!(limits(&["--vacuum-time=soon"]).is_err());
    }
}
