//! Entries as text, as `journalctl` prints them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_journal::Entry;
use muster_unit_file::timestamp::format_timestamp;
use serde_json::{Map, Value};

use crate::cli::LogFormat;
use crate::render::Style;

/// Values that are longer are left out of JSON, unless all is wanted.
const LONG_VALUE: usize = 4096;

/// A terminal would count a tab's columns from its own edge.
const TAB: &str = "        ";

/// An entry with everything in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::verb) struct Record {
    /// Its name.
    pub(super) cursor: String,
    /// Microseconds since 1970.
    pub(super) realtime: u64,
    /// Microseconds since boot.
    pub(super) monotonic: u64,
    /// The boot, 32 hex digits.
    pub(super) boot: String,
    /// Names and values.
    pub(super) fields: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// What can be read of an entry.
    pub(in crate::verb) fn of(entry: &Entry) -> Self {
        let (fields, _) = entry.fields_lossy();
        let fields = fields.into_iter().filter_map(|field| {
            let at = field.iter().position(|byte| *byte == b'=')?;
            let name = String::from_utf8_lossy(&field[..at]).into_owned();
            Some((name, field[at + 1..].to_vec()))
        });
        Self {
            cursor: entry.cursor().to_string(),
            realtime: entry.realtime(),
            monotonic: entry.monotonic(),
            boot: entry.boot_id().to_string(),
            fields: fields.collect(),
        }
    }

    fn bytes(&self, name: &str) -> Option<&[u8]> {
        let field = self.fields.iter().find(|(known, _)| known == name)?;
        Some(&field.1)
    }

    fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    /// When it was said: by its sender's clock where that is known.
    fn said(&self) -> u64 {
        let source = self.text("_SOURCE_REALTIME_TIMESTAMP");
        source
            .and_then(|text| text.parse().ok())
            .unwrap_or(self.realtime)
    }
}

/// How entries look.
#[derive(Debug, Clone)]
pub(in crate::verb) struct Shape {
    pub(in crate::verb) format: LogFormat,
    pub(in crate::verb) zone: TimeZone,
    pub(in crate::verb) hostname: bool,
    pub(in crate::verb) all: bool,
    /// Only these fields, where all would be printed.
    pub(in crate::verb) fields: Vec<String>,
    pub(in crate::verb) style: Style,
}

impl Shape {
    /// Appends an entry.
    pub(in crate::verb) fn print(&self, record: &Record, out: &mut Vec<u8>) {
        match self.format {
            LogFormat::Cat => self.cat(record, out),
            LogFormat::Json => {
                let object = self.object(record);
                out.extend(
                    serde_json::to_vec(&object).expect("texts and numbers have a JSON form"),
                );
                out.push(b'\n');
            }
            LogFormat::JsonPretty => {
                let object = self.object(record);
                let text = serde_json::to_vec_pretty(&object);
                out.extend(text.expect("texts and numbers have a JSON form"));
                out.push(b'\n');
            }
            LogFormat::Export => self.export(record, out),
            LogFormat::Verbose => self.verbose(record, out),
            LogFormat::Short
            | LogFormat::ShortIso
            | LogFormat::ShortPrecise
            | LogFormat::ShortFull
            | LogFormat::ShortMonotonic
            | LogFormat::ShortUnix => self.short(record, out),
        }
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.fields.is_empty() || self.fields.iter().any(|wanted| wanted == name)
    }

    fn cat(&self, record: &Record, out: &mut Vec<u8>) {
        if self.fields.is_empty() {
            let Some(message) = record.bytes("MESSAGE") else {
                return;
            };
            let colour = level_colour(record.text("PRIORITY"));
            match std::str::from_utf8(message) {
                Ok(text) => out.extend(self.style.paint(colour, text).as_bytes()),
                Err(_) => out.extend(message),
            }
            out.push(b'\n');
            return;
        }
        for (_, value) in record
            .fields
            .iter()
            .filter(|(name, _)| self.is_wanted(name))
        {
            out.extend(value);
            out.push(b'\n');
        }
    }

    fn object(&self, record: &Record) -> Map<String, Value> {
        let mut object = Map::new();
        let mut set = |name: &str, value: &str| object.insert(name.to_owned(), value.into());
        set("__CURSOR", &record.cursor);
        set("__REALTIME_TIMESTAMP", &record.realtime.to_string());
        set("__MONOTONIC_TIMESTAMP", &record.monotonic.to_string());
        set("_BOOT_ID", &record.boot);
        let others = record.fields.iter();
        for (name, value) in others.filter(|(name, _)| name != "_BOOT_ID" && self.is_wanted(name)) {
            let value = self.json_value(value);
            match object.get_mut(name) {
                None => {
                    object.insert(name.clone(), value);
                }
                Some(Value::Array(several)) if !several.iter().all(Value::is_number) => {
                    several.push(value);
                }
                Some(one) => {
                    let first = one.take();
                    *one = Value::Array(vec![first, value]);
                }
            }
        }
        object
    }

    /// A text, the numbers of its bytes if it is none, or null if it is too long.
    fn json_value(&self, value: &[u8]) -> Value {
        if value.len() > LONG_VALUE && !self.all {
            return Value::Null;
        }
        match std::str::from_utf8(value) {
            Ok(text) if is_printable(text) => text.into(),
            _ => Value::Array(value.iter().map(|byte| (*byte).into()).collect()),
        }
    }

    fn export(&self, record: &Record, out: &mut Vec<u8>) {
        let mut line = |name: &str, value: &str| {
            out.extend(format!("{name}={value}\n").as_bytes());
        };
        line("__CURSOR", &record.cursor);
        line("__REALTIME_TIMESTAMP", &record.realtime.to_string());
        line("__MONOTONIC_TIMESTAMP", &record.monotonic.to_string());
        line("_BOOT_ID", &record.boot);
        let others = record.fields.iter();
        for (name, value) in others.filter(|(name, _)| name != "_BOOT_ID" && self.is_wanted(name)) {
            out.extend(name.as_bytes());
            match std::str::from_utf8(value) {
                Ok(text) if is_printable_line(text) => out.push(b'='),
                _ => {
                    let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
                    out.push(b'\n');
                    out.extend(length.to_le_bytes());
                }
            }
            out.extend(value);
            out.push(b'\n');
        }
        out.push(b'\n');
    }

    fn verbose(&self, record: &Record, out: &mut Vec<u8>) {
        let (said, cursor) = (self.full_moment(record.said(), true), &record.cursor);
        out.extend(format!("{said} [{cursor}]\n").as_bytes());
        let wanted = record
            .fields
            .iter()
            .filter(|(name, _)| self.is_wanted(name));
        for (name, value) in wanted {
            let text = match std::str::from_utf8(value) {
                Ok(text) if is_printable(text) => below(text, name.len() + 5),
                _ if self.all => String::from_utf8_lossy(value).into_owned(),
                _ => blob(value),
            };
            out.extend(format!("    {name}={text}\n").as_bytes());
        }
    }

    /// Whether lines between entries say where a boot begins.
    pub(super) fn tells_boots(&self) -> bool {
        !matches!(
            self.format,
            LogFormat::Json | LogFormat::JsonPretty | LogFormat::Export | LogFormat::Cat
        )
    }

    fn short(&self, record: &Record, out: &mut Vec<u8>) {
        let Some(message) = record.bytes("MESSAGE") else {
            return;
        };
        let mut head = self.moment(record);
        if self.hostname
            && let Some(host) = record.text("_HOSTNAME")
        {
            head.push_str(&format!(" {host}"));
        }
        let identifier = record
            .text("SYSLOG_IDENTIFIER")
            .or_else(|| record.text("_COMM"));
        head.push_str(&format!(" {}", identifier.unwrap_or("unknown")));
        if let Some(pid) = record.text("_PID").or_else(|| record.text("SYSLOG_PID")) {
            head.push_str(&format!("[{pid}]"));
        }
        head.push_str(": ");
        let width = head.chars().count();
        let text = match std::str::from_utf8(message) {
            Ok(text) if is_printable(text) && self.all => below(text, width),
            Ok(text) if is_printable(text) => below(&text.replace('\t', TAB), width),
            _ if self.all => String::from_utf8_lossy(message).into_owned(),
            _ => blob(message),
        };
        let text = self
            .style
            .paint(level_colour(record.text("PRIORITY")), &text);
        out.extend(format!("{head}{text}\n").as_bytes());
    }

    fn moment(&self, record: &Record) -> String {
        let said = record.said();
        let zoned = timestamp(said).to_zoned(self.zone.clone());
        let civil = |format: &str| zoned.strftime(format).to_string();
        match self.format {
            LogFormat::ShortIso => civil("%Y-%m-%dT%H:%M:%S%z"),
            LogFormat::ShortPrecise => civil("%b %d %H:%M:%S.%6f"),
            LogFormat::ShortFull => self.full_moment(said, false),
            LogFormat::ShortUnix => format!("{}.{:06}", said / 1_000_000, said % 1_000_000),
            LogFormat::ShortMonotonic => {
                let source = record.text("_SOURCE_MONOTONIC_TIMESTAMP");
                let source = source.and_then(|text| text.parse().ok());
                let monotonic: u64 = source.unwrap_or(record.monotonic);
                let seconds = format!("{}.{:06}", monotonic / 1_000_000, monotonic % 1_000_000);
                format!("[{seconds:>12}]")
            }
            _ => civil("%b %d %H:%M:%S"),
        }
    }

    /// `Sun 2026-11-15 11:50:59 UTC`, with microseconds where they are wanted.
    fn full_moment(&self, micros: u64, precise: bool) -> String {
        let moment = timestamp(micros);
        let text = format_timestamp(moment, &self.zone);
        if !precise {
            return text;
        }
        match text.rsplit_once(' ') {
            Some((clock, zone)) => format!("{clock}.{:06} {zone}", micros % 1_000_000),
            None => text,
        }
    }
}

/// Lines after the first one stand below the first.
fn below(text: &str, width: usize) -> String {
    let indent = format!("\n{}", " ".repeat(width));
    text.trim_end_matches('\n').replace('\n', &indent)
}

fn timestamp(micros: u64) -> Timestamp {
    let moment = i64::try_from(micros).ok().map(Timestamp::from_microsecond);
    match moment {
        Some(Ok(moment)) => moment,
        _ => Timestamp::MAX,
    }
}

fn blob(value: &[u8]) -> String {
    let length = u64::try_from(value.len()).unwrap_or(u64::MAX);
    format!("[{} blob data]", crate::render::time::bytes(length))
}

/// Whether a terminal shows a text as it is; lines and tabs are fine.
fn is_printable(text: &str) -> bool {
    text.chars()
        .all(|c| !c.is_control() || c == '\n' || c == '\t')
}

/// The same for a text that is one line.
fn is_printable_line(text: &str) -> bool {
    text.chars().all(|c| !c.is_control() || c == '\t')
}

/// Errors are red, warnings yellow, what is notable bold, details grey.
fn level_colour(priority: Option<&str>) -> &'static str {
    match priority {
        Some("0" | "1" | "2" | "3") => "1;31",
        Some("4") => "1;33",
        Some("5") => "1",
        Some("7") => "38;5;245",
        _ => "",
    }
}
