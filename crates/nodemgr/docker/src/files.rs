//! The files below a folder of a container, by way of its shell and its own tools: they run as the container's user, so what is
//! copied belongs to whom it should, and the engine need not pack up whole folders to tell what is in them.

mod listing;
mod pack;
mod scripts;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use muster_executor::files::{
    Change, Content, Digest, Entry, Files, Kind, RelPath, SmallFile, Tree,
};
use muster_executor::{
    Answer, BoxError, Chunk, Command, ExecutorError, Exit, FailureClass, Operation, Output, Running,
};

use self::listing::ListingError;
use self::scripts::{LINKED, LIST, MISSING, Program, folder_argument};
use crate::exec::Exec;

/// What a list may be long, in bytes.
const LONGEST_LIST: usize = 256 << 20;
/// What is kept of anything that should be short.
const SHORT: usize = 64 << 10;
/// What a program may be long that has its input for something else: the kernel takes no longer arguments.
const LONGEST_ARGUMENT: usize = 96 << 10;
/// How often a folder is listed that is changed meanwhile.
const LISTINGS: usize = 3;
/// What an archive adds to each file.
const ARCHIVE_OVERHEAD: usize = 8 << 10;

/// The files below one folder.
#[derive(Clone)]
pub(crate) struct ShellFiles {
    exec: Exec,
    folder: PathBuf,
}

impl fmt::Debug for ShellFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShellFiles").field(&self.folder).finish()
    }
}

/// What a call is about, for errors.
#[derive(Clone, Copy)]
struct About<'a> {
    files: &'a ShellFiles,
    operation: Operation,
    path: &'a RelPath,
}

impl About<'_> {
    fn error(self, class: FailureClass, source: impl Into<BoxError>) -> ExecutorError {
        let object = self.files.folder.join(self.path.as_path());
        ExecutorError::new(self.operation, object.display().to_string(), class, source)
    }

    /// What a program's end means, if it is no success.
    fn ended(self, exit: &Exit, words: &[u8]) -> Option<ExecutorError> {
        if exit.is_success() {
            return None;
        }
        let class = match exit {
            Exit::Code(LINKED) => FailureClass::Refused,
            _ => FailureClass::Io,
        };
        let words = String::from_utf8_lossy(words).trim().to_owned();
        Some(match exit {
            Exit::Code(MISSING) => self.error(class, "there is no such file or folder"),
            exit if words.is_empty() => self.error(class, format!("it ended with {exit}")),
            _ => self.error(class, words),
        })
    }
}

/// A program whose input is its text.
fn by_input() -> Command {
    Command::new("sh").arg("-s").input()
}

/// A program whose input is something else.
fn by_argument(program: Program) -> Command {
    let text = OsString::from_vec(program.into_text());
    Command::shell(text).input()
}

impl ShellFiles {
    pub(crate) fn new(exec: Exec, folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { exec, folder }
    }

    fn about<'a>(&'a self, operation: Operation, path: &'a RelPath) -> About<'a> {
        About {
            files: self,
            operation,
            path,
        }
    }

    /// Starts a program that needs no other input than its own text.
    async fn start(&self, program: Program) -> Result<Running, ExecutorError> {
        let mut running = self.exec.run(&by_input()).await?;
        if let Some(stdin) = running.stdin() {
            // A task of its own: what the program says is to be read meanwhile. It ends with the command.
            tokio::spawn(async move { stdin.write(program.into_text()).await });
        }
        Ok(running)
    }

    async fn run(&self, program: Program, limit: usize) -> Result<Output, ExecutorError> {
        self.start(program).await?.output(limit).await
    }

    async fn list_once(&self, about: About<'_>) -> Result<Option<Tree>, ListFailure> {
        let folder = OsString::from_vec(folder_argument(&self.folder));
        let command = Command::shell(LIST).arg("sh").arg(folder);
        let output = self.exec.run(&command).await?.output(LONGEST_LIST).await?;
        match output.exit {
            Exit::Code(MISSING) => return Ok(None),
            // Something has gone meanwhile.
            exit if !exit.is_success() && names_missing(&output.stderr) => {
                return Err(ListFailure::Listing(ListingError::Changed));
            }
            exit => {
                if let Some(error) = about.ended(&exit, &output.stderr) {
                    return Err(error.into());
                }
            }
        }
        if output.cut {
            let source = format!("its list is longer than {LONGEST_LIST} bytes");
            return Err(about.error(FailureClass::Io, source).into());
        }
        // Two million entries take a moment.
        let parsed = tokio::task::spawn_blocking(move || listing::tree(&output.stdout)).await;
        let tree = parsed.map_err(|error| about.error(FailureClass::Interrupted, error))?;
        Ok(Some(tree.map_err(ListFailure::Listing)?))
    }

    async fn list_all(&self) -> Result<Option<Tree>, ExecutorError> {
        let root = RelPath::root();
        let about = self.about(Operation::List, &root);
        let mut tries = 1;
        loop {
            match self.list_once(about).await {
                Ok(tree) => return Ok(tree),
                Err(ListFailure::Executor(error)) => return Err(*error),
                Err(ListFailure::Listing(ListingError::Changed)) if tries < LISTINGS => tries += 1,
                Err(ListFailure::Listing(error @ ListingError::Name(_))) => {
                    return Err(about.error(FailureClass::Refused, error));
                }
                Err(ListFailure::Listing(error)) => {
                    return Err(about.error(FailureClass::Io, error));
                }
            }
        }
    }

    async fn look_at(&self, path: &RelPath) -> Result<Option<Entry>, ExecutorError> {
        let about = self.about(Operation::List, path);
        let output = self.run(Program::look(&self.folder, path), SHORT).await?;
        if output.exit == Exit::Code(MISSING) {
            return Ok(None);
        }
        if let Some(error) = about.ended(&output.exit, &output.stderr) {
            return Err(error);
        }
        let mut lines = output.stdout.splitn(2, |&byte| byte == b'\n');
        let entry = listing::entry(lines.next().unwrap_or_default());
        let mut entry = entry.map_err(|error| about.error(FailureClass::Io, error))?;
        if let Kind::Link { target } = &mut entry.kind {
            *target = lines.next().unwrap_or_default().to_vec();
        }
        Ok(Some(entry))
    }

    async fn content(&self, path: &RelPath, offset: u64) -> Result<Content, ExecutorError> {
        let program = Program::read(&self.folder, path, offset);
        let reader = Reader {
            files: self.clone(),
            path: path.clone(),
            running: Some(self.start(program).await?),
            words: Vec::new(),
        };
        // What cannot be opened fails here, and not in the middle.
        let (first, reader) = match reader.next().await {
            Some((Ok(piece), reader)) => (Some(piece), Some(reader)),
            Some((Err(error), _)) => return Err(error),
            None => (None, None),
        };
        let rest = stream::unfold(reader, |reader| async move {
            let (piece, reader) = reader?.next().await?;
            let reader = piece.is_ok().then_some(reader);
            Some((piece, reader))
        });
        Ok(stream::iter(first.map(Ok)).chain(rest).boxed())
    }

    async fn put(
        &self,
        path: &RelPath,
        offset: u64,
        mut content: Content,
    ) -> Result<(), ExecutorError> {
        let about = self.about(Operation::Write, path);
        let command = by_argument(Program::write(&self.folder, path, offset));
        let mut running = self.exec.run(&command).await?;
        if let Some(stdin) = running.stdin() {
            while let Some(piece) = content.next().await {
                // Dropping the command on the way leaves what has been written, to go on from there.
                if stdin.write(piece?).await.is_err() {
                    break;
                }
            }
        }
        let output = running.output(SHORT).await?;
        about
            .ended(&output.exit, &output.stderr)
            .map_or(Ok(()), Err)
    }

    async fn make_changes(&self, changes: &[Change]) -> Result<(), ExecutorError> {
        let Some(first) = changes.first() else {
            return Ok(());
        };
        let about = self.about(Operation::Change, first.path());
        let output = self
            .run(Program::change(&self.folder, changes), SHORT)
            .await?;
        about
            .ended(&output.exit, &output.stderr)
            .map_or(Ok(()), Err)
    }

    async fn all_digests(
        &self,
        files: &[(RelPath, u64)],
    ) -> Result<Vec<Option<Digest>>, ExecutorError> {
        let Some((first, _)) = files.first() else {
            return Ok(Vec::new());
        };
        let about = self.about(Operation::Read, first);
        let limit = SHORT + files.len() * 128;
        let output = self
            .run(Program::digests(&self.folder, files), limit)
            .await?;
        if output.exit == Exit::Code(MISSING) {
            return Ok(vec![None; files.len()]);
        }
        if let Some(error) = about.ended(&output.exit, &output.stderr) {
            return Err(error);
        }
        let digests: Option<Vec<_>> = output
            .stdout
            .split(|&byte| byte == b'\n')
            .take(files.len())
            .map(digest)
            .collect();
        let whole = digests.filter(|digests| digests.len() == files.len());
        let wrong = || {
            about.error(
                FailureClass::Io,
                "the machine's `sha256sum` gave no sensible answer",
            )
        };
        whole.ok_or_else(wrong)
    }

    async fn put_small(&self, files: &[SmallFile]) -> Result<(), ExecutorError> {
        let mut waiting = vec![files];
        while let Some(files) = waiting.pop() {
            let Some(first) = files.first() else { continue };
            let about = self.about(Operation::Write, &first.path);
            let archive = pack::pack(files);
            let archive = archive.map_err(|error| about.error(FailureClass::Io, error))?;
            let paths: Vec<&RelPath> = files.iter().map(|file| &file.path).collect();
            let program = Program::unpack(&self.folder, &paths, archive.len());
            if program.len() > LONGEST_ARGUMENT && files.len() > 1 {
                let (left, right) = files.split_at(files.len() / 2);
                waiting.extend([right, left]);
                continue;
            }
            let mut running = self.exec.run(&by_argument(program)).await?;
            if let Some(stdin) = running.stdin() {
                // If it reads no more, its end says why.
                let _ = stdin.write(archive).await;
            }
            let output = running.output(SHORT).await?;
            if let Some(error) = about.ended(&output.exit, &output.stderr) {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn get_small(
        &self,
        paths: &[RelPath],
        limit: usize,
    ) -> Result<Vec<Bytes>, ExecutorError> {
        let Some(first) = paths.first() else {
            return Ok(Vec::new());
        };
        let about = self.about(Operation::Read, first);
        let most = paths
            .len()
            .saturating_mul(limit.saturating_add(ARCHIVE_OVERHEAD));
        let output = self.run(Program::pack(&self.folder, paths), most).await?;
        if let Some(error) = about.ended(&output.exit, &output.stderr) {
            return Err(error);
        }
        let contents = pack::unpack(&output.stdout, paths, limit);
        contents.map_err(|error| about.error(FailureClass::Io, error))
    }
}

/// What can go wrong with a list.
enum ListFailure {
    Executor(Box<ExecutorError>),
    Listing(ListingError),
}

impl From<ExecutorError> for ListFailure {
    fn from(error: ExecutorError) -> Self {
        Self::Executor(Box::new(error))
    }
}

/// Whether a tool complains that a file is not there (any more).
fn names_missing(words: &[u8]) -> bool {
    String::from_utf8_lossy(words).contains("No such file")
}

/// A line of `sha256sum`, or a dash.
fn digest(line: &[u8]) -> Option<Option<Digest>> {
    if line == b"-" {
        return Some(None);
    }
    let mut digest = [0; 32];
    let digits = line.get(..64)?;
    hex::decode_to_slice(digits, &mut digest).ok()?;
    Some(Some(digest))
}

/// Reads a file to its end.
struct Reader {
    files: ShellFiles,
    path: RelPath,
    running: Option<Running>,
    /// What the program complained about.
    words: Vec<u8>,
}

impl Reader {
    async fn next(mut self) -> Option<(Result<Bytes, ExecutorError>, Self)> {
        loop {
            match self.running.as_mut()?.next().await {
                Some(Chunk::Stdout(piece)) => return Some((Ok(piece), self)),
                Some(Chunk::Stderr(words)) => {
                    let room = SHORT.saturating_sub(self.words.len()).min(words.len());
                    self.words.extend_from_slice(&words[..room]);
                }
                None => {
                    let about = self.files.about(Operation::Read, &self.path);
                    let error = match self.running.take()?.wait().await {
                        Ok(exit) => about.ended(&exit, &self.words)?,
                        Err(error) => error,
                    };
                    return Some((Err(error), self));
                }
            }
        }
    }
}

impl Files for ShellFiles {
    fn list(&self) -> Answer<'_, Option<Tree>> {
        self.list_all().boxed()
    }

    fn look<'a>(&'a self, path: &'a RelPath) -> Answer<'a, Option<Entry>> {
        self.look_at(path).boxed()
    }

    fn read<'a>(&'a self, path: &'a RelPath, offset: u64) -> Answer<'a, Content> {
        self.content(path, offset).boxed()
    }

    fn write<'a>(&'a self, path: &'a RelPath, offset: u64, content: Content) -> Answer<'a, ()> {
        self.put(path, offset, content).boxed()
    }

    fn change<'a>(&'a self, changes: &'a [Change]) -> Answer<'a, ()> {
        self.make_changes(changes).boxed()
    }

    fn digests<'a>(&'a self, files: &'a [(RelPath, u64)]) -> Answer<'a, Vec<Option<Digest>>> {
        self.all_digests(files).boxed()
    }

    fn write_small<'a>(&'a self, files: &'a [SmallFile]) -> Answer<'a, ()> {
        self.put_small(files).boxed()
    }

    fn read_small<'a>(&'a self, paths: &'a [RelPath], limit: usize) -> Answer<'a, Vec<Bytes>> {
        self.get_small(paths, limit).boxed()
    }
}
