//! What to try, and what it is expected to end with.

use std::ffi::CString;
use std::fmt;
use std::io;

use crate::call::{CALLS, ERRORS, named};

const PAGE: usize = 4096;
const MOST_ARGUMENTS: usize = 6;

/// A command line that makes no sense.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttemptError {
    #[error("nothing to try")]
    Nothing,
    #[error("no system call is known as {0:?}")]
    Call(String),
    #[error("{0:?} is no argument of a system call")]
    Argument(String),
    #[error("{0} has more than {MOST_ARGUMENTS} arguments")]
    Arguments(String),
    #[error("{0} says not what is expected: `= ok`, `= EPERM`, `= !EPERM` or `= 7`")]
    Expected(String),
}

/// One argument of a call.
#[derive(Debug)]
pub(crate) enum Argument {
    Number(i64),
    Before,
    Text(CString),
    Room,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Value(i64),
    Error(i32),
}

impl Outcome {
    pub(crate) fn value(self) -> Option<i64> {
        match self {
            Self::Value(value) => Some(value),
            Self::Error(_) => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "ok ({value})"),
            Self::Error(code) => f.write_str(&error_name(*code)),
        }
    }
}

fn error_name(code: i32) -> String {
    let known = ERRORS.iter().find(|(_, value)| *value == code);
    known.map_or_else(|| format!("error {code}"), |(name, _)| (*name).to_owned())
}

/// What a call is expected to end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Success,
    Value(i64),
    Error(i32),
    AnythingBut(i32),
}

impl Expected {
    fn parse(word: &str) -> Option<Self> {
        if word == "ok" {
            return Some(Self::Success);
        }
        if let Some(name) = word.strip_prefix('!') {
            return named(ERRORS, name).map(Self::AnythingBut);
        }
        named(ERRORS, word)
            .map(Self::Error)
            .or_else(|| number(word).map(Self::Value))
    }

    pub(crate) fn is_met_by(self, outcome: Outcome) -> bool {
        match self {
            Self::Success => matches!(outcome, Outcome::Value(_)),
            Self::Value(value) => outcome == Outcome::Value(value),
            Self::Error(code) => outcome == Outcome::Error(code),
            Self::AnythingBut(code) => outcome != Outcome::Error(code),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.write_str("ok"),
            Self::Value(value) => write!(f, "ok ({value})"),
            Self::Error(code) => f.write_str(&error_name(*code)),
            Self::AnythingBut(code) => write!(f, "anything but {}", error_name(*code)),
        }
    }
}

/// A call to make.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) call: String,
    number: libc::c_long,
    arguments: Vec<Argument>,
    pub(crate) expected: Expected,
}

impl Attempt {
    /// Makes the call; `before` is the result of the one before.
    pub(crate) fn make(&self, before: i64) -> Outcome {
        let mut room = vec![0_u8; PAGE];
        let mut words = [0_i64; MOST_ARGUMENTS];
        for (word, argument) in words.iter_mut().zip(&self.arguments) {
            *word = match argument {
                Argument::Number(number) => *number,
                Argument::Before => before,
                Argument::Text(text) => text.as_ptr().addr().cast_signed() as i64,
                Argument::Room => room.as_mut_ptr().expose_provenance().cast_signed() as i64,
            };
        }
        let [a, b, c, d, e, f] = words;
        #[expect(
            unsafe_code,
            reason = "any system call is to be tried, and most have no safe form"
        )]
        // SAFETY: strings and the page outlive the call; other pointers are those that the kernel gave or that the test means to be
        // refused, and no call of the table changes memory that this program uses later.
        let value = unsafe { libc::syscall(self.number, a, b, c, d, e, f) };
        drop(room);
        if value == -1 {
            let code = io::Error::last_os_error().raw_os_error();
            return Outcome::Error(code.unwrap_or_default());
        }
        Outcome::Value(value)
    }
}

/// Reads the command line.
pub(crate) fn parse(words: &[String]) -> Result<Vec<Attempt>, AttemptError> {
    words.split(|word| word == ",").map(parse_one).collect()
}

fn parse_one(words: &[String]) -> Result<Attempt, AttemptError> {
    let [call, rest @ ..] = words else {
        return Err(AttemptError::Nothing);
    };
    let number_of = |name: &str| named(CALLS, name).or_else(|| number(name));
    let number = number_of(call).ok_or_else(|| AttemptError::Call(call.clone()))?;
    let [arguments @ .., sign, expected] = rest else {
        return Err(AttemptError::Expected(call.clone()));
    };
    let expected = Expected::parse(expected)
        .filter(|_| sign == "=")
        .ok_or_else(|| AttemptError::Expected(call.clone()))?;
    if arguments.len() > MOST_ARGUMENTS {
        return Err(AttemptError::Arguments(call.clone()));
    }
    let arguments = arguments
        .iter()
        .map(|word| argument(word))
        .collect::<Result<_, _>>()?;
    Ok(Attempt {
        call: call.clone(),
        number,
        arguments,
        expected,
    })
}

fn argument(word: &str) -> Result<Argument, AttemptError> {
    let wrong = || AttemptError::Argument(word.to_owned());
    if let Some(text) = word.strip_prefix("text:") {
        return CString::new(text).map(Argument::Text).map_err(|_| wrong());
    }
    match word {
        "@" => Ok(Argument::Before),
        "room" => Ok(Argument::Room),
        _ => number(word).map(Argument::Number).ok_or_else(wrong),
    }
}

/// Decimal, or hexadecimal with `0x`, or octal with `0o`.
fn number(word: &str) -> Option<i64> {
    let radix = |digits, radix| {
        u64::from_str_radix(digits, radix)
            .ok()
            .map(u64::cast_signed)
    };
    if let Some(digits) = word.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = word.strip_prefix("0o") {
        return radix(digits, 8);
    }
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(line: &str) -> Vec<(Outcome, bool)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut before = 0;
        let attempts = parse(&words).unwrap_or_else(|error| panic!("{error}"));
        let make = |attempt: Attempt| {
            let outcome = attempt.make(before);
            before = outcome.value().unwrap_or_default();
            (outcome, attempt.expected.is_met_by(outcome))
        };
        attempts.into_iter().map(make).collect()
    }

    #[test]
    fn calls_end_as_the_kernel_says() {
        let pid = i64::from(std::process::id());
        assert_eq!(tried("getpid = ok"), [(Outcome::Value(pid), true)]);
        assert_eq!(
            tried("kill -1 99 = EPERM"),
            [(Outcome::Error(libc::EINVAL), false)]
        );
        assert_eq!(
            tried("open text:/no/such/file 0 = !EPERM"),
            [(Outcome::Error(libc::ENOENT), true)]
        );
    }

    #[test]
    fn result_of_one_is_an_argument_of_the_next() {
        let both = tried("mmap 0 4096 3 0x22 -1 0 = ok , mprotect @ 4096 1 = 0");
        assert!(both.iter().all(|(_, met)| *met), "{both:?}");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let error = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            parse(&words).err()
        };
        assert_eq!(
            error("fly = ok"),
            Some(AttemptError::Call("fly".to_owned()))
        );
        assert_eq!(
            error("getpid"),
            Some(AttemptError::Expected("getpid".to_owned()))
        );
        assert_eq!(
            error("getpid = maybe"),
            Some(AttemptError::Expected("getpid".to_owned()))
        );
        assert_eq!(
            error("kill x 0 = ok"),
            Some(AttemptError::Argument("x".to_owned()))
        );
        assert_eq!(error("getpid = ok ,"), Some(AttemptError::Nothing));
        assert_eq!(
            error("kill 1 2 3 4 5 6 7 = ok"),
            Some(AttemptError::Arguments("kill".to_owned()))
        );
    }
}
