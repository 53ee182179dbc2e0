//! The file that lets a simulated cloud outlive its manager: a line for each change, the last one of a machine counts.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use super::world::{SimMachine, World};

/// Why a simulated cloud cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the simulated cloud {}", path.display())]
pub struct OpenSimError {
    /// Its file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

#[derive(Debug)]
pub(super) struct SimFile {
    file: File,
}

impl SimFile {
    /// Opens the file and reads what is in it. A last line that is not whole was never answered, and is cut off.
    pub(super) fn open(path: &Path) -> Result<(Self, World, u64), OpenSimError> {
        let failed = |source| OpenSimError {
            path: path.to_owned(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        let mut world = World::default();
        let (mut whole, mut lines) = (0, 0);
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).map_err(failed)? > 0 {
            if line.last() == Some(&b'\n') {
                let machine: SimMachine = serde_json::from_slice(&line)
                    .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
                world.restore(machine);
                whole += line.len() as u64;
                lines += 1;
            }
            line.clear();
        }
        file.set_len(whole).map_err(failed)?;
        Ok((Self { file }, world, lines))
    }

    /// In one write, so that a kill leaves all of it or nothing.
    pub(super) fn append(&mut self, machine: &SimMachine) -> io::Result<()> {
        let mut line = serde_json::to_vec(machine)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}
