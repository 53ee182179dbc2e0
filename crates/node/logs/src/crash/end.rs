//! What is known about the ends of units. Pure.
//!
//! systemd tells an end in several entries, each with an id that says what it is about; Muster's own init system tells
//! the same in words. Cores are told of by whoever takes them (`systemd-coredump`).

use crate::fields::Fields;

/// The fields that tell of ends.
pub(crate) const TOLD: &[&str] = &[
    "MESSAGE",
    "MESSAGE_ID",
    "UNIT",
    "INVOCATION_ID",
    "EXIT_CODE",
    "EXIT_STATUS",
    "UNIT_RESULT",
    "COREDUMP_UNIT",
    "COREDUMP_EXE",
    "COREDUMP_PID",
    "COREDUMP_SIGNAL",
    "COREDUMP_SIGNAL_NAME",
    "COREDUMP_FILENAME",
];

/// systemd: the kernel killed a process of the unit for memory.
const OUT_OF_MEMORY_ID: &str = "fe6faa94e7774663a0da52717891d8ef";
/// Muster's words for the same.
const OUT_OF_MEMORY_TEXT: &str = "killed a process of it for memory";
/// Begins what both say about the end of a main process: `code=exited, status=3/NOTIMPLEMENTED`.
const EXITED_TEXT: &str = "ain process exited, code=";
/// Comes before the result in the words of both.
const RESULT_TEXT: &str = "ailed with result '";
/// A result that says why there is no further run, not how this one ended.
const NO_FURTHER_RUN: &str = "start-limit-hit";
/// A result that is none.
const SUCCESS: &str = "success";
/// A core and the end it belongs to are told of within so many microseconds: large ones take their time.
const CORE_TIME: u64 = 600 * 1_000_000;

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Exit {
    Status(String),
    Signal { signal: String, left_core: bool },
}

/// One end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) unit: String,
    /// The run, if the init system names it.
    pub(crate) invocation: Option<String>,
    /// When the last word about it was said.
    pub(crate) realtime: u64,
    exit: Option<Exit>,
    result: Option<String>,
    out_of_memory: bool,
    core: Option<String>,
}

impl End {
    /// Whether the init system holds that it failed. Its words about a process that ended well on request are no failure.
    fn has_failed(&self) -> bool {
        let bad_result = self.result.as_ref().is_some_and(|result| result != SUCCESS);
        let bad_exit = match &self.exit {
            Some(Exit::Status(status)) => status != "0",
            Some(Exit::Signal { signal, left_core }) => *left_core || !is_request(signal),
            None => false,
        };
        bad_result || bad_exit || self.out_of_memory || self.core.is_some()
    }

    /// All that is known, in words.
    pub(crate) fn reason(&self) -> String {
        let mut words = Vec::new();
        match &self.exit {
            Some(Exit::Status(status)) => words.push(format!("exit status {status}")),
            Some(Exit::Signal { signal, left_core }) => {
                let core = if *left_core { ", core dumped" } else { "" };
                words.push(format!("killed by signal {signal}{core}"));
            }
            None => {}
        }
        if self.out_of_memory {
            words.push("out of memory".to_owned());
        }
        if let Some(result) = &self.result {
            words.push(format!("result {result}"));
        }
        words.extend(self.core.clone());
        match words.is_empty() {
            true => "for an unknown reason".to_owned(),
            false => words.join("; "),
        }
    }
}

/// SIGTERM and SIGINT ask a process to end.
fn is_request(signal: &str) -> bool {
    let number = signal.split('/').next().unwrap_or_default();
    matches!(number, "15" | "2" | "TERM" | "INT")
}

/// A core that was taken.
#[derive(Debug)]
struct Core {
    unit: String,
    realtime: u64,
    facts: String,
}

/// The newest ends, found from the newest to the oldest.
#[derive(Debug)]
pub(crate) struct Ends {
    limit: usize,
    ends: Vec<End>,
    cores: Vec<Core>,
}

impl Ends {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            ends: Vec::new(),
            cores: Vec::new(),
        }
    }

    /// Takes a word about a unit, older than all before; false when there are ends enough.
    pub(crate) fn take(&mut self, realtime: u64, fields: &Fields) -> bool {
        if let Some(unit) = fields.text("COREDUMP_UNIT") {
            if self.cores.len() < self.limit.saturating_mul(2) {
                self.cores.push(Core {
                    unit: unit.to_owned(),
                    realtime,
                    facts: core_facts(fields),
                });
            }
            return true;
        }
        let Some(unit) = fields.text("UNIT") else {
            return true;
        };
        let message = fields.text("MESSAGE").unwrap_or_default();
        let exit = exit(fields, message);
        let result = result(fields, message);
        let out_of_memory = fields.text("MESSAGE_ID") == Some(OUT_OF_MEMORY_ID)
            || message.contains(OUT_OF_MEMORY_TEXT);
        if exit.is_none() && result.is_none() && !out_of_memory {
            return true;
        }
        let invocation = fields.text("INVOCATION_ID").map(str::to_owned);
        // Without a run's id, what was said before the main process exited is about the end before.
        let is_cause = out_of_memory && exit.is_none() && result.is_none();
        let known = self.ends.iter_mut().rev().find(|end| {
            end.unit == unit
                && end.invocation == invocation
                && (invocation.is_some() || end.exit.is_none() || is_cause)
        });
        if let Some(end) = known {
            // The newest word counts, but for one that is about the next run, which there is not.
            end.exit = end.exit.take().or(exit);
            let said = end.result.take();
            let is_of_run = |said: &String| result.is_none() || said != NO_FURTHER_RUN;
            end.result = said.filter(is_of_run).or(result);
            end.out_of_memory |= out_of_memory;
            return true;
        }
        if self.ends.iter().filter(|end| end.has_failed()).count() >= self.limit {
            return false;
        }
        self.ends.push(End {
            unit: unit.to_owned(),
            invocation,
            realtime,
            exit,
            result,
            out_of_memory,
            core: None,
        });
        true
    }

    /// The failed ends in the order of time.
    pub(crate) fn failed(mut self) -> Vec<End> {
        for core in self.cores {
            let nearest = self
                .ends
                .iter_mut()
                .filter(|end| end.unit == core.unit)
                .min_by_key(|end| end.realtime.abs_diff(core.realtime));
            if let Some(end) = nearest
                && end.realtime.abs_diff(core.realtime) <= CORE_TIME
            {
                end.core.get_or_insert(core.facts);
            }
        }
        self.ends.retain(End::has_failed);
        self.ends.reverse();
        self.ends
    }
}

/// How a main process ended; of other processes (`Control process exited`) nothing is told.
fn exit(fields: &Fields, message: &str) -> Option<Exit> {
    let (_, told) = message.split_once(EXITED_TEXT)?;
    let (code, status) = told.split_once(", status=").unwrap_or((told, ""));
    let code = fields.text("EXIT_CODE").unwrap_or(code);
    let status = status.trim_end_matches('.');
    let status = match (status, fields.text("EXIT_STATUS")) {
        ("", Some(status)) => status,
        (status, _) => status,
    };
    match code {
        "exited" => Some(Exit::Status(status.to_owned())),
        "killed" | "dumped" => Some(Exit::Signal {
            signal: status.to_owned(),
            left_core: code == "dumped",
        }),
        _ => None,
    }
    .map(|exit| match exit {
        Exit::Status(status) if status.starts_with("0/") => Exit::Status("0".to_owned()),
        exit => exit,
    })
}

fn result(fields: &Fields, message: &str) -> Option<String> {
    if let Some(result) = fields.text("UNIT_RESULT") {
        return Some(result.to_owned());
    }
    let (_, told) = message.split_once(RESULT_TEXT)?;
    Some(told.split('\'').next()?.to_owned())
}

fn core_facts(fields: &Fields) -> String {
    let mut facts = "core".to_owned();
    for (word, name) in [
        ("of", "COREDUMP_EXE"),
        ("process", "COREDUMP_PID"),
        ("signal", "COREDUMP_SIGNAL_NAME"),
        ("in", "COREDUMP_FILENAME"),
    ] {
        let value = fields.text(name).or(match name {
            "COREDUMP_SIGNAL_NAME" => fields.text("COREDUMP_SIGNAL"),
            _ => None,
        });
        if let Some(value) = value {
            facts.push_str(&format!(" {word} {}", value.replace(char::is_control, "_")));
        }
    }
    facts
}

#[cfg(test)]
mod tests;
