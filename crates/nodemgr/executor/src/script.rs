//! The small shell program by which a command gets its folder, variables, user and process group, where the transport has no
//! way of its own: SSH servers pass few variables on, know no folder, and kill nobody.
//!
//! A transport starts [`LAUNCHER`] in the machine's POSIX shell and writes [`Script::line`] as the first line of its input:
//! so neither variables nor arguments appear in the machine's list of processes, and they may be as long as they like. The
//! program answers with one line on standard output, which [`Heading`] finds: the process (and group) that the command runs as,
//! or why it does not. Everything after that line is the command's own. Where input is a terminal, which would echo it,
//! [`Script::words`] is started instead.
//!
//! The process that answers *becomes* the command, so the exit code or signal that the transport sees is the command's own.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};

use crate::command::Command;
use crate::error::{ExecutorError, FailureClass, Operation};

/// What a transport hands to the machine's login shell, whichever that is.
pub const LAUNCHER: &str = r#"exec sh -c 'IFS= read -r line && eval "$line"'"#;

/// The program that reads the line, for transports that start a shell themselves.
pub const READER: &str = r#"IFS= read -r line && eval "$line""#;

/// How much longer than its timeout a command can live. An executor kills it at its timeout; but its connection may be cut, or
/// the executor itself be gone, and then the machine does it, this much later.
pub const GRACE: Duration = Duration::from_secs(10);

/// Kills the command's group when `$left` seconds are over. It is in that group, so that the group's number belongs to nobody
/// else, and dies with it; it ends by itself soon after the command. Its own parent ends at once: the command gets no child that
/// it does not know. Where the list of processes hides those of others, only a refusal tells that the command is still there.
const WATCH: &str = r#"trap '' HUP INT QUIT TERM
LC_ALL=C
export LC_ALL
while [ "$left" -gt 0 ]; do
  sleep 1 || exit
  if [ -d /proc/1 ]; then [ -d "/proc/$$" ] || exit
  else case $(kill -s 0 "$$" 2>&1) in '' | *permitted*) ;; *) exit ;; esac; fi
  left=$((left - 1))
done
group=$$"#;

/// Looks whether the group `$group` has members of others, as those are that `sudo` makes: killing a group succeeds when one of
/// its members may be killed, and says nothing of the rest. Whoever sees none of the others' processes believes that there are.
const OTHERS: &str = r#"others=
if [ "$(id -u)" = 0 ]; then :
elif [ ! -r /proc/1/stat ]; then others=hidden
else
  for at in /proc/[0-9]*; do
    IFS= read -r stat 2>/dev/null <"$at/stat" || continue
    set -- ${stat##*) }
    [ "$3" != "$group" ] || [ -O "$at" ] || others=seen
  done
fi"#;

/// Kills the group as somebody who may: root, or at least `$user`, as whom the command was started.
const SUDO: &str = r#"[ -n "$others" ] && for as in root $user; do
  sudo -n -u "$as" sh -c "kill -s KILL -- -$group" && break
done"#;

/// How much a machine's own start-up files may print before the command begins.
const MOST_NOISE: usize = 64 * 1024;

/// Becomes another user without a process in between, so that the group stays one. `$user` is whom.
const BECOME: &str = r#"if [ "$(id -un)" = "$user" ]; then :
elif ! id -u "$user" >/dev/null 2>&1; then echo "$tag user"; exit 126
elif [ "$(id -u)" = 0 ]; then
  if setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- true 2>/dev/null; then
    set -- setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"
  elif chroot --userspec="$user:$(id -g "$user")" / true 2>/dev/null; then
    set -- chroot --userspec="$user:$(id -g "$user")" --skip-chdir / "$@"
  else echo "$tag become"; exit 126; fi
elif sudo -n -u "$user" sh -c : </dev/null 2>/dev/null; then set -- sudo -n -u "$user" -- "$@"
else echo "$tag become"; exit 126; fi"#;

/// Enters the folder, looks for the program, answers, and becomes the command. Its words are the process to answer with, the
/// folder (empty: none), the program, and then the command. It runs as the command's user: what one user may enter, see and
/// execute says nothing about another. Shells differ in what `command` says of a path that nobody can execute.
const BEGIN: &str = r#"if [ -n "$2" ] && ! CDPATH= cd -- "$2" 2>/dev/null; then echo "$tag folder"; exit 126; fi
case $3 in
*/*)
  if [ ! -e "$3" ]; then echo "$tag program"; exit 127; fi
  if [ -d "$3" ] || [ ! -x "$3" ]; then echo "$tag executable"; exit 126; fi ;;
*) command -v -- "$3" >/dev/null 2>&1 || { echo "$tag program"; exit 127; } ;;
esac
echo "$tag $1"
shift 3
exec "$@""#;

/// Enters the folder before the user is another, if that is possible: it may be in one that is closed to him.
const ENTER: &str =
    r#"if [ -n "$2" ] && CDPATH= cd -- "$2" 2>/dev/null; then shift 2; set -- "$$" '' "$@"; fi"#;

/// A command as a program for the shell.
#[derive(Debug, Clone)]
pub struct Script {
    tag: String,
    text: Vec<u8>,
}

/// Quotes bytes for a POSIX shell.
#[must_use]
pub fn quote(bytes: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(bytes.len() + 2);
    quoted.push(b'\'');
    for &byte in bytes {
        match byte {
            b'\'' => quoted.extend_from_slice(br"'\''"),
            other => quoted.push(other),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// A word that no command prints by accident.
fn new_tag() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("muster-{:016x}-{count}", rand::random::<u64>())
}

impl Script {
    /// A command's program.
    ///
    /// # Errors
    /// When the command holds something that cannot be passed to any program.
    pub fn new(command: &Command) -> Result<Self, ExecutorError> {
        Self::with_grace(command, GRACE)
    }

    fn with_grace(command: &Command, grace: Duration) -> Result<Self, ExecutorError> {
        if let Some(flaw) = command.flaw() {
            let class = FailureClass::Refused;
            return Err(ExecutorError::new(
                Operation::Run,
                command.object(),
                class,
                flaw,
            ));
        }
        let tag = new_tag();
        let mut text = format!("tag={tag}\n");
        if let Some(timeout) = command.timeout {
            // Shells count as far as this at least.
            let longest = u64::from(u32::MAX / 2);
            let seconds = (timeout.saturating_add(grace)).as_millis().div_ceil(1000);
            let left = u64::try_from(seconds).unwrap_or(longest).min(longest);
            let user = command.user.as_deref().unwrap_or_default();
            // It would not survive its own kill, so that one comes last.
            text += &format!(
                "( ( left={left} user={user}\n{WATCH}\n{OTHERS}\n{SUDO}\nkill -s KILL -- \"-$$\"\n) & ) </dev/null >/dev/null 2>&1\n"
            );
        }
        text += "set -- \"$$\" ";
        let mut text = text.into_bytes();
        // A folder that starts with a dash is no option, and `-` alone is not the last one.
        let folder = match &command.folder {
            Some(folder) if folder.is_absolute() => folder.clone(),
            Some(folder) => std::path::Path::new(".").join(folder),
            None => std::path::PathBuf::new(),
        };
        push_words(&mut text, [folder.as_os_str(), &command.program]);
        if !command.env.is_empty() {
            text.extend_from_slice(b"env ");
            for (name, value) in &command.env {
                let pair = [name.as_bytes(), b"=", value.as_bytes()].concat();
                push_words(&mut text, [OsStr::from_bytes(&pair)]);
            }
        }
        let words = std::iter::once(&command.program).chain(&command.args);
        push_words(&mut text, words.map(|it| it.as_os_str()));
        text.push(b'\n');
        match &command.user {
            None => text.extend_from_slice(BEGIN.as_bytes()),
            Some(user) => {
                // The words stay words, so that none of them is read by a shell once more.
                let begin = quote(format!("tag=$0\n{BEGIN}").as_bytes());
                text.extend_from_slice(format!("{ENTER}\nset -- sh -c ").as_bytes());
                text.extend_from_slice(&begin);
                text.extend_from_slice(b" \"$tag\" \"$@\"\n");
                text.extend_from_slice(format!("user={user}\n{BECOME}\nexec \"$@\"").as_bytes());
            }
        }
        Ok(Self { tag, text })
    }

    /// What [`LAUNCHER`] reads: one line, whatever the command holds.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        let mut line = b"eval \"$(printf '%b' ".to_vec();
        // An encoding that has no newline, and nothing that a shell looks at.
        let mut encoded = Vec::with_capacity(self.text.len());
        for &byte in &self.text {
            match byte {
                b'\n' => encoded.extend_from_slice(br"\n"),
                b'\\' => encoded.extend_from_slice(br"\\"),
                other => encoded.push(other),
            }
        }
        line.extend_from_slice(&quote(&encoded));
        line.extend_from_slice(b")\"\n");
        line
    }

    /// The program as words to start it with, for terminals.
    #[must_use]
    pub fn words(&self) -> [Vec<u8>; 3] {
        [b"sh".to_vec(), b"-c".to_vec(), self.text.clone()]
    }

    /// Finds the line by which it answers.
    #[must_use]
    pub fn heading(&self) -> Heading {
        Heading {
            tag: format!("{} ", self.tag).into_bytes(),
            seen: BytesMut::new(),
        }
    }
}

fn push_words<'a>(text: &mut Vec<u8>, words: impl IntoIterator<Item = &'a OsStr>) {
    for word in words {
        text.extend_from_slice(&quote(word.as_bytes()));
        text.push(b' ');
    }
}

/// What a program answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// The command runs, as this process, which leads a group of the same number.
    Process(i32),
    /// It does not run.
    Not(NotStarted),
}

/// Why a command does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotStarted {
    /// Its folder is not there.
    #[error("its folder does not exist or may not be entered")]
    Folder,
    /// Its program is not there.
    #[error("there is no such program in the machine")]
    Program,
    /// Its program is there, and is none.
    #[error("it is a folder, or may not be executed")]
    Executable,
    /// Its user is not there.
    #[error("there is no such user in the machine")]
    User,
    /// Nobody may become its user.
    #[error(
        "the machine offers no way to become that user (setpriv, chroot or sudo without a password)"
    )]
    Become,
    /// The answer makes no sense.
    #[error("the machine's shell gave no sensible answer")]
    Answer,
}

impl NotStarted {
    /// What that means for whoever asked.
    #[must_use]
    pub const fn class(self) -> FailureClass {
        match self {
            Self::Program => FailureClass::NoProgram,
            Self::Executable => FailureClass::NotExecutable,
            Self::Folder | Self::User | Self::Become | Self::Answer => FailureClass::NotStarted,
        }
    }
}

/// Looks for the answer in a command's standard output.
#[derive(Debug, Clone)]
pub struct Heading {
    tag: Vec<u8>,
    seen: BytesMut,
}

impl Heading {
    /// Takes the next bytes; answers once the line is there, with the output that follows it.
    pub fn take(&mut self, bytes: &[u8]) -> Option<(Started, Bytes)> {
        self.seen.extend_from_slice(bytes);
        let find = |haystack: &[u8], needle: &[u8]| {
            haystack
                .windows(needle.len())
                .position(|window| window == needle)
        };
        let Some(at) = find(&self.seen, &self.tag) else {
            let noisy = self.seen.len() > MOST_NOISE;
            return noisy.then(|| (Started::Not(NotStarted::Answer), Bytes::new()));
        };
        let rest = &self.seen[at + self.tag.len()..];
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        // A terminal ends lines in its own way.
        let answer = rest[..end].trim_ascii_end();
        let started = match answer {
            b"folder" => Started::Not(NotStarted::Folder),
            b"program" => Started::Not(NotStarted::Program),
            b"executable" => Started::Not(NotStarted::Executable),
            b"user" => Started::Not(NotStarted::User),
            b"become" => Started::Not(NotStarted::Become),
            number => {
                let number = std::str::from_utf8(number).ok();
                let number = number.and_then(|it| it.parse().ok()).filter(|&it| it > 1);
                number.map_or(Started::Not(NotStarted::Answer), Started::Process)
            }
        };
        let length = at + self.tag.len() + end + 1;
        self.seen.advance(length);
        Some((started, std::mem::take(&mut self.seen).freeze()))
    }
}

/// A command that kills a process and its group, whoever they belong to, if it was started for this user.
#[must_use]
pub fn kill(process: i32, user: Option<&str>) -> Command {
    let user = user.unwrap_or_default();
    // What may be killed at once does not wait for `sudo`.
    Command::shell(format!(
        "exec 2>/dev/null\ngroup={process} user={user}\n{OTHERS}\nkill -s KILL -- \"-$group\"\nkilled=$?\n\
         {SUDO} && killed=0\n[ \"$killed\" = 0 ] || kill -s KILL \"$group\""
    ))
}

#[cfg(test)]
mod tests;
