//! `muster-probe`: makes system calls and says whether they ended as expected, for units that try what they are kept from.
//!
//! ```text
//! muster-probe personality 8 = EPERM
//! muster-probe mmap 0 4096 3 0x22 -1 0 = ok , mprotect @ 4096 5 = EACCES
//! ```
//! Attempts are separated by a comma and made in order, in one process. Each is a call by name or number, its arguments, and after `=` what
//! it is expected to end with: `ok`, a number (its result), the name of an error, or a `!` before that (anything else).
//! Arguments are numbers, `@` (the result of the attempt before), `text:WORD` (a string) or `room` (a page of zeroes that the
//! kernel may write to).
//!
//! Every attempt prints a line. The exit code is 0 if all ended as expected, 1 if one did not, 2 for a line that makes no sense.
//!
//! This program belongs to the tests: it is not installed.

use std::env;
use std::process::ExitCode;

mod attempt;
mod call;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let attempts = match attempt::parse(&words) {
        Ok(attempts) => attempts,
        Err(error) => {
            eprintln!("muster-probe: {error}");
            return ExitCode::from(2);
        }
    };
    let mut before = 0;
    for attempt in attempts {
        let outcome = attempt.make(before);
        println!("{}: {}", attempt.call, outcome);
        if !attempt.expected.is_met_by(outcome) {
            println!("expected: {}", attempt.expected);
            return ExitCode::FAILURE;
        }
        before = outcome.value().unwrap_or_default();
    }
    ExitCode::SUCCESS
}
