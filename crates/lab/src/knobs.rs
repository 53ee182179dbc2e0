//! What the environment of a test run decides: how long, and with which random numbers.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// `MUSTER_SOAK=1`: run for long rather than for an answer within a minute.
pub const SOAK_VARIABLE: &str = "MUSTER_SOAK";
/// `MUSTER_SEED=<number>`: repeat the random choices of an earlier run.
pub const SEED_VARIABLE: &str = "MUSTER_SEED";

/// How many rounds a randomised test runs: `long` under `MUSTER_SOAK=1`, else `short`.
pub fn rounds(short: u32, long: u32) -> u32 {
    choose_rounds(std::env::var(SOAK_VARIABLE).ok().as_deref(), short, long)
}

/// The seed of a randomised test: `MUSTER_SEED`, or a random one. It is printed, so that the output
/// of a failure says how to repeat it.
///
/// # Panics
/// Panics when `MUSTER_SEED` is not a number: another seed would not repeat what was asked for.
pub fn seed() -> u64 {
    let seed = choose_seed(std::env::var(SEED_VARIABLE).ok().as_deref());
    eprintln!("{SEED_VARIABLE}={seed}");
    seed
}

fn choose_rounds(soak: Option<&str>, short: u32, long: u32) -> u32 {
    if soak == Some("1") { long } else { short }
}

fn choose_seed(given: Option<&str>) -> u64 {
    match given {
        Some(text) => text
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{SEED_VARIABLE} must be a number, not {text:?}")),
        None => RandomState::new().build_hasher().finish(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soak_lengthens_only_when_it_is_one() {
        assert_eq!(choose_rounds(None, 3, 300), 3);
        assert_eq!(choose_rounds(Some("0"), 3, 300), 3);
        assert_eq!(choose_rounds(Some("1"), 3, 300), 300);
    }

    #[test]
    fn seed_is_the_given_one_or_a_fresh_one() {
        assert_eq!(choose_seed(Some("42\n")), 42);
        assert_ne!(choose_seed(None), choose_seed(None));
    }

    #[test]
    #[should_panic(expected = "MUSTER_SEED must be a number, not \"x\"")]
    fn seed_that_is_no_number_is_refused() {
        choose_seed(Some("x"));
    }
}
