//! Any bytes as a disk image: what is mounted of it is in it, and nothing overlaps.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_mounts::Part;
use muster_mounts::partitions::{Chosen, HEAD, Table, TableError, choose, read_head};

fuzz_target!(|bytes: &[u8]| {
    let _ = chosen(bytes);
    // Behind wrong checksums little would ever be looked at.
    let mut sealed = bytes.to_vec();
    for sector in [512, 4096] {
        seal(&mut sealed, sector);
    }
    let Ok(chosen) = chosen(&sealed) else { return };
    assert_eq!(chosen[0].part, Part::Root);
    for (index, one) in chosen.iter().enumerate() {
        let end = one.offset.checked_add(one.size).unwrap();
        assert!(one.offset > 0 && one.size > 0 && end <= size(&sealed));
        for other in &chosen[index + 1..] {
            assert!(one.part < other.part);
            assert!(end <= other.offset || other.offset + other.size <= one.offset);
        }
    }
});

fn size(image: &[u8]) -> u64 {
    u64::try_from(image.len()).unwrap()
}

fn chosen(image: &[u8]) -> Result<Vec<Chosen>, TableError> {
    let head = &image[..image.len().min(HEAD)];
    let found = match read_head(head, size(image))? {
        Table::Nothing => return Err(TableError::NoRoot),
        Table::Partitions(found) => found,
        Table::Gpt(gpt) => {
            let (start, length) = gpt.list();
            let start = usize::try_from(start).unwrap();
            // It is in the image, as it says.
            gpt.partitions(&image[start..start + length])?
        }
    };
    choose(&found)
}

/// Makes the checksums of a table right.
fn seal(image: &mut [u8], sector: usize) {
    let number = |image: &[u8], at: usize| {
        let bytes = image.get(sector + at..sector + at + 4);
        bytes.map_or(0, |bytes| u32::from_le_bytes(bytes.try_into().unwrap()) as usize)
    };
    let (length, count, entry) = (number(image, 12), number(image, 80), number(image, 84));
    let start = number(image, 72).saturating_mul(sector);
    let end = count.checked_mul(entry).and_then(|list| start.checked_add(list));
    let list = end.and_then(|end| image.get(start..end)).map(crc32fast::hash);
    let Some(header) = length.checked_add(sector).and_then(|end| image.get_mut(sector..end)) else { return };
    if header.len() < 92 {
        return;
    }
    header[88..92].copy_from_slice(&list.unwrap_or(0).to_le_bytes());
    header[16..20].fill(0);
    let sum = crc32fast::hash(header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
}
