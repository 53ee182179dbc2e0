//! The walk over all objects.

use crate::file::{DataObject, EntryObject, Fault, JournalFile};
use crate::format::{
    Compression, FileState, Header, OBJECT_HEADER_SIZE, ObjectType, TIME_MAX, align8, array, at,
    flags,
};

/// What the walk found, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) count: u64,
    pub(super) data: Vec<DataObject>,
    pub(super) entries: Vec<u64>,
    pub(super) arrays: Vec<u64>,
    pub(super) fields: Vec<u64>,
    pub(super) tags: u64,
    last_entry: Option<EntryObject>,
    data_table: bool,
    field_table: bool,
}

pub(super) fn walk(file: &JournalFile, header: &Header) -> Result<Objects, Fault> {
    let wrong_header = |problem| Fault::damaged(0, "header", problem);
    if FileState::from_byte(header.state).is_none() {
        return Err(wrong_header("has an unknown state"));
    }
    if header.compatible_flags & !flags::COMPATIBLE_KNOWN != 0 {
        return Err(wrong_header("has features that this version cannot verify"));
    }
    if file.word(at::STATE, "header")? >> 8 != 0 {
        return Err(wrong_header("has something in its reserved bytes"));
    }
    let end = header.header_size.checked_add(header.arena_size);
    let end = end.filter(|end| *end <= file.size());
    let end = end.ok_or(wrong_header("says that the file is larger than it is"))?;
    let mut objects = Objects::default();
    let tail = header.tail_object_offset;
    if tail == 0 {
        return Ok(objects);
    }
    let mut offset = header.header_size;
    loop {
        let object = file.object_header(offset)?;
        let next = offset.checked_add(object.size).map(align8);
        let next = next
            .filter(|next| *next <= align8(end))
            .ok_or(Fault::damaged(
                offset,
                object.kind.name(),
                "reaches beyond the used part of the file",
            ))?;
        if object.flags != 0 && object.kind != ObjectType::Data {
            return Err(Fault::damaged(
                offset,
                object.kind.name(),
                "has flags of a data object",
            ));
        }
        objects.count += 1;
        take(file, header, &mut objects, offset, object.kind, object.size)?;
        if offset == tail {
            return Ok(objects);
        }
        if next > tail {
            return Err(wrong_header("names a last object that is not one"));
        }
        offset = next;
    }
}

fn take(
    file: &JournalFile,
    header: &Header,
    objects: &mut Objects,
    offset: u64,
    kind: ObjectType,
    size: u64,
) -> Result<(), Fault> {
    let wrong = |problem| Fault::damaged(offset, kind.name(), problem);
    match kind {
        ObjectType::Data => {
            let data = file.data(offset)?;
            check_data(file, header, &data)?;
            objects.data.push(data);
        }
        ObjectType::Field => {
            let field = file.field_object(offset)?;
            if file.hash(&field.name) != field.hash {
                return Err(wrong("does not have the hash of its name"));
            }
            objects.fields.push(offset);
        }
        ObjectType::Entry => {
            let entry = file.entry_object(offset)?;
            check_entry(header, objects.last_entry.as_ref(), &entry)?;
            objects.last_entry = Some(entry);
            objects.entries.push(offset);
        }
        ObjectType::EntryArray => {
            check_array(file, offset, size)?;
            objects.arrays.push(offset);
        }
        ObjectType::DataHashTable | ObjectType::FieldHashTable => {
            let (seen, at, len) = if kind == ObjectType::DataHashTable {
                let place = (header.data_hash_table_offset, header.data_hash_table_size);
                (&mut objects.data_table, place.0, place.1)
            } else {
                let place = (header.field_hash_table_offset, header.field_hash_table_size);
                (&mut objects.field_table, place.0, place.1)
            };
            if std::mem::replace(seen, true) {
                return Err(wrong("is there twice"));
            }
            if at != offset + OBJECT_HEADER_SIZE || len != size - OBJECT_HEADER_SIZE {
                return Err(wrong("is not where the header says"));
            }
        }
        ObjectType::Tag => {
            if header.compatible_flags & flags::SEALED == 0 {
                return Err(wrong("is in a file without seals"));
            }
            objects.tags += 1;
        }
    }
    Ok(())
}

/// Also the items that no list reaches.
fn check_array(file: &JournalFile, offset: u64, size: u64) -> Result<(), Fault> {
    let wrong = |problem| Fault::damaged(offset, "entry array", problem);
    let array = file.array_object(offset)?;
    if !(size - array::ITEMS).is_multiple_of(file.layout().array_item()) {
        return Err(wrong("does not hold a number of items"));
    }
    if array.next != 0 && (array.next <= offset || !array.next.is_multiple_of(8)) {
        return Err(wrong("does not lead forward"));
    }
    for index in 0..array.capacity {
        if !file.array_item(offset, index)?.is_multiple_of(8) {
            return Err(wrong("has an item that is not aligned"));
        }
    }
    Ok(())
}

fn check_data(file: &JournalFile, header: &Header, data: &DataObject) -> Result<(), Fault> {
    let wrong = |problem| Fault::damaged(data.offset, "data", problem);
    if (data.entry == 0) != (data.n_entries == 0) {
        return Err(wrong(
            "has a first entry but no count, or the other way round",
        ));
    }
    if data.entry_array != 0 && data.n_entries < 2 {
        return Err(wrong("has a list of entries but no second entry"));
    }
    let needed = match data.compression {
        Compression::None => 0,
        Compression::Xz => flags::XZ,
        Compression::Lz4 => flags::LZ4,
        Compression::Zstd => flags::ZSTD,
    };
    if header.incompatible_flags & needed != needed {
        return Err(wrong(
            "is compressed in a way that the header does not mention",
        ));
    }
    if file.hash(&file.payload(data)?) != data.hash {
        return Err(wrong("does not have the hash of its value"));
    }
    Ok(())
}

fn check_entry(
    header: &Header,
    previous: Option<&EntryObject>,
    entry: &EntryObject,
) -> Result<(), Fault> {
    let wrong = |problem| Fault::damaged(entry.offset, "entry", problem);
    if entry.seqnum == 0 || entry.realtime == 0 {
        return Err(wrong("has no number or no time"));
    }
    if entry.realtime >= TIME_MAX || entry.monotonic >= TIME_MAX {
        return Err(wrong("has a senseless time"));
    }
    match previous {
        None => {
            if entry.seqnum != header.head_entry_seqnum {
                return Err(wrong(
                    "is the first and does not have the header's first number",
                ));
            }
            if entry.realtime != header.head_entry_realtime {
                return Err(wrong(
                    "is the first and does not have the header's first time",
                ));
            }
        }
        Some(previous) => {
            if entry.seqnum <= previous.seqnum {
                return Err(wrong("does not have a higher number than the one before"));
            }
            if entry.boot_id == previous.boot_id && entry.monotonic < previous.monotonic {
                return Err(wrong("is older than the one before"));
            }
        }
    }
    Ok(())
}

/// Compares the header's counters with what was found.
pub(super) fn compare_counters(header: &Header, objects: &Objects) -> Result<(), Fault> {
    // Counters that the header of an old file does not have are not compared.
    let has = |end: u64| header.header_size >= end;
    let counters = [
        (
            true,
            header.n_objects,
            objects.count,
            "counts its objects wrongly",
        ),
        (
            true,
            header.n_entries,
            objects.entries.len() as u64,
            "counts its entries wrongly",
        ),
        (
            has(216),
            header.n_data,
            objects.data.len() as u64,
            "counts its values wrongly",
        ),
        (
            has(224),
            header.n_fields,
            objects.fields.len() as u64,
            "counts its names wrongly",
        ),
        (
            has(232),
            header.n_tags,
            objects.tags,
            "counts its seals wrongly",
        ),
        (
            has(240),
            header.n_entry_arrays,
            objects.arrays.len() as u64,
            "counts its arrays wrongly",
        ),
    ];
    for (present, said, found, problem) in counters {
        if present && said != found {
            return Err(Fault::damaged(0, "header", problem));
        }
    }
    let Some(last) = &objects.last_entry else {
        return Ok(());
    };
    if last.seqnum != header.tail_entry_seqnum || last.realtime != header.tail_entry_realtime {
        return Err(Fault::damaged(
            last.offset,
            "entry",
            "is the last and the header says otherwise",
        ));
    }
    if last.boot_id == header.tail_entry_boot_id && last.monotonic != header.tail_entry_monotonic {
        return Err(Fault::damaged(
            last.offset,
            "entry",
            "is the last and the header says otherwise",
        ));
    }
    Ok(())
}
