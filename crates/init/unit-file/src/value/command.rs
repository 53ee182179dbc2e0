//! Command lines: `ExecStart=` and the other places that run programs.

use super::words::next_escaped_word;
use super::{AssignError, Setting, ValueContext, ValueError, list::StrList};

/// How a command is run, from the characters before its path.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CommandFlags(u8);

impl CommandFlags {
    /// `-`: a failure does not count.
    pub const IGNORE_FAILURE: Self = Self(1);
    /// `+`: run with full privileges, outside of the sandbox.
    pub const FULLY_PRIVILEGED: Self = Self(2);
    /// `!`: users and capabilities are left alone.
    pub const NO_SETUID: Self = Self(4);
    /// `!!`: like `!`, where the kernel lacks ambient capabilities.
    pub const AMBIENT: Self = Self(8);
    /// `:`: variables are not expanded.
    pub const NO_ENV_EXPAND: Self = Self(16);

    /// Whether all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The names that `systemctl show` prints.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (Self::IGNORE_FAILURE, "ignore-failure"),
            (Self::FULLY_PRIVILEGED, "privileged"),
            (Self::NO_SETUID, "no-setuid"),
            (Self::AMBIENT, "ambient"),
            (Self::NO_ENV_EXPAND, "no-env-expand"),
        ]
        .into_iter()
        .filter(move |(flag, _)| self.contains(*flag))
        .map(|(_, name)| name)
    }
}

impl std::fmt::Debug for CommandFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// One program to run. Specifiers are expanded; `$VAR` and `${VAR}` are left for the moment it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program: an absolute path, or a name to look up in the search path.
    pub path: Box<str>,
    /// The arguments, the zeroth included.
    pub argv: StrList,
    /// How it is run.
    pub flags: CommandFlags,
}

/// Programs to run one after the other.
pub type Commands = Vec<Command>;

impl Setting for Commands {
    const KIND: &'static str = "command lines";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        let mut rest = text.trim_start_matches(is_blank);
        if rest.is_empty() {
            self.clear();
            return Ok(());
        }
        // One line may hold several commands; either all of them count or none.
        let mut added = Vec::new();
        loop {
            let (command, after) = parse_one(rest, context)?;
            added.extend(command);
            match after {
                Some(after) => rest = after,
                None => break,
            }
        }
        self.append(&mut added);
        Ok(())
    }
}

/// Reads one command and gives what follows its `;`, if there is one.
fn parse_one<'t>(
    text: &'t str,
    context: &mut ValueContext<'_>,
) -> Result<(Option<Command>, Option<&'t str>), AssignError> {
    let first = next_escaped_word(text, context).map_err(AssignError::Fatal)?;
    let Some((first, mut rest)) = first else {
        return Ok((None, None));
    };
    let (flags, own_argv0, path) = strip_flags(&first);
    let ignore = flags.contains(CommandFlags::IGNORE_FAILURE);
    let failed = |error| {
        if ignore {
            AssignError::Ignored(error)
        } else {
            AssignError::Fatal(error)
        }
    };

    let path = context.expand(path).map_err(failed)?;
    check_program(&path).map_err(failed)?;
    let mut argv = StrList::default();
    if !own_argv0 {
        argv.push(&path);
    }
    let mut after = None;
    loop {
        rest = rest.trim_start_matches(is_blank);
        if rest.is_empty() {
            break;
        }
        if let Some(next) = strip_token(rest, ";") {
            after = Some(next.trim_start_matches(is_blank));
            break;
        }
        if let Some(next) = strip_token(rest, "\\;") {
            argv.push(";");
            rest = next;
            continue;
        }
        match next_escaped_word(rest, context).map_err(failed)? {
            Some((word, next)) => {
                argv.push(&context.expand(&word).map_err(failed)?);
                rest = next;
            }
            None => break,
        }
    }
    if argv.first().is_none_or(str::is_empty) {
        return Err(failed(ValueError::Empty {
            expected: "a program or a zeroth argument",
        }));
    }
    argv.shrink();
    let command = Command {
        path: super::path::simplify(&path).into(),
        argv,
        flags,
    };
    Ok((Some(command), after.filter(|after| !after.is_empty())))
}

/// Each flag counts once and only where it makes sense; what follows is the path.
fn strip_flags(word: &str) -> (CommandFlags, bool, &str) {
    use CommandFlags as Flags;
    let privileges = Flags::FULLY_PRIVILEGED
        .with(Flags::NO_SETUID)
        .with(Flags::AMBIENT);
    let mut flags = Flags::default();
    let mut own_argv0 = false;
    let mut rest = word;
    loop {
        match rest.as_bytes().first() {
            Some(b'-') if !flags.contains(Flags::IGNORE_FAILURE) => {
                flags = flags.with(Flags::IGNORE_FAILURE);
            }
            Some(b'@') if !own_argv0 => own_argv0 = true,
            Some(b':') if !flags.contains(Flags::NO_ENV_EXPAND) => {
                flags = flags.with(Flags::NO_ENV_EXPAND);
            }
            Some(b'+') if !flags.intersects(privileges) => {
                flags = flags.with(Flags::FULLY_PRIVILEGED);
            }
            Some(b'!') if !flags.intersects(privileges) => flags = flags.with(Flags::NO_SETUID),
            Some(b'!') if flags.contains(Flags::NO_SETUID) => {
                flags = flags.without(Flags::NO_SETUID).with(Flags::AMBIENT);
            }
            _ => return (flags, own_argv0, rest),
        }
        rest = &rest[1..];
    }
}

fn check_program(path: &str) -> Result<(), ValueError> {
    if path.is_empty() {
        return Err(ValueError::Empty {
            expected: "the path of a program",
        });
    }
    if path
        .chars()
        .any(|c| c.is_control() || matches!(c, '"' | '\'' | '\\'))
    {
        return Err(ValueError::invalid(
            path,
            "a path without special characters",
        ));
    }
    if path.ends_with('/') {
        return Err(ValueError::invalid(path, "a program, it names a directory"));
    }
    let bare_name = !path.contains('/') && !matches!(path, "." | "..") && path.len() <= 255;
    if path.starts_with('/') || bare_name {
        Ok(())
    } else {
        Err(ValueError::invalid(
            path,
            "an absolute path or the name of a program",
        ))
    }
}

/// A token that stands alone: followed by a blank or the end.
fn strip_token<'t>(text: &'t str, token: &str) -> Option<&'t str> {
    text.strip_prefix(token)
        .filter(|rest| rest.is_empty() || rest.starts_with(is_blank))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};
    use proptest::prelude::*;

    fn argv(texts: &[&str]) -> Vec<Vec<String>> {
        let commands: Commands = read(texts);
        commands
            .iter()
            .map(|c| c.argv.iter().map(str::to_owned).collect())
            .collect()
    }

    #[test]
    fn arguments_are_words() {
        assert_eq!(
            argv(&["/bin/echo one 'two three' \"f%i\" \\x41 ${HOME} $A"]),
            [["/bin/echo", "one", "two three", "fc", "A", "${HOME}", "$A"]]
        );
    }

    #[test]
    fn semicolons_separate_commands() {
        assert_eq!(
            argv(&["/bin/a x ; /bin/b y; z"]),
            [vec!["/bin/a", "x"], vec!["/bin/b", "y;", "z"]]
        );
        assert_eq!(argv(&["/bin/a \\; ';' x;"]), [["/bin/a", ";", ";", "x;"]]);
        assert_eq!(argv(&["/bin/a ;"]), [["/bin/a"]]);
        assert_eq!(argv(&["/bin/a", "/bin/b"]).len(), 2);
        assert!(argv(&["/bin/a", ""]).is_empty());
    }

    #[test]
    fn flags_stand_before_the_path() {
        let one = |text: &str| read::<Commands>(&[text]).remove(0);
        let command = one("-@/bin/sh -sh -c x");
        assert_eq!(command.flags, CommandFlags::IGNORE_FAILURE);
        assert_eq!(
            (&*command.path, command.argv.first()),
            ("/bin/sh", Some("-sh"))
        );
        assert_eq!(one("+/a").flags, CommandFlags::FULLY_PRIVILEGED);
        assert_eq!(one("!/a").flags, CommandFlags::NO_SETUID);
        assert_eq!(one("!!/a").flags, CommandFlags::AMBIENT);
        assert_eq!(
            one(":-/a").flags.names().collect::<Vec<_>>(),
            ["ignore-failure", "no-env-expand"]
        );
        assert_eq!(one("sh -c x").path, "sh".into());
        assert_eq!(&*one("//usr/./bin/a").path, "/usr/bin/a");
        assert_eq!(one("//usr/./bin/a").argv.first(), Some("//usr/./bin/a"));
    }

    #[test]
    fn a_bad_command_is_fatal_unless_failure_is_ignored() {
        for text in [
            "a/b",
            "/bin/",
            "/bin/a 'x",
            "@",
            "@/bin/sh",
            "/a\"b\\\"",
            "++/a",
            ".",
        ] {
            let problems = assign(&mut Commands::default(), &[text]);
            assert!(
                problems.last().unwrap().starts_with("fatal"),
                "{text}: {problems:?}"
            );
        }
        assert!(!assign(&mut Commands::default(), &["-a/b"])[0].starts_with("fatal"));
    }

    #[test]
    fn unknown_escapes_are_kept() {
        let mut commands = Commands::default();
        assert_eq!(assign(&mut commands, &["/bin/grep '\\.x' a"]).len(), 1);
        assert_eq!(
            commands[0].argv.iter().collect::<Vec<_>>(),
            ["/bin/grep", "\\.x", "a"]
        );
    }

    #[test]
    fn time_grows_with_the_length_not_its_square() {
        let text = "/bin/a b ; ".repeat(90_000);
        let started = std::time::Instant::now();
        assert_eq!(argv(&[&text]).len(), 90_000);
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_without_panic(text in "[-@:+!/a ;\\\\'\"%x$]{0,40}") {
            assign(&mut Commands::default(), &[&text]);
        }
    }
}
