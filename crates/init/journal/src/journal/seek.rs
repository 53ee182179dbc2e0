//! Going to a place.

use std::collections::BTreeMap;

use super::{Journal, Member, Position};
use crate::cursor::Cursor;
use crate::file::{Fault, ReadError, skip_damage};
use crate::format::Id128;

impl Journal {
    /// Goes before the first entry.
    pub fn seek_head(&mut self) {
        for member in &mut self.members {
            member.move_to(Position::gap(0));
        }
    }

    /// Goes behind the last entry.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn seek_tail(&mut self) -> Result<(), ReadError> {
        self.seek_each(|member| member.file.end_place())
    }

    /// Goes before the first entry at or after this time (microseconds since 1970).
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn seek_realtime(&mut self, realtime: u64) -> Result<(), ReadError> {
        self.seek_each(|member| place_at(member, realtime))
    }

    /// Goes before the first entry of a boot at or after this time (microseconds since that boot).
    /// False, and the place unchanged, when no file has an entry of that boot.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn seek_monotonic(&mut self, boot_id: Id128, monotonic: u64) -> Result<bool, ReadError> {
        // Files without that boot are entered at the wall clock time that those with it give.
        let mut realtime: Option<u64> = None;
        let mut places = Vec::with_capacity(self.members.len());
        for member in &self.members {
            let fail = |fault| member.file.fail(fault);
            let place = member
                .file
                .place_in_boot(boot_id, monotonic)
                .map_err(fail)?;
            if let Some(place) = place
                && let Ok(entry) = member.file.entry_object(place)
            {
                realtime = Some(realtime.map_or(entry.realtime, |time| time.min(entry.realtime)));
            }
            places.push(place);
        }
        if places.iter().all(Option::is_none) {
            return Ok(false);
        }
        for (member, place) in self.members.iter_mut().zip(places) {
            let place = match (place, realtime) {
                (Some(place), _) => Ok(place),
                (None, Some(realtime)) => place_at(member, realtime),
                (None, None) => member.file.end_place(),
            };
            let place = place.map_err(|fault| member.file.fail(fault))?;
            member.move_to(Position::gap(place));
        }
        Ok(true)
    }

    /// Goes before the entry with this number of this source, or the first later one. Files of other
    /// sources are entered at the wall clock time of that entry.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn seek_seqnum(&mut self, source: Id128, seqnum: u64) -> Result<(), ReadError> {
        let mut realtime: Option<u64> = None;
        for member in &self.members {
            if member.file.seqnum_id() == source
                && let Ok(place) = member.file.place_where(|entry| entry.seqnum < seqnum)
                && let Ok(entry) = member.file.entry_object(place)
            {
                realtime = Some(realtime.map_or(entry.realtime, |time| time.min(entry.realtime)));
            }
        }
        self.seek_each(|member| match realtime {
            _ if member.file.seqnum_id() == source => {
                member.file.place_where(|entry| entry.seqnum < seqnum)
            }
            Some(realtime) => place_at(member, realtime),
            None => member.file.end_place(),
        })
    }

    /// Goes before the entry that the cursor names, or, when it is gone, before the first one after
    /// its place. [`Entry::is_at`](crate::Entry::is_at) tells which of the two the next entry is.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn seek_cursor(&mut self, cursor: &Cursor) -> Result<(), ReadError> {
        self.seek_each(|member| {
            if let (Some(source), Some(seqnum)) = (cursor.seqnum_id, cursor.seqnum)
                && member.file.seqnum_id() == source
            {
                return member.file.place_where(|entry| entry.seqnum < seqnum);
            }
            if let (Some(boot_id), Some(monotonic)) = (cursor.boot_id, cursor.monotonic)
                && let Some(place) = member.file.place_in_boot(boot_id, monotonic)?
            {
                return Ok(place);
            }
            match cursor.realtime {
                Some(realtime) => place_at(member, realtime),
                None => Ok(0),
            }
        })
    }

    /// Goes behind the entry that the cursor names, or, when it is gone, behind its place.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn seek_after_cursor(&mut self, cursor: &Cursor) -> Result<(), ReadError> {
        self.seek_cursor(cursor)?;
        // Conditions may hide the entry itself; then the place before it is as good.
        if self.next_entry()?.is_some_and(|entry| entry.is_at(cursor)) {
            return Ok(());
        }
        self.seek_cursor(cursor)
    }

    /// Goes, in each source by itself, behind the entry with this number; in a source that is not named, before its first
    /// entry.
    ///
    /// A cursor puts the sources in order by their clocks, and an entry that one of them wrote late lies before it unread.
    /// Numbers, one for each source, name a place to which everything was read and behind which nothing was.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn seek_numbers(&mut self, read: &BTreeMap<Id128, u64>) -> Result<(), ReadError> {
        self.seek_each(|member| match read.get(&member.file.seqnum_id()) {
            Some(number) => member.file.place_where(|entry| entry.seqnum <= *number),
            None => Ok(0),
        })
    }

    /// The number of the last entry of each source, as of the last [`refresh`](Self::refresh).
    ///
    /// Several files of one source are not looked at in one moment: the last entry of one may be known already while an
    /// earlier one of another is not. After one more refresh everything up to these numbers is there.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn last_numbers(&self) -> Result<BTreeMap<Id128, u64>, ReadError> {
        let mut numbers = BTreeMap::new();
        for member in &self.members {
            let last = skip_damage(member.file.last_entry());
            if let Some(last) = last.map_err(|fault| member.file.fail(fault))?.flatten() {
                let number = numbers.entry(member.file.seqnum_id()).or_insert(0);
                *number = last.seqnum.max(*number);
            }
        }
        Ok(numbers)
    }

    fn seek_each(
        &mut self,
        place: impl Fn(&Member) -> Result<u64, Fault>,
    ) -> Result<(), ReadError> {
        for member in &mut self.members {
            let place = place(member).map_err(|fault| member.file.fail(fault))?;
            member.move_to(Position::gap(place));
        }
        Ok(())
    }
}

fn place_at(member: &Member, realtime: u64) -> Result<u64, Fault> {
    member.file.place_where(|entry| entry.realtime < realtime)
}
