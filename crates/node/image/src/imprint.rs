//! A layer's record, on the layer itself: in an extended attribute of its folder.
//!
//! The database is where records are. When it is lost, layers are there that nobody has a record of, and instances may be running
//! on them. By its imprint such a layer is compared with its seal, and is as good as before. It goes where the layer goes, so
//! there is nothing to be tidied up. Where it cannot be written (a file system without attributes), a layer is lost with the
//! database, as it would be without.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use muster_api::domain::Digest;
use rustix::fs::{self, XattrFlags};
use rustix::io::Errno;

use crate::inventory::LayerRecord;

/// Only root sees and writes it.
pub(crate) const TRUSTED: &str = "trusted.muster.layer";
/// Of a store that does not belong to root.
pub(crate) const USER: &str = "user.muster.layer";

/// The form that this program writes, and the only one that it reads.
const FORM: &str = "1";
/// A form, two digests and two numbers are shorter.
const MAX_BYTES: usize = 512;

fn attribute() -> &'static str {
    match rustix::process::geteuid().is_root() {
        true => TRUSTED,
        false => USER,
    }
}

/// Writes a layer's record on it. What the layer itself brought under this name does not stay.
pub(crate) fn write(layer: &Path, record: &LayerRecord) -> io::Result<()> {
    let folder = File::open(layer)?;
    let text = to_text(record);
    match fs::fsetxattr(&folder, attribute(), text.as_bytes(), XattrFlags::empty()) {
        Err(Errno::NOTSUP) => Ok(()),
        Err(error) => {
            forget(folder.as_fd())?;
            tracing::debug!(layer = %layer.display(), %error, "a layer's record is in the database only");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// What the layer brought under this name goes; where nothing can be written, there is hardly anything.
fn forget(folder: BorrowedFd<'_>) -> io::Result<()> {
    let mut nothing = [0; 0];
    match fs::fgetxattr(folder, attribute(), &mut nothing[..]) {
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        _ => Ok(fs::fremovexattr(folder, attribute())?),
    }
}

/// The record that is written on a layer.
pub(crate) fn read(layer: &Path) -> Option<LayerRecord> {
    let folder = File::open(layer).ok()?;
    let mut value = vec![0; MAX_BYTES];
    let length = fs::fgetxattr(&folder, attribute(), value.as_mut_slice()).ok()?;
    from_text(std::str::from_utf8(&value[..length]).ok()?)
}

fn to_text(record: &LayerRecord) -> String {
    let LayerRecord {
        diff_id,
        bytes,
        seal,
    } = record;
    format!("{FORM} {diff_id} {bytes} {}", hex::encode(seal))
}

fn from_text(text: &str) -> Option<LayerRecord> {
    let mut words = text.split(' ');
    let mut word = || words.next();
    word().filter(|form| *form == FORM)?;
    let diff_id: Digest = word()?.parse().ok()?;
    let bytes = word()?.parse().ok()?;
    let mut seal = [0; 32];
    hex::decode_to_slice(word()?, &mut seal).ok()?;
    word().is_none().then_some(LayerRecord {
        diff_id,
        bytes,
        seal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{self, Unhurried};

    fn record() -> LayerRecord {
        LayerRecord {
            diff_id: Digest::from_sha512([9; 64]),
            bytes: u64::MAX,
            seal: [255; 32],
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_other_text_is_none() {
        let text = to_text(&record());
        assert!(text.len() < MAX_BYTES);
        assert_eq!(from_text(&text), Some(record()));
        for wrong in [
            "",
            "1",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text} x"),
            &format!("2{}", &text[1..]),
        ] {
            assert_eq!(from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_imprint_is_no_part_of_the_seal() {
        muster_lab::require!(Root);
        let folder = tempfile::tempdir().unwrap();
        let sealed = || seal::seal(folder.path(), &mut Unhurried).unwrap().seal;
        let before = sealed();
        write(folder.path(), &record()).unwrap();
        assert_eq!(sealed(), before);
        assert_eq!(read(folder.path()), Some(record()));
        forget(File::open(folder.path()).unwrap().as_fd()).unwrap();
        assert_eq!(read(folder.path()), None);
        forget(File::open(folder.path()).unwrap().as_fd()).unwrap();
    }
}
