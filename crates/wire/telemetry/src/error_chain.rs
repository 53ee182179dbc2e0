//! An error with everything that caused it.

use std::error::Error;
use std::fmt;

/// Causes shown at most: an error that is its own source must not fill the log.
const MAX_CAUSES: usize = 32;

/// Shows an error and its causes as `outer: inner: innermost`.
///
/// Our errors do not repeat their source in their own text, so a bare `{error}` hides the cause.
#[derive(Debug, Clone, Copy)]
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        for _ in 0..MAX_CAUSES {
            let Some(error) = cause else { break };
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{name}")]
    struct Link {
        name: &'static str,
        source: Option<Box<Link>>,
    }

    #[test]
    fn all_causes_stand_on_one_line() {
        let innermost = Link {
            name: "no such file",
            source: None,
        };
        let inner = Link {
            name: "cannot read the key",
            source: Some(Box::new(innermost)),
        };
        let outer = Link {
            name: "cannot start",
            source: Some(Box::new(inner)),
        };
        assert_eq!(
            ErrorChain(&outer).to_string(),
            "cannot start: cannot read the key: no such file"
        );
    }

    #[test]
    fn a_very_long_chain_is_cut() {
        let mut error = Link {
            name: "x",
            source: None,
        };
        for _ in 0..1000 {
            error = Link {
                name: "x",
                source: Some(Box::new(error)),
            };
        }
        assert_eq!(
            ErrorChain(&error).to_string().matches('x').count(),
            MAX_CAUSES + 1
        );
    }
}
