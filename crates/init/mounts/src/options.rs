//! Mount options as unit files have them: comma-separated words.

/// How many options one mount may have.
const MAX_OPTIONS: usize = 64;

/// When reading a file changes its time of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessTime {
    /// When it is older than the file's last change, or a day.
    #[default]
    Relative,
    /// Never.
    Never,
    /// Always.
    Always,
}

/// What holds for one mount, whatever is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attributes {
    /// Nobody writes.
    pub read_only: bool,
    /// Programs run as who starts them.
    pub no_suid: bool,
    /// Devices are no devices.
    pub no_dev: bool,
    /// Nothing can be executed.
    pub no_exec: bool,
    /// Symlinks are not followed.
    pub no_symlinks: bool,
    /// Reading a folder leaves its time of access.
    pub no_folder_time: bool,
    /// When reading changes times of access.
    pub access_time: AccessTime,
}

/// Options of a mount, sorted into those of every mount and those of its file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountOptions {
    /// What every mount knows.
    pub attributes: Attributes,
    /// What only the file system knows: names, and values of those that have one.
    pub parameters: Vec<(Box<str>, Option<Box<str>>)>,
}

/// Mount options make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// More than anybody means.
    #[error("there are more than {MAX_OPTIONS} mount options")]
    TooMany,
    /// A text that the kernel cannot take.
    #[error("the mount option {option:?} holds a zero byte or has no name")]
    BadOption {
        /// The option.
        option: Box<str>,
    },
}

impl MountOptions {
    /// The options of a file system in memory of this mode and these limits, without devices.
    pub(crate) fn memory(parameters: &[(&str, &str)]) -> Self {
        Self {
            attributes: Attributes {
                no_dev: true,
                access_time: AccessTime::Always,
                ..Attributes::default()
            },
            parameters: parameters
                .iter()
                .map(|(name, value)| ((*name).into(), Some((*value).into())))
                .collect(),
        }
    }

    /// Changes what the words say.
    ///
    /// # Errors
    /// There are too many, or the kernel cannot take one.
    pub fn merge(&mut self, words: &str) -> Result<(), OptionsError> {
        for (count, word) in words.split(',').map(str::trim).enumerate() {
            if count >= MAX_OPTIONS {
                return Err(OptionsError::TooMany);
            }
            if word.contains('\0') || word.starts_with('=') {
                return Err(OptionsError::BadOption {
                    option: word.into(),
                });
            }
            if !self.attributes.set(word) {
                self.set_parameter(word);
            }
        }
        Ok(())
    }

    fn set_parameter(&mut self, word: &str) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.into())),
            None => (word, None),
        };
        match self
            .parameters
            .iter_mut()
            .find(|(known, _)| **known == *name)
        {
            Some((_, known)) => *known = value,
            None => self.parameters.push((name.into(), value)),
        }
    }
}

impl Attributes {
    /// Whether the word is one of every mount.
    fn set(&mut self, word: &str) -> bool {
        match word {
            "" | "defaults" => {}
            // Those are for programs that mount, not for the kernel.
            word if word.starts_with("x-") => {}
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "nosuid" => self.no_suid = true,
            "suid" => self.no_suid = false,
            "nodev" => self.no_dev = true,
            "dev" => self.no_dev = false,
            "noexec" => self.no_exec = true,
            "exec" => self.no_exec = false,
            "nosymfollow" => self.no_symlinks = true,
            "symfollow" => self.no_symlinks = false,
            "nodiratime" => self.no_folder_time = true,
            "diratime" => self.no_folder_time = false,
            "noatime" => self.access_time = AccessTime::Never,
            "strictatime" => self.access_time = AccessTime::Always,
            "atime" | "relatime" | "norelatime" | "nostrictatime" => {
                self.access_time = AccessTime::Relative;
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessTime, MountOptions, OptionsError};

    #[test]
    fn words_are_sorted_and_the_last_holds() {
        let mut options = MountOptions::memory(&[("mode", "0755"), ("size", "10%")]);
        options
            .merge("ro,dev, nosuid,size=1M,nostrictatime,huge=never,inode64,,rw,noexec")
            .expect("good options");
        let attributes = options.attributes;
        assert!(!attributes.read_only && !attributes.no_dev);
        assert!(attributes.no_suid && attributes.no_exec);
        assert_eq!(attributes.access_time, AccessTime::Relative);
        let parameters: Vec<_> = options
            .parameters
            .iter()
            .map(|(name, value)| (&**name, value.as_deref()))
            .collect();
        let expected = [
            ("mode", Some("0755")),
            ("size", Some("1M")),
            ("huge", Some("never")),
            ("inode64", None),
        ];
        assert_eq!(parameters, expected);
    }

    #[test]
    fn words_for_other_programs_are_left_out() {
        let mut options = MountOptions::default();
        options.merge("x-systemd.any,ro").expect("good options");
        assert!(options.attributes.read_only && options.parameters.is_empty());
    }

    #[test]
    fn what_no_kernel_takes_is_refused() {
        let merge = |words: &str| MountOptions::default().merge(words);
        assert_eq!(merge(&"a,".repeat(65)), Err(OptionsError::TooMany));
        assert!(matches!(merge("a\0"), Err(OptionsError::BadOption { .. })));
        assert!(matches!(merge("=a"), Err(OptionsError::BadOption { .. })));
    }
}
