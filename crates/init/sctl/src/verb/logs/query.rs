//! Which entries are wanted.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_journal::{Boot, Cursor, Id128, Journal, Matches};
use muster_unit_file::name::{UnitName, UnitType};
use muster_unit_file::timestamp::parse_timestamp;
use regex::bytes::{Regex, RegexBuilder};

use super::LogsError;
use crate::cli::Logs;

/// The last entries that `--follow` starts with, and how many `--pager-end` shows.
const FOLLOW_LINES: usize = 10;
const END_LINES: usize = 1000;
/// Longest pattern, in bytes of what it is compiled to.
const PATTERN_LIMIT: usize = 1 << 20;

/// Which entries are wanted, in which order.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) matches: Matches,
    /// Microseconds since 1970.
    pub(super) since: Option<u64>,
    /// Microseconds since 1970.
    pub(super) until: Option<u64>,
    pub(super) start: Option<Start>,
    /// The last so many.
    pub(super) lines: Option<usize>,
    pub(super) grep: Option<Regex>,
    pub(super) reverse: bool,
    pub(super) follow: bool,
}

/// A place to start at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// With this entry.
    At(Cursor),
    /// After this entry.
    After(Cursor),
}

fn wrong(text: impl Into<String>) -> LogsError {
    LogsError::Option { text: text.into() }
}

/// What the options come to.
pub(super) fn query(
    arguments: &Logs,
    journal: &Journal,
    now: Timestamp,
    zone: &TimeZone,
) -> Result<Query, LogsError> {
    let moment = |text: &Option<String>| -> Result<Option<u64>, LogsError> {
        let Some(text) = text else {
            return Ok(None);
        };
        let moment = parse_timestamp(text, now, zone).map_err(|source| LogsError::Time {
            text: text.clone(),
            source,
        })?;
        Ok(u64::try_from(moment.as_microsecond()).ok())
    };
    let (since, until) = (moment(&arguments.since)?, moment(&arguments.until)?);
    if let (Some(since), Some(until)) = (since, until)
        && since > until
    {
        return Err(wrong("--since= must be before --until=."));
    }
    if arguments.follow && arguments.reverse {
        return Err(wrong(
            "Please specify either --reverse or --follow, not both.",
        ));
    }
    let boot = match (&arguments.boot, arguments.dmesg) {
        (Some(boot), _) if boot == "all" => None,
        (Some(boot), _) => Some(find_boot(boot, arguments, journal)?),
        (None, true) => Some(find_boot("0", arguments, journal)?),
        (None, false) => None,
    };
    Ok(Query {
        matches: matches(arguments, boot)?,
        since,
        until,
        start: start(arguments)?,
        lines: lines(arguments)?,
        grep: pattern(arguments)?,
        // As journalctl has it: the last hits are looked for from the end, and shown so.
        reverse: arguments.reverse
            || (arguments.grep.is_some() && arguments.lines.is_some() && !arguments.follow),
        follow: arguments.follow,
    })
}

fn lines(arguments: &Logs) -> Result<Option<usize>, LogsError> {
    let by_place = arguments.since.is_some()
        || arguments.cursor.is_some()
        || arguments.after_cursor.is_some()
        || arguments.cursor_file.is_some();
    match arguments.lines.as_deref() {
        Some("all") => Ok(None),
        Some(text) => match text.parse() {
            Ok(lines) => Ok(Some(lines)),
            Err(_) => Err(wrong(format!("Failed to parse lines '{text}'"))),
        },
        None if arguments.follow && !by_place => Ok(Some(FOLLOW_LINES)),
        None if arguments.pager_end => Ok(Some(END_LINES)),
        None => Ok(None),
    }
}

fn start(arguments: &Logs) -> Result<Option<Start>, LogsError> {
    let cursor = |text: &str| -> Result<Cursor, LogsError> {
        text.parse()
            .map_err(|error| wrong(format!("Failed to parse cursor: {error}")))
    };
    let given = [&arguments.cursor, &arguments.after_cursor];
    let count = given.iter().filter(|text| text.is_some()).count()
        + usize::from(arguments.cursor_file.is_some());
    if count > 1 {
        return Err(wrong(
            "Please specify only one of --cursor=, --after-cursor= and --cursor-file=.",
        ));
    }
    if let Some(text) = &arguments.cursor {
        return Ok(Some(Start::At(cursor(text)?)));
    }
    if let Some(text) = &arguments.after_cursor {
        return Ok(Some(Start::After(cursor(text)?)));
    }
    let Some(path) = &arguments.cursor_file else {
        return Ok(None);
    };
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(Start::After(cursor(text.trim())?))),
        // The first run has nothing to go on from.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LogsError::CursorFile {
            what: "read",
            path: path.clone(),
            source,
        }),
    }
}

fn pattern(arguments: &Logs) -> Result<Option<Regex>, LogsError> {
    let Some(pattern) = &arguments.grep else {
        return Ok(None);
    };
    let has_upper = pattern.chars().any(char::is_uppercase);
    let sensitive = arguments.case_sensitive.unwrap_or(has_upper);
    let built = RegexBuilder::new(pattern)
        .case_insensitive(!sensitive)
        .size_limit(PATTERN_LIMIT)
        .build();
    built.map(Some).map_err(|source| LogsError::Pattern {
        pattern: pattern.clone(),
        source: Box::new(source),
    })
}

/// The boot that a word means: an id, or a number counted from the newest (0, -1 ...) or the oldest (1, 2 ...).
fn find_boot(word: &str, arguments: &Logs, journal: &Journal) -> Result<Id128, LogsError> {
    let own_journal = arguments.directory.is_none() && arguments.file.is_empty();
    let current = || {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        text.trim().replace('-', "").parse().ok()
    };
    if word.trim_start_matches(['+', '-']) == "0"
        && own_journal
        && let Some(id) = current()
    {
        return Ok(id);
    }
    let boots = journal.boots().map_err(LogsError::read)?;
    boot_in(word, &boots)
}

/// The same in a list, oldest first.
pub(super) fn boot_in(word: &str, boots: &[Boot]) -> Result<Id128, LogsError> {
    let (id, offset) = match word.get(..32).and_then(|id| id.parse::<Id128>().ok()) {
        Some(id) => (Some(id), &word[32..]),
        None => (None, word),
    };
    let missing = || wrong(format!("No boot '{word}' is in the journal."));
    let offset: i64 = match offset {
        "" => 0,
        text => text.parse().map_err(|_| missing())?,
    };
    let last = i64::try_from(boots.len()).unwrap_or(i64::MAX) - 1;
    let base = match id {
        Some(id) if offset == 0 => return Ok(id),
        Some(id) => {
            let place = boots
                .iter()
                .position(|boot| boot.id == id)
                .ok_or_else(missing)?;
            i64::try_from(place).unwrap_or(i64::MAX)
        }
        // 1 is the oldest, 0 the newest.
        None if offset > 0 => -1,
        None => last,
    };
    let place = base
        .checked_add(offset)
        .and_then(|place| usize::try_from(place).ok());
    let boot = place
        .and_then(|place| boots.get(place))
        .ok_or_else(missing)?;
    Ok(boot.id)
}

fn matches(arguments: &Logs, boot: Option<Id128>) -> Result<Matches, LogsError> {
    let mut matches = Matches::new();
    for (n, text) in arguments.matches.iter().enumerate() {
        match text.as_str() {
            "+" if n == 0 || n + 1 == arguments.matches.len() => {
                return Err(wrong("\"+\" can only be used between terms"));
            }
            "+" => {
                matches.or();
            }
            text if text.starts_with('/') => {
                matches.add(format!("_EXE={text}").as_bytes());
            }
            text if text.contains('=') => {
                matches.add(text.as_bytes());
            }
            text => return Err(wrong(format!("'{text}' is not a match: write NAME=VALUE."))),
        }
    }
    if let Some(boot) = boot {
        matches.and().add(format!("_BOOT_ID={boot}").as_bytes());
    }
    if arguments.dmesg {
        matches.and().add(b"_TRANSPORT=kernel");
    }
    if !arguments.unit.is_empty() {
        matches.and();
        for text in &arguments.unit {
            let name = UnitName::mangle(text, UnitType::Service)
                .map_err(|error| wrong(format!("'{text}' is not the name of a unit: {error}")))?;
            add_unit(&mut matches, name.as_str());
        }
    }
    if !arguments.identifier.is_empty() {
        matches.and();
        for name in &arguments.identifier {
            matches.add(format!("SYSLOG_IDENTIFIER={name}").as_bytes());
        }
    }
    if let Some(text) = &arguments.priority {
        matches.and();
        for level in levels(text)? {
            matches.add(format!("PRIORITY={level}").as_bytes());
        }
    }
    if !arguments.facility.is_empty() {
        matches.and();
        for name in &arguments.facility {
            matches.add(format!("SYSLOG_FACILITY={}", facility(name)?).as_bytes());
        }
    }
    Ok(matches)
}

/// What a unit says, and what its manager and those that look after it say about it.
fn add_unit(matches: &mut Matches, unit: &str) {
    let own = rustix::process::getuid().as_raw();
    let about = [
        vec![format!("_SYSTEMD_UNIT={unit}")],
        vec![format!("UNIT={unit}"), "_PID=1".to_owned()],
        vec![
            format!("UNIT={unit}"),
            "_UID=0".to_owned(),
            format!("_UID={own}"),
        ],
        vec![format!("OBJECT_SYSTEMD_UNIT={unit}"), "_UID=0".to_owned()],
        vec![format!("COREDUMP_UNIT={unit}"), "_UID=0".to_owned()],
    ];
    for alternative in about {
        matches.or();
        for value in alternative {
            matches.add(value.as_bytes());
        }
    }
}

/// The lines of one run of a unit.
pub(in crate::verb) fn matches_of_run(unit: &str, invocation: &str) -> Matches {
    let mut matches = Matches::new();
    add_unit(&mut matches, unit);
    if !invocation.is_empty() {
        matches.and();
        for name in ["_SYSTEMD_INVOCATION_ID", "INVOCATION_ID"] {
            matches.or();
            matches.add(format!("{name}={invocation}").as_bytes());
        }
    }
    matches
}

/// `err`, `3`, `warning..err`
fn levels(text: &str) -> Result<std::ops::RangeInclusive<usize>, LogsError> {
    const NAMES: [&str; 8] = [
        "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
    ];
    let level = |word: &str| -> Result<usize, LogsError> {
        let number = word
            .parse::<usize>()
            .ok()
            .filter(|level| *level < NAMES.len());
        let named = || NAMES.iter().position(|name| *name == word);
        let level = number.or_else(named);
        level.ok_or_else(|| wrong(format!("Unknown log level '{word}'")))
    };
    match text.split_once("..") {
        None => Ok(0..=level(text)?),
        Some((a, b)) => {
            let (a, b) = (level(a)?, level(b)?);
            Ok(a.min(b)..=a.max(b))
        }
    }
}

fn facility(word: &str) -> Result<usize, LogsError> {
    const NAMES: [&str; 12] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
        "authpriv", "ftp",
    ];
    let number = word.parse::<usize>().ok().filter(|number| *number < 24);
    let named = || NAMES.iter().position(|name| *name == word);
    let local = || {
        let number: usize = word.strip_prefix("local")?.parse().ok()?;
        (number < 8).then_some(16 + number)
    };
    let facility = number.or_else(named).or_else(local);
    facility.ok_or_else(|| wrong(format!("Unknown facility '{word}'")))
}
