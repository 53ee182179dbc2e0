use proptest::prelude::*;

use super::types::{ARCHITECTURES, LINUX, guid, own};
use super::{Chosen, Gpt, HEAD, Partition, Table, TableError, choose, read_head};
use crate::image::Part;

const SIZE: u64 = 4 << 20;
const HOME: [u8; 16] = guid(0x933A_C7E1_2EB4_4F13_B844_0E14_E2AE_F915);
const SWAP: [u8; 16] = guid(0x0657_FD6D_A4AB_43C4_84E5_0933_C84B_4F4F);

/// An entry: its type, its first and last sector, its attributes and its name.
type Entry<'a> = ([u8; 16], u64, u64, u64, &'a str);

/// The bytes of a disk with these partitions, as far as its table goes.
fn disk(sector: usize, entries: &[Entry<'_>]) -> Vec<u8> {
    const COUNT: usize = 8;
    let mut disk = vec![0; sector * 2 + COUNT * 128];
    for (index, (kind, first, last, attributes, name)) in entries.iter().enumerate() {
        let entry = &mut disk[sector * 2 + index * 128..][..128];
        entry[..16].copy_from_slice(kind);
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
        entry[48..56].copy_from_slice(&attributes.to_le_bytes());
        for (letter, place) in name.encode_utf16().zip(entry[56..].chunks_exact_mut(2)) {
            place.copy_from_slice(&letter.to_le_bytes());
        }
    }
    let list = crc32fast::hash(&disk[sector * 2..]);
    let header = &mut disk[sector..][..92];
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[24..32].copy_from_slice(&1_u64.to_le_bytes());
    header[72..80].copy_from_slice(&2_u64.to_le_bytes());
    header[80..84].copy_from_slice(&u32::try_from(COUNT).unwrap().to_le_bytes());
    header[84..88].copy_from_slice(&128_u32.to_le_bytes());
    header[88..92].copy_from_slice(&list.to_le_bytes());
    seal(&mut disk, sector);
    disk
}

/// Makes the checksum of the header right again.
fn seal(disk: &mut [u8], sector: usize) {
    let header = &mut disk[sector..][..92];
    header[16..20].fill(0);
    let sum = crc32fast::hash(header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
}

fn gpt(disk: &[u8]) -> Result<Gpt, TableError> {
    let head = &disk[..disk.len().min(HEAD)];
    match read_head(head, SIZE)? {
        Table::Gpt(gpt) => Ok(gpt),
        other => panic!("{other:?}"),
    }
}

fn partitions(disk: &[u8]) -> Result<Vec<Partition>, TableError> {
    let gpt = gpt(disk)?;
    let (start, length) = gpt.list();
    let start = usize::try_from(start).unwrap();
    gpt.partitions(&disk[start..start + length])
}

fn chosen(disk: &[u8]) -> Result<Vec<(Part, u64, u64, bool)>, TableError> {
    let chosen = choose(&partitions(disk)?)?;
    let tuple = |it: Chosen| (it.part, it.offset, it.size, it.read_only);
    Ok(chosen.into_iter().map(tuple).collect())
}

#[test]
fn partitions_are_found_by_what_they_are_for() {
    let Some(own) = own() else { return };
    let other = ARCHITECTURES.iter().find(|other| other.root != own.root);
    let entries = [
        (HOME, 300, 399, 0, ""),
        (SWAP, 400, 499, 0, ""),
        (own.usr, 200, 299, 1 << 60, "usr"),
        (other.unwrap().root, 500, 599, 0, ""),
        (own.root, 100, 199, 0, "root"),
        (HOME, 600, 699, 0, "second"),
    ];
    for sector in [512, 4096] {
        let unit = u64::try_from(sector).unwrap();
        let expected = [
            (Part::Root, 100 * unit, 100 * unit, false),
            (Part::Usr, 200 * unit, 100 * unit, true),
            (Part::Home, 300 * unit, 100 * unit, false),
        ];
        assert_eq!(chosen(&disk(sector, &entries)).unwrap(), expected);
    }
}

#[test]
fn the_only_partition_of_linux_is_the_root() {
    let one = [(SWAP, 10, 19, 0, ""), (LINUX, 20, 29, 0, "data")];
    let root = [(Part::Root, 20 * 512, 10 * 512, false)];
    assert_eq!(chosen(&disk(512, &one)).unwrap(), root);
    let two = [(LINUX, 10, 19, 0, ""), (LINUX, 20, 29, 0, "")];
    assert_eq!(
        chosen(&disk(512, &two)),
        Err(TableError::Several(Part::Root))
    );
    // One that is not to be used, or has nothing yet, does not count.
    for left_out in [(LINUX, 10, 19, 1 << 63, ""), (LINUX, 10, 19, 0, "_empty")] {
        let both = [left_out, (LINUX, 20, 29, 0, "_empties")];
        assert_eq!(chosen(&disk(512, &both)).unwrap(), root);
    }
    assert_eq!(chosen(&disk(512, &[])), Err(TableError::NoRoot));
    assert_eq!(
        chosen(&disk(512, &[(HOME, 10, 19, 0, "")])),
        Err(TableError::NoRoot)
    );
}

#[test]
fn two_roots_and_overlapping_partitions_are_refused() {
    let Some(own) = own() else { return };
    let roots = [(own.root, 10, 19, 0, "a"), (own.root, 20, 29, 0, "b")];
    assert_eq!(
        chosen(&disk(512, &roots)),
        Err(TableError::Several(Part::Root))
    );
    let overlap = [(own.root, 10, 20, 0, ""), (own.usr, 20, 29, 0, "")];
    assert_eq!(
        chosen(&disk(512, &overlap)),
        Err(TableError::Damaged("partitions overlap"))
    );
}

#[test]
fn a_partition_is_in_the_image() {
    let last = SIZE / 512 - 1;
    assert!(chosen(&disk(512, &[(LINUX, 10, last, 0, "")])).is_ok());
    for (first, last) in [
        (10, last + 1),
        (10, u64::MAX),
        (0, u64::MAX),
        (u64::MAX, u64::MAX),
        (20, 10),
        (20, 18),
        (0, 10),
    ] {
        let error = chosen(&disk(512, &[(LINUX, first, last, 0, "")]));
        assert!(
            matches!(error, Err(TableError::Damaged(_))),
            "{first}-{last}: {error:?}"
        );
    }
}

#[test]
fn a_header_that_lies_is_refused() {
    let whole = disk(512, &[(LINUX, 20, 29, 0, "")]);
    let refusal = |at: usize, bytes: &[u8], sealed: bool| {
        let mut disk = whole.clone();
        disk[512 + at..][..bytes.len()].copy_from_slice(bytes);
        if sealed {
            seal(&mut disk, 512);
        }
        match gpt(&disk).unwrap_err() {
            TableError::Damaged(why) => why,
            other => panic!("{other}"),
        }
    };
    let big = u32::MAX.to_le_bytes();
    assert!(refusal(40, &[1], false).contains("checksum"));
    assert!(refusal(12, &big, true).contains("length"));
    assert!(refusal(12, &91_u32.to_le_bytes(), true).contains("length"));
    assert!(refusal(12, &513_u32.to_le_bytes(), true).contains("length"));
    assert!(refusal(24, &2_u64.to_le_bytes(), true).contains("where it says"));
    assert!(refusal(72, &u64::MAX.to_le_bytes(), true).contains("outside"));
    assert!(refusal(72, &(SIZE / 512).to_le_bytes(), true).contains("outside"));
    assert!(refusal(80, &big, true).contains("too long"));
    for size in [0, 64, 127, 130, 4104, u32::MAX] {
        assert!(refusal(84, &size.to_le_bytes(), true).contains("size"));
    }
    assert!(gpt(&whole[..550]).is_err());
}

#[test]
fn a_list_that_was_changed_is_refused() {
    let disk = disk(512, &[(LINUX, 20, 29, 0, "")]);
    let gpt = gpt(&disk).unwrap();
    let mut list = disk[1024..].to_vec();
    assert!(gpt.partitions(&list).is_ok());
    list[32] ^= 1;
    let error = Err(TableError::Damaged("the checksum of its list is wrong"));
    assert_eq!(gpt.partitions(&list), error);
    assert_eq!(gpt.partitions(&list[..128]), error);
    assert_eq!(gpt.partitions(&[]), error);
}

#[test]
fn the_older_table_is_read() {
    let mut head = vec![0; 512];
    assert_eq!(read_head(&head, SIZE), Ok(Table::Nothing));
    assert_eq!(read_head(&[], 0), Ok(Table::Nothing));
    head[510..].copy_from_slice(&[0x55, 0xAA]);
    assert_eq!(read_head(&head, SIZE), Ok(Table::Partitions(Vec::new())));
    let entry = |head: &mut [u8], kind: u8, first: u32, count: u32| {
        head[450] = kind;
        head[454..458].copy_from_slice(&first.to_le_bytes());
        head[458..462].copy_from_slice(&count.to_le_bytes());
    };
    entry(&mut head, 0x83, 8, 16);
    let Table::Partitions(found) = read_head(&head, SIZE).unwrap() else {
        panic!("no partitions")
    };
    assert_eq!(found[0].offset, 8 * 512);
    assert_eq!(choose(&found).unwrap()[0].size, 16 * 512);
    for (first, count) in [(8, u32::MAX), (0, 16), (8, 0), (u32::MAX, 1)] {
        entry(&mut head, 0x83, first, count);
        assert!(read_head(&head, SIZE).is_err(), "{first} {count}");
    }
    entry(&mut head, 0x07, 8, u32::MAX);
    assert_eq!(read_head(&head, SIZE), Ok(Table::Partitions(Vec::new())));
    entry(&mut head, 0xEE, 1, u32::MAX);
    let error = read_head(&head, SIZE).unwrap_err();
    assert!(error.to_string().contains("GPT"), "{error}");
}

fn any_entry() -> impl Strategy<Value = Entry<'static>> {
    let own = own().map_or(LINUX, |own| own.root);
    let usr = own_usr();
    (
        prop::sample::select(vec![LINUX, own, usr, HOME, SWAP]),
        prop_oneof![0..20_u64, any::<u64>()],
        prop_oneof![0..40_u64, any::<u64>()],
        prop_oneof![Just(0), Just(1 << 60), Just(1 << 63)],
        prop::sample::select(vec!["", "_empty", "name"]),
    )
}

fn own_usr() -> [u8; 16] {
    own().map_or(LINUX, |own| own.usr)
}

proptest! {
    #[test]
    fn what_is_chosen_fits(entries in prop::collection::vec(any_entry(), 0..8)) {
        if let Ok(chosen) = partitions(&disk(512, &entries)).and_then(|found| choose(&found)) {
            prop_assert_eq!(chosen[0].part, Part::Root);
            for (index, one) in chosen.iter().enumerate() {
                prop_assert!(one.offset >= 512 && one.offset + one.size <= SIZE);
                for other in &chosen[index + 1..] {
                    prop_assert!(one.part < other.part);
                    let apart = one.offset + one.size <= other.offset || other.offset + other.size <= one.offset;
                    prop_assert!(apart);
                }
            }
        }
    }

    #[test]
    fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..2048), size in any::<u64>(), at in 500..600_usize) {
        let _ = read_head(&bytes, size);
        let mut disk = disk(512, &[(LINUX, 20, 29, 0, "")]);
        for (place, byte) in disk[at..].iter_mut().zip(&bytes) {
            *place ^= byte;
        }
        seal(&mut disk, 512);
        if let Ok(Table::Gpt(gpt)) = read_head(&disk, size) {
            let (start, length) = gpt.list();
            prop_assert!(start.checked_add(u64::try_from(length).unwrap()).unwrap() <= size);
            let _ = gpt.partitions(&bytes);
        }
    }
}
