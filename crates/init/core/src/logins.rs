//! Login records (`UtmpIdentifier=`): who is at which terminal, and what was.
//!
//! `/run/utmp` has one record for each identifier, which says what is so now; `/var/log/wtmp` has every record there ever was.
//! Where these files are not, nobody wants them, and nothing is written. Records are the C library's, of one size, so a
//! single write puts one in its place.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use muster_engine::protocol::ExitStatus;
use muster_unit_file::config::UtmpMode;
use rustix::fs::FlockOperation;

const UTMP: &str = "run/utmp";
const WTMP: &str = "var/log/wtmp";

/// Whether the C library's records have a session and a time of 64 bits; those of x86-64 are as on 32-bit machines.
const IS_WIDE: bool = cfg!(target_arch = "aarch64");
const SIZE: usize = if IS_WIDE { 400 } else { 384 };
/// Records of `utmp` that are looked at: more than any machine has terminals, and so few that it takes no time.
const MOST_RECORDS: usize = 4096;

const TYPE: usize = 0;
const PID: usize = 4;
const LINE: std::ops::Range<usize> = 8..40;
const ID: std::ops::Range<usize> = 40..44;
const USER: std::ops::Range<usize> = 44..76;
const TERMINATION: usize = 332;
const EXIT: usize = 334;
const SESSION: usize = 336;
const SECONDS: usize = if IS_WIDE { 344 } else { 340 };
const MICROS: usize = if IS_WIDE { 352 } else { 344 };

/// What a record says; the C library's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Kind {
    Init = 5,
    Login = 6,
    User = 7,
    Dead = 8,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Init, Self::Login, Self::User, Self::Dead];
}

/// A process that login records are written for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Login<'a> {
    /// `UtmpIdentifier=`; its last four bytes count.
    pub(crate) id: &'a str,
    /// `UtmpMode=`
    pub(crate) mode: UtmpMode,
    /// The terminal's path, if there is one.
    pub(crate) terminal: Option<&'a str>,
    /// Who it runs as.
    pub(crate) user: &'a str,
    /// The process, which leads its own session.
    pub(crate) pid: u32,
}

#[derive(Clone, PartialEq, Eq)]
struct Record([u8; SIZE]);

impl Record {
    fn new(kind: Kind, id: &str, pid: u32) -> Self {
        let mut record = Self([0; SIZE]);
        record.put(TYPE, &(kind as u16).to_ne_bytes());
        record.put(PID, &pid.to_ne_bytes());
        record.text(ID, id);
        record
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// The end of a text that is too long says more than its beginning.
    fn text(&mut self, place: std::ops::Range<usize>, text: &str) {
        let last = text.len().saturating_sub(place.len());
        self.put(place.start, text.as_bytes().get(last..).unwrap_or_default());
    }

    fn at(mut self, micros: i64) -> Self {
        let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        if IS_WIDE {
            self.put(SECONDS, &seconds.to_ne_bytes());
            self.put(MICROS, &micros.to_ne_bytes());
        } else {
            // The record has no room for more, nor has anybody's who reads it.
            let narrow = |number: i64| i32::try_from(number).unwrap_or(i32::MAX).to_ne_bytes();
            self.put(SECONDS, &narrow(seconds));
            self.put(MICROS, &narrow(micros));
        }
        self
    }

    fn kind(&self) -> u16 {
        let bytes = self.0.get(TYPE..TYPE + 2);
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u16::from_ne_bytes)
    }

    /// Whether both are about the same terminal.
    fn is_about(&self, other: &Self) -> bool {
        let is_process = Kind::ALL.iter().any(|kind| *kind as u16 == self.kind());
        is_process && self.0.get(ID) == other.0.get(ID)
    }

    fn is_of(&self, other: &Self) -> bool {
        let pid = PID..PID + size_of::<u32>();
        self.0.get(pid.clone()) == other.0.get(pid)
    }
}

/// A process began.
pub(crate) fn begin(root: &Path, login: &Login<'_>, now: i64) -> io::Result<()> {
    let kinds = match login.mode {
        UtmpMode::Init => &[Kind::Init][..],
        UtmpMode::Login => &[Kind::Init, Kind::Login],
        UtmpMode::User => &[Kind::Init, Kind::Login, Kind::User],
    };
    let records = kinds.iter().map(|kind| {
        let mut record = Record::new(*kind, login.id, login.pid);
        record.put(SESSION, &login.pid.to_ne_bytes());
        let terminal = login.terminal.unwrap_or_default();
        record.text(LINE, terminal.strip_prefix("/dev/").unwrap_or(terminal));
        if *kind == Kind::User {
            record.text(USER, login.user);
        }
        record.at(now)
    });
    let records: Vec<Record> = records.collect();
    let Some(last) = records.last() else {
        return Ok(());
    };
    if let Some(place) = Place::of(root, last)? {
        // One that the program itself has written already knows more.
        let is_theirs = |held: &Record| held.is_of(last) && held.kind() != Kind::Dead as u16;
        if !place.held.as_ref().is_some_and(is_theirs) {
            place.file.write_all_at(&last.0, place.at)?;
        }
    }
    append(root, &records)
}

/// A process ended. Whoever has the terminal by now is not told.
pub(crate) fn end(root: &Path, id: &str, pid: u32, status: ExitStatus, now: i64) -> io::Result<()> {
    let mut dead = Record::new(Kind::Dead, id, pid);
    let Some(place) = Place::of(root, &dead)? else {
        return Ok(());
    };
    let Some(held) = place.held.as_ref().filter(|held| held.is_of(&dead)) else {
        return Ok(());
    };
    let (termination, exit): (u16, u16) = match status {
        ExitStatus::Code(code) => (0, code.into()),
        ExitStatus::Signal(signal) | ExitStatus::Core(signal) => (signal.into(), 0),
    };
    dead.put(TERMINATION, &termination.to_ne_bytes());
    dead.put(EXIT, &exit.to_ne_bytes());
    dead.put(LINE.start, held.0.get(LINE).unwrap_or_default());
    place.file.write_all_at(&dead.0, place.at)?;
    append(root, &[dead.at(now)])
}

/// Where in `utmp` the record about a terminal is, or would be.
struct Place {
    file: File,
    at: u64,
    held: Option<Record>,
}

impl Place {
    /// Nothing if there is no such file. It is locked until it is dropped, unless others have it: they change other records.
    fn of(root: &Path, wanted: &Record) -> io::Result<Option<Self>> {
        let Some(file) = existing(root, UTMP, File::options().read(true).write(true))? else {
            return Ok(None);
        };
        let _ = rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut held = Record([0; SIZE]);
        let mut at = 0;
        for _ in 0..MOST_RECORDS {
            match file.read_exact_at(&mut held.0, at) {
                Ok(()) if held.is_about(wanted) => {
                    let held = Some(held);
                    return Ok(Some(Self { file, at, held }));
                }
                Ok(()) => at += SIZE as u64,
                // What is left of a record that was cut off is written over.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let held = None;
                    return Ok(Some(Self { file, at, held }));
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::FileTooLarge))
    }
}

fn append(root: &Path, records: &[Record]) -> io::Result<()> {
    let Some(mut file) = existing(root, WTMP, File::options().append(true))? else {
        return Ok(());
    };
    let bytes: Vec<u8> = records.iter().flat_map(|record| record.0).collect();
    file.write_all(&bytes)
}

fn existing(root: &Path, path: &str, options: &OpenOptions) -> io::Result<Option<File>> {
    match options.open(root.join(path)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
