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
    ("no-ask-password", None, false),
    ("no-pager", None, false),
    ("no-wall", None, false),
    ("no-warn", None, false),
    ("recursive", Some('r'), false),
    ("system", None, false),
    ("timestamp", None, true),
];

/// Options that would make the verb mean other units than a machine's own.
const REFUSED: &[(&str, Option<char>)] = &[
    ("global", None),
    ("image", None),
    ("machine", Some('M')),
    ("user", None),
];

/// Verbs of other tools than `systemctl`: their options mean nothing to the other verbs.
const OTHER_TOOLS: &[&str] = &["analyze", "escape", "logs", "run"];

/// Verbs that are about no units at all, so that it does not matter which system is meant.
const WITHOUT_UNITS: &[&str] = &["calendar", "completions", "man", "timespan", "timestamp"];

/// Options that every verb takes.
const GLOBAL: &[&str] = &["color", "host", "socket"];

/// Verbs of `systemctl` that are not for this manager.
const ABSENT: &[&str] = &[
    "bind",
    "hibernate",
    "hybrid-sleep",
    "list-automounts",
    "list-machines",
    "log-level",
    "log-target",
    "mount-image",
    "service-log-level",
    "service-log-target",
    "service-watchdogs",
    "suspend",
    "suspend-then-hibernate",
    "switch-root",
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
    /// systemd has it, Muster has not.
    #[error("Verb '{verb}' of systemctl is not supported.")]
    Absent {
        /// The verb.
        verb: &'static str,
    },
    /// Other units would be changed than those that are meant.
    #[error("Verb '{verb}' asks the running manager, so it makes no sense together with --root.")]
    Root {
        /// The verb.
        verb: String,
    },
    /// The option is about other machines or users.
    #[error(
        "Option --{option} is not supported: sctl works on the units of a machine's own manager only."
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
#[derive(Debug, Clone, Default)]
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

    /// Everything that any verb of `systemctl` takes.
    fn of_all(command: &Command) -> Self {
        let verbs = command
            .get_subcommands()
            .filter(|verb| !OTHER_TOOLS.contains(&verb.get_name()));
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
    let mut all = Options::of_all(command);
    all.0.extend(Options::of(command).0);
    arrange_below(command, &all, words)
}

/// The same for the verbs of one level; verbs such as `analyze` have verbs of their own.
fn arrange_below(
    command: &Command,
    all: &Options,
    words: Vec<String>,
) -> Result<Vec<String>, ArgumentError> {
    let mut words = words.into_iter();
    let mut before = tokens(&mut words, &[all], true)?;
    let Some(Token::Positional(verb)) = before.pop_if(|last| matches!(last, Token::Positional(_)))
    else {
        // No verb at all: --help, --version, or nothing.
        return Ok(before.into_iter().flat_map(Token::into_words).collect());
    };
    let Some(definition) = command.find_subcommand(&verb) else {
        return Err(unknown(command, verb));
    };
    if definition.has_subcommands() {
        let mut all = all.clone();
        all.0.extend(
            definition
                .get_subcommands()
                .flat_map(|verb| Options::of(verb).0),
        );
        let options = before.into_iter().flat_map(Token::into_words);
        let below = arrange_below(definition, &all, options.chain(words).collect())?;
        return Ok(std::iter::once(verb).chain(below).collect());
    }
    if verb == "logs" {
        words = with_boots_joined(words).into_iter();
    }
    let own = Options::of(definition);
    let everywhere = |known: &Known| GLOBAL.contains(&known.long.as_deref().unwrap_or_default());
    let is_command = definition.get_arguments().any(Arg::is_trailing_var_arg_set);
    let after = tokens(&mut words, &[&own, all], is_command)?;
    let mut arranged = vec![verb];
    for token in before.into_iter().chain(after) {
        let dropped = match &token {
            Token::Option { long, short, .. } => {
                let in_options = |options: &Options| {
                    let by_long = |name: &str| options.long(name).is_some();
                    long.as_deref().is_some_and(by_long)
                        || short.is_some_and(|letter| options.short(letter).is_some())
                };
                let global = long.as_deref().and_then(|name| all.long(name));
                !in_options(&own) && in_options(all) && !global.is_some_and(everywhere)
            }
            Token::Positional(_) | Token::End => false,
        };
        if !dropped {
            arranged.extend(token.into_words());
        } else if matches!(&token, Token::Option { long: Some(name), .. } if name == "root")
            && !WITHOUT_UNITS.contains(&definition.get_name())
        {
            let verb = definition.get_name().to_owned();
            return Err(ArgumentError::Root { verb });
        }
    }
    // What stands behind a command's name is the command's.
    arranged.extend(words);
    Ok(arranged)
}

/// `journalctl -b -1` has the value of an option, which may be absent, in a word of its own: `--boot=-1` says the same.
fn with_boots_joined(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut joined = Vec::new();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => {
                joined.push(word);
                joined.extend(words.by_ref());
            }
            "-b" | "--boot" => match words.next_if(|next| names_a_boot(next)) {
                Some(boot) => joined.push(format!("--boot={boot}")),
                None => joined.push("--boot".to_owned()),
            },
            _ => match word.strip_prefix("-b").filter(|rest| names_a_boot(rest)) {
                Some(boot) => joined.push(format!("--boot={boot}")),
                None => joined.push(word),
            },
        }
    }
    joined
}

fn names_a_boot(word: &str) -> bool {
    let digits = word.trim_start_matches(['+', '-']);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let id = word.get(..32).unwrap_or_default();
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number || is_id || word == "all"
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
    if let Some(verb) = ABSENT.iter().find(|known| **known == verb) {
        return ArgumentError::Absent { verb };
    }
    let names: Vec<String> = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    let best = |name: &str| strsim::damerau_levenshtein(name, &verb);
    let mut candidates: Vec<(usize, &str)> = names
        .iter()
        .map(String::as_str)
        .map(|name| (best(name), name))
        .filter(|(distance, name)| *distance <= 2.min(name.len() / 2))
        .collect();
    candidates.sort_unstable();
    let nearest = candidates.first().map(|(_, name)| (*name).to_owned());
    ArgumentError::UnknownVerb { verb, nearest }
}

#[cfg(test)]
mod tests;
