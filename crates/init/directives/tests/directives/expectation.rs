//! How a unit is expected to end, and how it ended.

use std::collections::BTreeMap;
use std::fmt;

/// How much of what a unit printed is shown.
const SHOWN_LINES: usize = 6;

/// How a unit is expected to end.
///
/// Written as `success`, `exit 226/NAMESPACE` (the word is for the reader), `signal 31/SYS`, `result oom-kill`, `refused`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// It runs, or has run to its end, and nothing went wrong.
    Success,
    /// Its process ended with this code.
    Exit(i32),
    /// Its process was ended by this signal.
    Signal(i32),
    /// It failed, in a word of `Result=`.
    Result(String),
    /// Its file is not accepted.
    Refused,
}

impl Expectation {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.split('/').next()?.parse().ok();
        Some(match text.split_once(' ') {
            None if text == "success" => Self::Success,
            None if text == "refused" => Self::Refused,
            Some(("exit", code)) => Self::Exit(number(code)?),
            Some(("signal", signal)) => Self::Signal(number(signal)?),
            Some(("result", word)) => Self::Result(word.to_owned()),
            _ => return None,
        })
    }

    /// Why what was observed is something else, if it is. Whoever is to be looked at from outside must have been.
    pub(crate) fn differs_from(&self, seen: &Observed, has_outside: bool) -> Option<String> {
        let is_as_expected = match self {
            Self::Success => {
                seen.show("Result") == "success"
                    && seen.show("LoadState") == "loaded"
                    // One that still starts when its time is over has shown nothing.
                    && !matches!(seen.show("ActiveState"), "failed" | "activating")
                    && seen.show("ExecMainStatus") == "0"
                    && !seen.show("ExecMainStartTimestampMonotonic").is_empty()
                    && seen.show("ExecMainStartTimestampMonotonic") != "0"
            }
            Self::Exit(code) => {
                seen.show("ExecMainCode") == "1" && seen.show("ExecMainStatus") == code.to_string()
            }
            Self::Signal(signal) => {
                matches!(seen.show("ExecMainCode"), "2" | "3")
                    && seen.show("ExecMainStatus") == signal.to_string()
            }
            Self::Result(word) => seen.show("Result") == word,
            Self::Refused => seen.show("LoadState") == "bad-setting",
        };
        if !is_as_expected {
            return Some(seen.to_string());
        }
        match seen.outside {
            Some(code) if code != 0 => Some(format!("a look from outside ended with {code}")),
            None if has_outside => Some("nobody looked from outside".to_owned()),
            _ => None,
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.write_str("success"),
            Self::Exit(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Result(word) => write!(f, "result {word}"),
            Self::Refused => f.write_str("refused"),
        }
    }
}

/// How a unit ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    properties: BTreeMap<String, String>,
    /// What the look from outside ended with, if there was one.
    outside: Option<i32>,
    /// What it printed.
    printed: Vec<String>,
    /// What the manager's tool said.
    said: Vec<String>,
}

impl Observed {
    fn show(&self, name: &str) -> &str {
        self.properties.get(name).map_or("", String::as_str)
    }

    /// What is worth to be shown if it ended otherwise.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        let tail = &self.printed[self.printed.len().saturating_sub(SHOWN_LINES)..];
        tail.iter()
            .chain(self.said.iter().take(SHOWN_LINES))
            .map(String::as_str)
    }

    /// What the driver wrote about each case, by name: while it ran, and, for those that were not looked at then, what the
    /// manager's tool said about all of them at the end.
    pub(crate) fn read(results: &str, shown: &str) -> BTreeMap<String, Self> {
        let mut all: BTreeMap<String, Self> = BTreeMap::new();
        for block in shown.split("\n\n") {
            let pairs = block.lines().filter_map(|line| line.split_once('='));
            let properties =
                BTreeMap::from_iter(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
            let id = properties.get("Id").map_or("", String::as_str);
            let name = id
                .trim_start_matches("check-")
                .trim_end_matches(".service")
                .to_owned();
            all.entry(name).or_default().properties = properties;
        }
        let mut name = String::new();
        for line in results.lines() {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            let seen = all.entry(name.clone()).or_default();
            match kind {
                "case" => name = rest.to_owned(),
                "show" => {
                    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
                    seen.properties.insert(key.to_owned(), value.to_owned());
                }
                "outside" => seen.outside = rest.parse().ok(),
                "seen" => seen.printed.push(rest.to_owned()),
                _ => seen.said.push(rest.to_owned()),
            }
        }
        all
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, status) = (self.show("ExecMainCode"), self.show("ExecMainStatus"));
        match code {
            "" => f.write_str("nothing was noted"),
            "0" => write!(
                f,
                "not executed: {}, {}",
                self.show("LoadState"),
                self.show("Result")
            ),
            "1" => write!(f, "exit {status}"),
            _ => write!(f, "signal {status}"),
        }?;
        match self.show("Result") {
            "success" | "exit-code" | "signal" => Ok(()),
            word => write!(f, " ({word})"),
        }
    }
}

#[test]
fn what_was_seen_is_compared_as_written() {
    let results = "case a\nsaid Job failed\nshow LoadState=loaded\nshow Result=exit-code\nshow ExecMainCode=1\n\
                   show ExecMainStatus=226\noutside 0\ncase b\n";
    let shown =
        "LoadState=loaded\nId=check-a.service\n\nId=check-b.service\nLoadState=bad-setting\n";
    let all = Observed::read(results, shown);
    let differs = |text: &str, name: &str| {
        let expected = Expectation::parse(text).unwrap();
        let has_outside = name == "a";
        expected.differs_from(&all[name], has_outside)
    };
    assert_eq!(differs("exit 226/NAMESPACE", "a"), None);
    assert_eq!(differs("result exit-code", "a"), None);
    assert_eq!(differs("success", "a").unwrap(), "exit 226");
    assert_eq!(differs("signal 31/SYS", "a").unwrap(), "exit 226");
    assert_eq!(differs("refused", "b"), None);
    let refused = Expectation::parse("refused").unwrap();
    assert_eq!(
        refused.differs_from(&all["b"], true).unwrap(),
        "nobody looked from outside"
    );
    assert_eq!(Vec::from_iter(all["a"].lines()), ["Job failed"]);
    assert_eq!(Expectation::parse("exit x"), None);
}
