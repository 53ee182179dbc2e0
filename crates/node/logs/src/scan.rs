//! Going through the journal twice: backward to find out how many parts there are and where the first begins, forward to
//! make them. Nothing is kept in between but the number of lines of each part.

use muster_journal::{Entry, Journal, Matches, ReadError};

use crate::answer::Answer;
use crate::fields::Fields;
use crate::line::{SHOWN, render};
use crate::parts::Cutter;
use crate::settings::LogSettings;
use crate::wanted::Range;

/// The clock may have been set: so many entries in a row that are not of the wanted time are stepped over.
const STRAY_MAX: usize = 1000;
/// Entries between two looks at whether anybody waits, and at memory.
const TURN: usize = 1024;
/// Room for the line that says what is left out.
const NOTE_BYTES: usize = 256;

/// A walk through the entries of a time.
pub(crate) struct Walk<'a> {
    journal: &'a mut Journal,
    range: Range,
    answer: &'a Answer,
    steps: usize,
    strays: usize,
}

/// What a walk comes upon.
pub(crate) enum Step {
    Entry(Entry),
    /// There is nothing more of this time: the walk has come to the end of the journal, or stands on an entry that is
    /// not of this time.
    End {
        of_journal: bool,
    },
    /// Nobody waits any more.
    Cancelled,
}

impl<'a> Walk<'a> {
    /// Begins behind the last wanted entry of the time.
    pub(crate) fn from_the_end(
        journal: &'a mut Journal,
        matches: Matches,
        range: Range,
        answer: &'a Answer,
    ) -> Result<Self, ReadError> {
        journal.set_matches(matches);
        match range.till.checked_add(1) {
            Some(after) => journal.seek_realtime(after)?,
            None => journal.seek_tail()?,
        }
        journal.release_memory();
        Ok(Self {
            journal,
            range,
            answer,
            steps: 0,
            strays: 0,
        })
    }

    /// Turns back. A walk that has come to the journal's first entry stands on it, and would step over it.
    fn turned(mut self, is_at_head: bool) -> Self {
        if is_at_head {
            self.journal.seek_head();
        }
        self.strays = 0;
        self
    }

    pub(crate) fn backward(&mut self) -> Result<Step, ReadError> {
        self.step(Journal::previous_entry)
    }

    fn forward(&mut self) -> Result<Step, ReadError> {
        self.step(Journal::next_entry)
    }

    fn step(
        &mut self,
        next: impl Fn(&mut Journal) -> Result<Option<Entry>, ReadError>,
    ) -> Result<Step, ReadError> {
        loop {
            self.steps += 1;
            if self.steps.is_multiple_of(TURN) {
                self.journal.release_memory();
                if self.answer.is_cancelled() {
                    return Ok(Step::Cancelled);
                }
            }
            match next(self.journal)? {
                None => return Ok(Step::End { of_journal: true }),
                Some(entry) if self.range.contains(entry.realtime()) => {
                    self.strays = 0;
                    return Ok(Step::Entry(entry));
                }
                Some(_) if self.strays >= STRAY_MAX => {
                    return Ok(Step::End { of_journal: false });
                }
                Some(_) => self.strays += 1,
            }
        }
    }
}

/// An entry as a line.
pub(crate) fn line(entry: &Entry, settings: &LogSettings) -> Result<String, ReadError> {
    let fields = Fields::read(entry, SHOWN, settings.line_bytes)?;
    Ok(render(entry.realtime(), &fields, settings.line_bytes))
}

/// Answers with all wanted entries of a time; false when there are none.
pub(crate) fn send_lines(
    journal: &mut Journal,
    matches: Matches,
    range: Range,
    settings: &LogSettings,
    answer: &Answer,
) -> Result<bool, ReadError> {
    let mut walk = Walk::from_the_end(journal, matches, range, answer)?;
    let room = settings.part_bytes.saturating_sub(NOTE_BYTES).max(1);
    let mut cutter = Cutter::new(room, settings.part_count.max(1));
    let (is_at_head, is_cut) = loop {
        match walk.backward()? {
            Step::Entry(entry) if cutter.add(line(&entry, settings)?.len()) => {}
            // The walk stands on what did not fit.
            Step::Entry(_) => break (false, true),
            Step::End { of_journal } => break (of_journal, false),
            Step::Cancelled => return Ok(true),
        }
    };
    let parts = cutter.parts();
    if parts.is_empty() {
        return Ok(false);
    }
    let mut walk = walk.turned(is_at_head);
    let count = u64::try_from(parts.len()).unwrap_or(u64::MAX);
    for (number, lines) in (1..).zip(parts) {
        let mut text = String::with_capacity(settings.part_bytes);
        if number == 1 && is_cut {
            text.push_str(&format!(
                "-- older entries are left out: an answer has at most {count} parts of {} bytes; ask for a shorter time --\n",
                settings.part_bytes
            ));
        }
        for _ in 0..lines {
            match walk.forward()? {
                Step::Entry(entry) => text.push_str(&line(&entry, settings)?),
                // Damage that came meanwhile; the number of parts was promised.
                Step::End { .. } => break,
                Step::Cancelled => return Ok(true),
            }
        }
        if !answer.send_part(number, count, text.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(true)
}

/// Answers with a text that is at hand, cut at the ends of lines.
pub(crate) fn send_text(text: &str, settings: &LogSettings, answer: &Answer) {
    let mut cutter = Cutter::new(settings.part_bytes, settings.part_count.max(1));
    let mut first = text.len();
    for line in text.split_inclusive('\n').rev() {
        if !cutter.add(line.len()) {
            break;
        }
        first -= line.len();
    }
    let parts = cutter.parts();
    let count = u64::try_from(parts.len()).unwrap_or(u64::MAX);
    let mut lines = text[first..].split_inclusive('\n');
    for (number, of_part) in (1..).zip(parts) {
        let of_part = usize::try_from(of_part).unwrap_or(usize::MAX);
        let part: String = lines.by_ref().take(of_part).collect();
        if !answer.send_part(number, count, part.as_bytes()) {
            return;
        }
    }
}
