//! The ready-made test: run a program, cut the power in many places, check each outcome.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::ack::AckSource;
use super::child::OwnedChild;
use super::disk::{DiskError, LoggedDisk};
use super::log::{Unflushed, WriteLog};

/// Bound on acknowledgements of one run.
const MAX_ACKS: usize = 100_000;

/// What a check says when something acknowledged is missing or the content makes no sense.
pub type CheckFailure = Box<dyn Error + Send + Sync>;

/// Something that the program promised to be durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The program's own words.
    pub text: String,
    /// The log's position when it was said: a cut there or later must not lose it.
    pub position: usize,
}

/// What a [`CutTest`] that found no loss has done.
#[derive(Clone, Debug)]
pub struct CutReport {
    /// Power cuts tried.
    pub cuts: usize,
    /// What the program acknowledged.
    pub acks: Vec<Ack>,
    /// Requests that reached the disk while the program ran.
    pub requests: usize,
    /// Flushes among them.
    pub flushes: usize,
    /// How long the program ran, and how long all cuts together took.
    pub program_time: Duration,
    /// See [`CutReport::program_time`].
    pub cut_time: Duration,
}

/// Why a [`CutTest`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CutTestError {
    /// The disk could not be made or mounted.
    #[error("cannot set the disk up")]
    Disk(#[source] DiskError),
    /// The preparation of the disk failed.
    #[error("cannot prepare the disk's content")]
    Prepare(#[source] io::Error),
    /// The program could not be started.
    #[error("cannot start the program")]
    Start(#[source] io::Error),
    /// The program did not end in time, or broke the protocol.
    #[error("cannot take an acknowledgement after {acks}")]
    Protocol {
        /// How many came before.
        acks: usize,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The program failed.
    #[error("the program ended with {0}")]
    Program(ExitStatus),
    /// The program acknowledged nothing, so there is nothing to test.
    #[error("the program acknowledged nothing")]
    NoAcks,
    /// The power cut left something that cannot be mounted.
    #[error("the file system cannot be mounted after {0}")]
    Unmountable(Cut, #[source] DiskError),
    /// The check failed: this is the finding.
    #[error("data was lost by {0}")]
    Lost(Cut, #[source] CheckFailure),
}

/// One simulated power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Position in the log.
    pub position: usize,
    /// What became of unflushed writes.
    pub unflushed: Unflushed,
    /// How many acknowledgements came before.
    pub acks: usize,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a power cut at position {} ({:?}), with {} acknowledged",
            self.position, self.unflushed, self.acks
        )
    }
}

/// Runs a program on a [`LoggedDisk`] and checks what power cuts leave of its work.
///
/// The program gets the disk's mounted path, has to end by itself with success, and calls
/// [`ack`](super::ack) for everything it promises. The check gets a mounted file system after a cut
/// and everything acknowledged before that cut.
#[derive(Debug)]
pub struct CutTest<Program, Check> {
    program: Program,
    check: Check,
    disk_size: u64,
    rounds: usize,
    seed: u64,
    deadline: Duration,
}

impl<Program, Check> CutTest<Program, Check>
where
    Program: FnOnce(&Path) -> io::Result<Command>,
    Check: FnMut(&Path, &[Ack]) -> Result<(), CheckFailure>,
{
    /// A test of 30 cuts on a disk of 32 MiB, with 30 s for the program.
    pub fn new(program: Program, check: Check) -> Self {
        Self {
            program,
            check,
            disk_size: 32 << 20,
            rounds: 30,
            seed: 1,
            deadline: Duration::from_secs(30),
        }
    }

    /// Sets the disk's size in bytes.
    #[must_use]
    pub fn disk_size(mut self, bytes: u64) -> Self {
        self.disk_size = bytes;
        self
    }

    /// Sets how many power cuts to try.
    #[must_use]
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets the seed that positions and surviving writes are chosen by.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how long the program may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Runs the test on an empty disk.
    pub fn run(self) -> Result<CutReport, CutTestError> {
        self.run_prepared(|_| Ok(()))
    }

    /// Runs the test on a disk with content that no cut can touch: power fails only afterwards.
    pub fn run_prepared(
        mut self,
        prepare: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<CutReport, CutTestError> {
        let disk = LoggedDisk::create(self.disk_size).map_err(CutTestError::Disk)?;
        let mounted = disk.mount().map_err(CutTestError::Disk)?;
        prepare(mounted.path())
            .and_then(|()| mounted.sync())
            .map_err(CutTestError::Prepare)?;
        let from = disk.position();
        let started = Instant::now();
        let command = (self.program)(mounted.path()).map_err(CutTestError::Start)?;
        let acks = run_program(command, &disk, started + self.deadline)?;
        let to = disk.position();
        let program_time = started.elapsed();
        let log = disk.log();
        let started = Instant::now();
        let cuts = plan_cuts(&log, &acks, from, to, self.rounds, self.seed);
        for &cut in &cuts {
            let image = log.image_at(cut.position, cut.unflushed);
            let found = image
                .mount()
                .map_err(|source| CutTestError::Unmountable(cut, source))?;
            (self.check)(found.path(), &acks[..cut.acks])
                .map_err(|source| CutTestError::Lost(cut, source))?;
        }
        Ok(CutReport {
            cuts: cuts.len(),
            acks,
            requests: to - from,
            flushes: log.flushes(from, to),
            program_time,
            cut_time: started.elapsed(),
        })
    }
}

fn run_program(
    mut command: Command,
    disk: &LoggedDisk,
    deadline: Instant,
) -> Result<Vec<Ack>, CutTestError> {
    let (ours, theirs) = UnixStream::pair().map_err(CutTestError::Start)?;
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut program = OwnedChild::spawn(&mut command).map_err(CutTestError::Start)?;
    // The command holds the program's end of the socket; without this, its end is never seen.
    drop(command);
    let mut source = AckSource::new(ours);
    let mut acks = Vec::new();
    let listened = listen(&mut source, &mut acks, disk, deadline);
    let status = program.wait_until(deadline).map_err(CutTestError::Start)?;
    match (listened, status) {
        (_, Some(status)) if !status.success() => Err(CutTestError::Program(status)),
        (Err(source), _) => Err(CutTestError::Protocol {
            acks: acks.len(),
            source,
        }),
        (Ok(()), None) => Err(CutTestError::Protocol {
            acks: acks.len(),
            source: io::ErrorKind::TimedOut.into(),
        }),
        (Ok(()), Some(_)) if acks.is_empty() => Err(CutTestError::NoAcks),
        (Ok(()), Some(_)) => Ok(acks),
    }
}

/// Takes acknowledgements until the program closes its side.
fn listen(
    source: &mut AckSource,
    acks: &mut Vec<Ack>,
    disk: &LoggedDisk,
    deadline: Instant,
) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        source.stream().set_read_timeout(Some(left))?;
        let Some(text) = source.next()? else {
            return Ok(());
        };
        if acks.len() == MAX_ACKS {
            return Err(io::Error::other("too many acknowledgements"));
        }
        acks.push(Ack {
            text,
            position: disk.position(),
        });
        source.release()?;
    }
}

/// Chooses the cuts: half of them exactly at acknowledgements with everything unflushed lost, where
/// a missing flush shows at once, the others over the whole log with all kinds of survivors.
fn plan_cuts(
    log: &WriteLog,
    acks: &[Ack],
    from: usize,
    to: usize,
    rounds: usize,
    seed: u64,
) -> Vec<Cut> {
    let acked_at = |position: usize| acks.partition_point(|ack| ack.position <= position);
    let at_acks = rounds.div_ceil(2).min(acks.len());
    // Evenly spread, and always with the last one.
    let promised = (1..=at_acks).map(|nth| {
        let position = acks[nth * acks.len() / at_acks - 1].position;
        (position, Unflushed::DropAll)
    });
    let anywhere = log.cut_points(from, to, rounds - at_acks, seed);
    let anywhere = (seed..).zip(anywhere).map(|(seed, position)| {
        let unflushed = match seed % 3 {
            0 => Unflushed::DropAll,
            1 => Unflushed::RandomSubset(seed),
            _ => Unflushed::Torn(seed),
        };
        (position, unflushed)
    });
    promised
        .chain(anywhere)
        .map(|(position, unflushed)| Cut {
            position,
            unflushed,
            acks: acked_at(position),
        })
        .collect()
}
