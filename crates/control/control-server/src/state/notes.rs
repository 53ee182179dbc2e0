//! What one fact leaves for the history.

use std::collections::BTreeMap;

use crate::facts::{Note, NoteKind};

/// Of one kind so many are told one by one, and the others as a number: a node with a thousand instances that comes back is
/// one thing that happened, not a thousand.
const EACH: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Notes {
    told: Vec<Note>,
    counts: BTreeMap<NoteKind, usize>,
}

impl Notes {
    pub(crate) fn add(&mut self, note: Note) {
        let count = self.counts.entry(note.kind).or_default();
        *count += 1;
        if *count <= EACH {
            self.told.push(note);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Note> {
        let mut told = self.told;
        let more = self.counts.into_iter().filter(|(_, count)| *count > EACH);
        told.extend(more.map(|(kind, count)| {
            let more = count - EACH;
            Note::plain(
                kind,
                "",
                format!("and {more} more of this kind at the same time"),
            )
        }));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_kind_becomes_a_number() {
        let mut notes = Notes::default();
        for number in 0..100 {
            notes.add(Note::plain(
                NoteKind::Instance,
                number.to_string(),
                "is active",
            ));
        }
        notes.add(Note::plain(NoteKind::Node, "n1", "is connected"));
        let told = notes.into_vec();
        assert_eq!(told.len(), EACH + 2);
        assert_eq!(told[EACH].name, "n1");
        assert_eq!(
            told[EACH + 1].message,
            "and 84 more of this kind at the same time"
        );
    }
}
