//! Values, names and boots over all files.

use std::collections::{BTreeMap, BTreeSet};

use super::Journal;
use crate::file::{ReadError, skip_damage};
use crate::format::Id128;

/// A boot that left entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boot {
    /// The boot.
    pub id: Id128,
    /// The wall clock time of its first entry, in microseconds.
    pub first: u64,
    /// The wall clock time of its last entry, in microseconds.
    pub last: u64,
}

impl Journal {
    /// Calls `each` with every value that a field has in any entry, each once, until it returns false.
    /// Conditions do not matter.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn each_value(
        &self,
        name: &[u8],
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), ReadError> {
        let mut more = true;
        for (index, member) in self.members.iter().enumerate() {
            let earlier = &self.members[..index];
            member
                .file
                .each_value(name, |data| {
                    let Some(payload) = skip_damage(member.file.payload(data))? else {
                        return Ok(true);
                    };
                    // Looking a value up in the earlier files takes no memory, unlike remembering it.
                    for other in earlier {
                        if other.file.find_data(&payload)?.is_some() {
                            return Ok(true);
                        }
                    }
                    let value = payload
                        .strip_prefix(name)
                        .and_then(|rest| rest.strip_prefix(b"="));
                    more = value.is_none_or(&mut each);
                    Ok(more)
                })
                .map_err(|fault| member.file.fail(fault))?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// The names of all fields.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn field_names(&self) -> Result<BTreeSet<Vec<u8>>, ReadError> {
        let mut names = BTreeSet::new();
        for member in &self.members {
            member
                .file
                .each_name(|name| {
                    names.insert(name.to_vec());
                })
                .map_err(|fault| member.file.fail(fault))?;
        }
        Ok(names)
    }

    /// All boots that left entries, oldest first.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn boots(&self) -> Result<Vec<Boot>, ReadError> {
        let mut boots: BTreeMap<Id128, Boot> = BTreeMap::new();
        for member in &self.members {
            let file = &member.file;
            file.each_value(b"_BOOT_ID", |data| {
                let payload = skip_damage(file.payload(data))?.unwrap_or_default();
                let id = payload
                    .strip_prefix(b"_BOOT_ID=")
                    .and_then(|text| std::str::from_utf8(text).ok())
                    .and_then(|text| text.parse::<Id128>().ok());
                if let Some(id) = id
                    && let Some((first, last)) = file.ends_of(data)?
                {
                    let (first, last) = (first.realtime, last.realtime);
                    let boot = boots.entry(id).or_insert(Boot { id, first, last });
                    boot.first = boot.first.min(first);
                    boot.last = boot.last.max(last);
                }
                Ok(true)
            })
            .map_err(|fault| file.fail(fault))?;
        }
        let mut boots: Vec<Boot> = boots.into_values().collect();
        boots.sort_by_key(|boot| (boot.first, boot.id));
        Ok(boots)
    }
}
