//! What instances wrote before each failed end.
//!
//! The init system's words about units lead to the ends without a look at anything else; the lines of each are then found
//! by the id of the run, so that what the log daemon took in after the end is there as well.

mod end;

use std::collections::BTreeSet;

use muster_journal::{Journal, ReadError};

use self::end::{End, Ends, TOLD};
use crate::answer::Answer;
use crate::fields::Fields;
use crate::line::time_text;
use crate::scan::{Step, Walk, line};
use crate::settings::LogSettings;
use crate::wanted::{Range, lines_of_run, words_about};

/// Words about ends that are looked at, at most: an instance that fails for years has said enough.
const WORDS_MAX: usize = 100_000;
/// Of one field of these words.
const WORD_BYTES: usize = 4096;

/// A section for each failed end of these units, in the order of time; nothing when there was none, or nobody waits.
pub(crate) fn text(
    journal: &mut Journal,
    units: &BTreeSet<String>,
    range: Range,
    settings: &LogSettings,
    answer: &Answer,
) -> Result<String, ReadError> {
    let mut ends = Ends::new(settings.crash_count);
    let mut walk = Walk::from_the_end(journal, words_about(units), range, answer)?;
    for _ in 0..WORDS_MAX {
        match walk.backward()? {
            Step::Entry(entry) => {
                let fields = Fields::read(&entry, TOLD, WORD_BYTES)?;
                if !ends.take(entry.realtime(), &fields) {
                    break;
                }
            }
            Step::End { .. } => break,
            Step::Cancelled => return Ok(String::new()),
        }
    }
    let mut text = String::new();
    for end in ends.failed() {
        text.push_str(&format!(
            "== {} ended at {}: {} ==\n",
            end.unit,
            time_text(end.realtime),
            end.reason()
        ));
        let Some(lines) = lines_before(journal, &end, range, settings, answer)? else {
            return Ok(String::new());
        };
        for line in lines.iter().rev() {
            text.push_str(line);
        }
    }
    Ok(text)
}

/// The newest lines of a run, the newest first; none when nobody waits.
fn lines_before(
    journal: &mut Journal,
    end: &End,
    range: Range,
    settings: &LogSettings,
    answer: &Answer,
) -> Result<Option<Vec<String>>, ReadError> {
    let matches = lines_of_run(&end.unit, end.invocation.as_deref());
    // Without the id of the run, what comes later is of a later one.
    let till = match end.invocation {
        Some(_) => range.till,
        None => end.realtime,
    };
    let range = Range { till, ..range };
    let mut walk = Walk::from_the_end(journal, matches, range, answer)?;
    let (mut lines, mut bytes) = (Vec::new(), 0);
    loop {
        match walk.backward()? {
            Step::Entry(entry) => {
                let line = line(&entry, settings)?;
                bytes += line.len();
                if bytes > settings.crash_bytes {
                    return Ok(Some(lines));
                }
                lines.push(line);
            }
            Step::End { .. } => return Ok(Some(lines)),
            Step::Cancelled => return Ok(None),
        }
    }
}
