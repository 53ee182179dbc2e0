//! From a command line for `systemctl` to one for clap.
//!
//! `systemctl` takes every option with every verb, and before the verb too. [`arrange`] puts the verb
//! first, drops options that have no meaning for it and are known to do no harm, and refuses those
//! that ask for something else than this machine's units. Everything is derived from the clap
//! definition, so a new option needs no second entry.

use clap::{Arg, ArgAction, Command};
use thiserror::Error;

/// Options of `systemctl` that change nothing here: long name, short name, whether a value follows.
const HARMLESS: &[(&str, Option<char>, bool)] = &[
    ("full", Some('l'), false),
    ("job-mode", None, true),
    ("legend", None, true),
    ("lines", Some('n'), true),
    ("no-ask-password", None, false),
    ("no-block", None, false),
    ("no-pager", None, false),
    ("no-reload", None, false),
    ("no-wall", None, false),
    ("no-warn", None, false),
    ("plain", None, false),
    ("recursive", Some('r'), false),
    ("show-types", None, false),
    ("system", None, false),
    ("timestamp", None, true),
    ("wait", None, false),
];

/// Options that would make the verb mean other units than this machine's.
const REFUSED: &[(&str, Option<char>)] = &[
    ("global", None),
    ("host", Some('H')),
    ("image", None),
    ("machine", Some('M')),
    ("user", None),
];

/// Verbs of `systemctl` that ask the running manager.
const DAEMON_VERBS: &[&str] = &[
    "bind",
    "cancel",
    "clean",
    "condreload",
    "condrestart",
    "condstop",
    "daemon-reexec",
    "daemon-reload",
    "default",
    "emergency",
    "exit",
    "force-reload",
    "freeze",
    "halt",
    "hibernate",
    "hybrid-sleep",
    "import-environment",
    "is-active",
    "is-failed",
    "is-system-running",
    "isolate",
    "kexec",
    "kill",
    "list-automounts",
    "list-jobs",
    "list-machines",
    "list-sockets",
    "list-timers",
    "list-units",
    "log-level",
    "log-target",
    "mount-image",
    "poweroff",
    "reboot",
    "reload",
    "reload-or-restart",
    "rescue",
    "reset-failed",
    "restart",
    "service-log-level",
    "service-log-target",
    "service-watchdogs",
    "set-environment",
    "set-property",
    "show-environment",
    "start",
    "status",
    "stop",
    "suspend",
    "suspend-then-hibernate",
    "switch-root",
    "thaw",
    "try-reload-or-restart",
    "try-restart",
    "unset-environment",
];

/// Why a command line makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ArgumentError {
    /// An argument is not text.
    #[error("An argument is not valid UTF-8.")]
    NotText,
    /// There is no such verb.
    #[error("Unknown command verb {verb}.{}", nearest.as_ref().map_or(String::new(), |verb| format!(" Did you mean '{verb}'?")))]
    UnknownVerb {
        /// What was asked for.
        verb: String,
        /// What was probably meant.
        nearest: Option<String>,
    },
    /// The verb is about running units.
    #[error(
        "Verb '{verb}' asks the running service manager, which this version of sctl cannot talk to yet."
    )]
    NeedsDaemon {
        /// The verb.
        verb: &'static str,
    },
    /// The option is about other machines or users.
    #[error(
        "Option --{option} is not supported: sctl works on the units of this system only (or of --root=)."
    )]
    Refused {
        /// The option.
        option: &'static str,
    },
}

/// What is known about an option.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    long: Option<String>,
    short: Option<char>,
    takes_value: bool,
}

impl Known {
    fn of(argument: &Arg) -> Option<Self> {
        if argument.is_positional() {
            return None;
        }
        // A value that is optional stands behind an equals sign.
        let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
            && !argument.is_require_equals_set();
        Some(Self {
            long: argument.get_long().map(str::to_owned),
            short: argument.get_short(),
            takes_value,
        })
    }
}

/// The options of a set of verbs.
#[derive(Debug, Default)]
struct Options(Vec<Known>);

impl Options {
    fn of(command: &Command) -> Self {
        let mut options: Vec<Known> = command.get_arguments().filter_map(Known::of).collect();
        options.push(Known {
            long: Some("help".to_owned()),
            short: Some('h'),
            takes_value: false,
        });
        Self(options)
    }

    /// Everything that any verb of `systemctl` takes. `escape` speaks another language.
    fn of_all(command: &Command) -> Self {
        let verbs = command
            .get_subcommands()
            .filter(|verb| verb.get_name() != "escape");
        let mut options: Vec<Known> = verbs.flat_map(|verb| Self::of(verb).0).collect();
        options.extend(HARMLESS.iter().map(|(long, short, takes_value)| Known {
            long: Some((*long).to_owned()),
            short: *short,
            takes_value: *takes_value,
        }));
        Self(options)
    }

    /// By the full long name, or by the beginning of exactly one.
    fn long(&self, name: &str) -> Option<&Known> {
        let exact = |known: &&Known| known.long.as_deref() == Some(name);
        if let Some(known) = self.0.iter().find(exact) {
            return Some(known);
        }
        let begins = |known: &&Known| {
            known
                .long
                .as_deref()
                .is_some_and(|long| long.starts_with(name))
        };
        let mut candidates = self.0.iter().filter(begins);
        let first = candidates.next()?;
        candidates
            .all(|other| other.long == first.long)
            .then_some(first)
    }

    fn short(&self, name: char) -> Option<&Known> {
        self.0.iter().find(|known| known.short == Some(name))
    }
}

/// One argument, or several that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Option {
        long: Option<String>,
        short: Option<char>,
        words: Vec<String>,
    },
    Positional(String),
    /// `--`
    End,
}

/// Splits words into options with their values and positional arguments.
fn tokens(
    words: &mut std::vec::IntoIter<String>,
    options: &[&Options],
    stop_at_positional: bool,
) -> Result<Vec<Token>, ArgumentError> {
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            found.push(Token::End);
            found.extend(words.by_ref().map(Token::Positional));
        } else if let Some(body) = word.strip_prefix("--") {
            let (name, value) = match body.split_once('=') {
                Some((name, _)) => (name, true),
                None => (body, false),
            };
            refuse(|(long, _)| *long == name)?;
            let known = options.iter().find_map(|options| options.long(name));
            let long = known.and_then(|known| known.long.clone());
            let wants_value = !value && known.is_some_and(|known| known.takes_value);
            let mut own = vec![word];
            own.extend(wants_value.then(|| words.next()).flatten());
            found.push(Token::Option {
                long,
                short: None,
                words: own,
            });
        } else if let Some(body) = word.strip_prefix('-').filter(|body| !body.is_empty()) {
            for (at, letter) in body.char_indices() {
                refuse(|(_, short)| *short == Some(letter))?;
                let known = options.iter().find_map(|options| options.short(letter));
                let mut own = vec![format!("-{letter}")];
                let rest = &body[at + letter.len_utf8()..];
                let takes_value = known.is_some_and(|known| known.takes_value);
                if takes_value && rest.is_empty() {
                    own.extend(words.next());
                } else if takes_value {
                    own = vec![format!("-{letter}{rest}")];
                } else if known.is_none() {
                    // Not an option of anything: it stays as it was written.
                    own = vec![format!("-{letter}{rest}")];
                }
                found.push(Token::Option {
                    long: known.and_then(|known| known.long.clone()),
                    short: Some(letter),
                    words: own,
                });
                if takes_value || known.is_none() {
                    break;
                }
            }
        } else {
            found.push(Token::Positional(word));
            if stop_at_positional {
                break;
            }
        }
    }
    Ok(found)
}

fn refuse(matches: impl Fn(&(&'static str, Option<char>)) -> bool) -> Result<(), ArgumentError> {
    match REFUSED.iter().find(|entry| matches(entry)) {
        Some((option, _)) => Err(ArgumentError::Refused { option }),
        None => Ok(()),
    }
}

/// Puts the verb first and drops what has no meaning for it. `words` are without the program's name.
///
/// # Errors
/// There is no such verb, or an option asks for what sctl never does.
pub(crate) fn arrange(command: &Command, words: Vec<String>) -> Result<Vec<String>, ArgumentError> {
    let all = Options::of_all(command);
    let top = Options::of(command);
    let mut words = words.into_iter();
    let mut before = tokens(&mut words, &[&all, &top], true)?;
    let Some(Token::Positional(verb)) = before.pop_if(|last| matches!(last, Token::Positional(_)))
    else {
        // No verb at all: --help, --version, or nothing.
        return Ok(before.into_iter().flat_map(Token::into_words).collect());
    };
    let Some(definition) = command.find_subcommand(&verb) else {
        return Err(unknown(command, verb));
    };
    let own = Options::of(definition);
    let after = tokens(&mut words, &[&own, &all], false)?;
    let mut arranged = vec![verb];
    for token in before.into_iter().chain(after) {
        let dropped = match &token {
            Token::Option { long, short, .. } => {
                let is_own = long.as_deref().is_some_and(|name| own.long(name).is_some())
                    || short.is_some_and(|letter| own.short(letter).is_some());
                let is_known = long.as_deref().is_some_and(|name| all.long(name).is_some())
                    || short.is_some_and(|letter| all.short(letter).is_some());
                !is_own && is_known
            }
            Token::Positional(_) | Token::End => false,
        };
        if !dropped {
            arranged.extend(token.into_words());
        }
    }
    Ok(arranged)
}

impl Token {
    fn into_words(self) -> Vec<String> {
        match self {
            Self::Option { words, .. } => words,
            Self::Positional(word) => vec![word],
            Self::End => vec!["--".to_owned()],
        }
    }
}

fn unknown(command: &Command, verb: String) -> ArgumentError {
    if let Some(verb) = DAEMON_VERBS.iter().find(|known| **known == verb) {
        return ArgumentError::NeedsDaemon { verb };
    }
    let names: Vec<String> = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    let best = |name: &str| strsim::damerau_levenshtein(name, &verb);
    let mut candidates: Vec<(usize, &str)> = names
        .iter()
        .map(String::as_str)
        .chain(DAEMON_VERBS.iter().copied())
        .map(|name| (best(name), name))
        .filter(|(distance, name)| *distance <= 2.min(name.len() / 2))
        .collect();
    candidates.sort_unstable();
    let nearest = candidates.first().map(|(_, name)| (*name).to_owned());
    ArgumentError::UnknownVerb { verb, nearest }
}

#[cfg(test)]
mod tests;
