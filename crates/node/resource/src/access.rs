//! In which mode an item asks for a resource.

/// What an instance may do with what a resource gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It only looks.
    ReadOnly,
    /// It also changes.
    ReadWrite,
}

/// A mode that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("modes are made of the letters r, w and m, as rw")]
pub struct UnknownMode;

impl Access {
    /// What a mode means. Without one everything is allowed that the resource allows.
    ///
    /// # Errors
    /// When the mode is made of anything but the letters `r`, `w` and `m`, each at most once; `ro` is `r` as well.
    pub fn of_mode(mode: Option<&str>) -> Result<Self, UnknownMode> {
        match mode {
            None | Some("") => Ok(Self::ReadWrite),
            Some("ro") => Ok(Self::ReadOnly),
            Some(letters) => {
                let once = |letter: char| letters.matches(letter).count() == 1;
                if !letters.chars().all(|it| "rwm".contains(it) && once(it)) {
                    return Err(UnknownMode);
                }
                Ok(match letters.contains('w') {
                    true => Self::ReadWrite,
                    false => Self::ReadOnly,
                })
            }
        }
    }

    /// What somebody may do who asked twice.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::ReadOnly, Self::ReadOnly) => Self::ReadOnly,
            _ => Self::ReadWrite,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mode_without_w_is_read_only() {
        for mode in [
            None,
            Some(""),
            Some("rw"),
            Some("wr"),
            Some("w"),
            Some("rwm"),
        ] {
            assert_eq!(Access::of_mode(mode), Ok(Access::ReadWrite), "{mode:?}");
        }
        for mode in ["r", "ro", "rm", "m"] {
            assert_eq!(
                Access::of_mode(Some(mode)),
                Ok(Access::ReadOnly),
                "{mode:?}"
            );
        }
    }

    #[test]
    fn other_modes_are_refused() {
        for mode in ["x", "rr", "RW", " r", "rw ", "row", "\0"] {
            assert_eq!(Access::of_mode(Some(mode)), Err(UnknownMode), "{mode:?}");
        }
    }
}
