//! The small programs that a container's shell runs for us: text, made without asking anybody.
//!
//! They use what POSIX names, and of `find`, `stat`, `tar`, `touch` and `sha256sum` what both GNU's and busybox's have.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use muster_executor::files::{Change, RelPath};
use muster_executor::script::quote;

/// By which numbers they end, apart from success.
pub(super) const MISSING: i32 = 103;
pub(super) const LINKED: i32 = 104;

/// Everything below `$1`.
pub(super) const LIST: &str = r#"[ -d "$1" ] || exit 103
cd -- "$1" || exit 1
find . -print0 || exit 1
printf '\0'
find . -exec stat -c '%f %s %Y' {} + || exit 1
find . -type l -exec sh -c 'for link do readlink -n -- "$link" || exit 1; printf "\0"; done' sh {} +"#;

/// A program under construction.
#[derive(Debug)]
pub(super) struct Program {
    text: Vec<u8>,
    /// Folders on the way that were looked at.
    checked: BTreeSet<RelPath>,
}

/// A path as a word for the shell. It begins with a dot, so that it is no option whatever it is called.
fn word(path: &RelPath) -> Vec<u8> {
    match path.is_root() {
        true => b".".to_vec(),
        false => quote(&[b"./", path.as_bytes()].concat()),
    }
}

/// A folder as the machine is told it.
pub(super) fn folder_argument(folder: &Path) -> Vec<u8> {
    match folder.is_absolute() {
        true => folder.as_os_str().as_bytes().to_vec(),
        false => [b"./", folder.as_os_str().as_bytes()].concat(),
    }
}

impl Program {
    /// Begins in a folder.
    pub(super) fn new(folder: &Path) -> Self {
        let mut program = Self::outside();
        program.enter(folder);
        program
    }

    fn outside() -> Self {
        Self {
            text: b"linked() { echo \"$1 is a link, or no file\" >&2; exit 104; }\n".to_vec(),
            checked: BTreeSet::new(),
        }
    }

    fn enter(&mut self, folder: &Path) {
        let folder = quote(&folder_argument(folder));
        self.line(&[b"[ -d ", &folder, b" ] || exit 103"]);
        self.line(&[b"cd -- ", &folder, b" || exit 1"]);
    }

    fn line(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.text.extend_from_slice(part);
        }
        self.text.push(b'\n');
    }

    /// No folder on the way to a path may be a link.
    pub(super) fn approach(&mut self, path: &RelPath) {
        let mut above = Vec::new();
        let mut rest = path.split().map(|(parent, _)| parent);
        while let Some(parent) = rest.filter(|parent| !parent.is_root()) {
            rest = parent.split().map(|(above, _)| above);
            above.push(parent);
        }
        for parent in above.into_iter().rev() {
            if self.checked.insert(parent.clone()) {
                let parent = word(&parent);
                self.line(&[b"[ ! -L ", &parent, b" ] || linked ", &parent]);
            }
        }
    }

    /// What is there must be a file, if anything is.
    fn file(&mut self, path: &RelPath) {
        let path = word(path);
        self.line(&[
            b"if [ -L ",
            &path,
            b" ] || { [ -e ",
            &path,
            b" ] && [ ! -f ",
            &path,
            b" ]; }; then linked ",
            &path,
            b"; fi",
        ]);
    }

    /// What is at a path, in one line, and where it leads if it is a link.
    pub(super) fn look(folder: &Path, path: &RelPath) -> Self {
        let mut program = Self::outside();
        if path.is_root() {
            // Links in its own path were the caller's wish.
            let folder = quote(&folder_argument(folder));
            program.line(&[b"[ -e ", &folder, b" ] || exit 103"]);
            program.line(&[b"exec stat -L -c '%f %s %Y' -- ", &folder]);
            return program;
        }
        program.enter(folder);
        program.approach(path);
        let path = word(path);
        program.line(&[b"[ -e ", &path, b" ] || [ -L ", &path, b" ] || exit 103"]);
        program.line(&[b"stat -c '%f %s %Y' ", &path, b" || exit 1"]);
        program.line(&[b"if [ -L ", &path, b" ]; then readlink -n ", &path, b"; fi"]);
        program
    }

    /// What a file holds from an offset on.
    pub(super) fn read(folder: &Path, path: &RelPath, offset: u64) -> Self {
        let mut program = Self::new(folder);
        program.approach(path);
        program.file(path);
        let path = word(path);
        match offset {
            0 => program.line(&[b"exec cat ", &path]),
            _ => {
                let from = offset.saturating_add(1).to_string();
                program.line(&[b"exec tail -c +", from.as_bytes(), b" ", &path]);
            }
        }
        program
    }

    /// Writes input to a file, from an offset on.
    pub(super) fn write(folder: &Path, path: &RelPath, offset: u64) -> Self {
        let mut program = Self::new(folder);
        program.approach(path);
        program.file(path);
        let path = word(path);
        program.line(&[b"umask 077"]);
        match offset {
            0 => program.line(&[b": > ", &path, b" || exit 1"]),
            _ => {
                let offset = offset.to_string();
                let offset = offset.as_bytes();
                program.line(&[
                    b"[ \"$(wc -c < ",
                    &path,
                    b")\" -ge ",
                    offset,
                    b" ] || { echo 'it is shorter than it was' >&2; exit 1; }",
                ]);
                // Nothing is copied; where it would begin the file ends.
                program.line(&[
                    b"dd if=/dev/null of=",
                    &path,
                    b" bs=1 seek=",
                    offset,
                    b" 2>/dev/null || exit 1",
                ]);
            }
        }
        program.line(&[b"chmod 600 ", &path, b" || exit 1"]);
        program.line(&[b"exec cat >> ", &path]);
        program
    }

    /// Carries changes out, in this order.
    pub(super) fn change(folder: &Path, changes: &[Change]) -> Self {
        let mut program = Self::outside();
        if let Some(Change::Folder(first)) = changes.first()
            && first.is_root()
        {
            let folder = quote(&folder_argument(folder));
            program.line(&[b"mkdir -p -- ", &folder, b" || exit 1"]);
        }
        program.enter(folder);
        for change in changes {
            program.one_change(change);
        }
        program
    }

    fn one_change(&mut self, change: &Change) {
        self.approach(change.path());
        let path = word(change.path());
        match change {
            Change::Folder(_) => {
                self.line(&[b"[ ! -L ", &path, b" ] || linked ", &path]);
                self.line(&[
                    b"if [ -d ",
                    &path,
                    b" ]; then chmod u+rwx ",
                    &path,
                    b"; else mkdir -m 700 ",
                    &path,
                    b"; fi || exit 1",
                ]);
            }
            Change::Link { target, .. } => {
                let target = quote(target);
                self.line(&[
                    b"rm -f ",
                    &path,
                    b" && ln -s -- ",
                    &target,
                    b" ",
                    &path,
                    b" || exit 1",
                ]);
            }
            Change::Remove { folder: false, .. } => {
                self.line(&[b"rm -f ", &path, b" || exit 1"]);
            }
            Change::Remove { folder: true, .. } => {
                self.line(&[b"[ ! -e ", &path, b" ] || rmdir ", &path, b" || exit 1"]);
            }
            Change::Rename { from, .. } => {
                self.approach(from);
                let from = word(from);
                // A folder in its place, or a link to one, would take it in.
                self.line(&[
                    b"if [ -L ",
                    &path,
                    b" ]; then rm -f ",
                    &path,
                    b" || exit 1; fi",
                ]);
                self.line(&[b"[ ! -d ", &path, b" ] || linked ", &path]);
                self.line(&[b"mv -f ", &from, b" ", &path, b" || exit 1"]);
            }
            Change::Settle { mode, mtime, .. } => {
                let mode = format!("{:o}", mode & 0o777);
                let mtime = mtime.to_string();
                self.line(&[b"[ ! -L ", &path, b" ] || linked ", &path]);
                self.line(&[
                    b"chmod ",
                    mode.as_bytes(),
                    b" ",
                    &path,
                    b" && touch -d @",
                    mtime.as_bytes(),
                    b" ",
                    &path,
                    b" || exit 1",
                ]);
            }
        }
    }

    /// A line for each file: the digest of its first bytes, or a dash.
    pub(super) fn digests(folder: &Path, files: &[(RelPath, u64)]) -> Self {
        let mut program = Self::new(folder);
        for (path, length) in files {
            program.approach(path);
            let path = word(path);
            let length = length.to_string();
            let length = length.as_bytes();
            program.line(&[
                b"if [ -f ",
                &path,
                b" ] && [ ! -L ",
                &path,
                b" ] && [ \"$(wc -c < ",
                &path,
                b")\" -ge ",
                length,
                b" ]; then ",
                b"head -c ",
                length,
                b" ",
                &path,
                b" | sha256sum || exit 1; else echo -; fi",
            ]);
        }
        program
    }

    /// Takes an archive of this length apart that comes as input: only when all of it is there.
    pub(super) fn unpack(folder: &Path, paths: &[&RelPath], length: usize) -> Self {
        let mut program = Self::new(folder);
        for path in paths {
            program.approach(path);
        }
        let length = length.to_string();
        program.line(&[b"t=$(mktemp) || exit 1"]);
        program.line(&[b"trap 'rm -f \"$t\"' EXIT"]);
        program.line(&[b"cat > \"$t\" || exit 1"]);
        program.line(&[
            b"[ \"$(wc -c < \"$t\")\" -eq ",
            length.as_bytes(),
            b" ] || { echo 'not everything came' >&2; exit 1; }",
        ]);
        program.line(&[b"tar -xpof \"$t\""]);
        program
    }

    /// An archive of these files.
    pub(super) fn pack(folder: &Path, paths: &[RelPath]) -> Self {
        let mut program = Self::new(folder);
        let mut words = Vec::new();
        for path in paths {
            program.approach(path);
            program.file(path);
            words.push(b' ');
            words.extend_from_slice(&word(path));
        }
        program.line(&[b"exec tar -cf -", &words]);
        program
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn into_text(self) -> Vec<u8> {
        self.text
    }
}

#[cfg(test)]
mod tests;
