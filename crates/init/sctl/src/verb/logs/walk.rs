//! From entry to entry.

use std::collections::VecDeque;

use muster_journal::{Cursor, Entry, Journal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::LogsError;
use super::output::Sink;
use super::query::{Query, Start};
use crate::verb::VerbError;

/// Prints what a query wants; how many entries that was.
pub(super) fn walk(
    journal: &mut Journal,
    query: &Query,
    sink: &mut Sink<'_>,
) -> Result<usize, VerbError> {
    if query.follow {
        // Watched before the first entry is read, so that nothing is missed in between.
        journal
            .watch()
            .map_err(|source| LogsError::Watch { source })?;
        journal
            .refresh()
            .map_err(|source| LogsError::Watch { source })?;
    }
    let printed = match (query.lines, query.reverse) {
        (lines, true) => backward(journal, query, lines, sink)?,
        (Some(lines), false) if query.start.is_none() => last(journal, query, lines, sink)?,
        (lines, false) => forward(journal, query, lines, sink)?,
    };
    if !query.follow {
        return Ok(printed);
    }
    follow(journal, query, printed, sink)
}

/// Goes to the beginning of what is wanted.
fn to_start(journal: &mut Journal, query: &Query) -> Result<(), LogsError> {
    let went = match (query.start, query.since) {
        (Some(Start::At(cursor)), _) => journal.seek_cursor(&cursor),
        (Some(Start::After(cursor)), _) => journal.seek_after_cursor(&cursor),
        (None, Some(since)) => journal.seek_realtime(since),
        (None, None) => {
            journal.seek_head();
            Ok(())
        }
    };
    went.map_err(LogsError::read)
}

/// Goes to the end of what is wanted.
fn to_end(journal: &mut Journal, query: &Query) -> Result<(), LogsError> {
    let went = match (query.start, query.until) {
        (Some(Start::At(cursor)), _) if query.reverse => {
            // Backwards from an entry, with the entry.
            journal.seek_after_cursor(&cursor)
        }
        (Some(Start::After(cursor)), _) if query.reverse => journal.seek_cursor(&cursor),
        (_, Some(until)) => journal.seek_realtime(until.saturating_add(1)),
        (_, None) => journal.seek_tail(),
    };
    went.map_err(LogsError::read)
}

fn fits(entry: &Entry, query: &Query) -> Result<bool, LogsError> {
    let Some(pattern) = &query.grep else {
        return Ok(true);
    };
    let message = entry.field(b"MESSAGE").map_err(LogsError::read)?;
    Ok(message.is_some_and(|message| pattern.is_match(&message)))
}

fn is_late(entry: &Entry, query: &Query) -> bool {
    query.until.is_some_and(|until| entry.realtime() > until)
}

fn is_early(entry: &Entry, query: &Query) -> bool {
    query.since.is_some_and(|since| entry.realtime() < since)
}

fn forward(
    journal: &mut Journal,
    query: &Query,
    lines: Option<usize>,
    sink: &mut Sink<'_>,
) -> Result<usize, VerbError> {
    to_start(journal, query)?;
    let mut printed = 0;
    while lines.is_none_or(|lines| printed < lines) {
        let Some(entry) = journal.next_entry().map_err(LogsError::read)? else {
            break;
        };
        if is_late(&entry, query) {
            break;
        }
        if is_early(&entry, query) || !fits(&entry, query)? {
            continue;
        }
        sink.print(&entry)?;
        printed += 1;
    }
    Ok(printed)
}

fn backward(
    journal: &mut Journal,
    query: &Query,
    lines: Option<usize>,
    sink: &mut Sink<'_>,
) -> Result<usize, VerbError> {
    to_end(journal, query)?;
    let mut printed = 0;
    while lines.is_none_or(|lines| printed < lines) {
        let Some(entry) = journal.previous_entry().map_err(LogsError::read)? else {
            break;
        };
        if is_early(&entry, query) {
            break;
        }
        if is_late(&entry, query) || !fits(&entry, query)? {
            continue;
        }
        sink.print(&entry)?;
        printed += 1;
    }
    Ok(printed)
}

/// The last so many, oldest first.
fn last(
    journal: &mut Journal,
    query: &Query,
    lines: usize,
    sink: &mut Sink<'_>,
) -> Result<usize, VerbError> {
    let found = last_entries(journal, query, lines)?;
    let printed = found.len();
    // To go on from there, also if nothing was found.
    let newest: Option<Cursor> = found.back().map(Entry::cursor);
    for entry in found {
        sink.print(&entry)?;
    }
    match newest {
        Some(cursor) => journal
            .seek_after_cursor(&cursor)
            .map_err(LogsError::read)?,
        None => to_end(journal, query)?,
    }
    Ok(printed)
}

/// The last so many, oldest first.
fn last_entries(
    journal: &mut Journal,
    query: &Query,
    lines: usize,
) -> Result<VecDeque<Entry>, LogsError> {
    to_end(journal, query)?;
    let mut found = VecDeque::new();
    while found.len() < lines {
        let Some(entry) = journal.previous_entry().map_err(LogsError::read)? else {
            break;
        };
        if is_early(&entry, query) {
            break;
        }
        if !is_late(&entry, query) && fits(&entry, query)? {
            found.push_front(entry);
        }
    }
    Ok(found)
}

/// Goes on with new entries until nobody reads them any more.
fn follow(
    journal: &mut Journal,
    query: &Query,
    mut printed: usize,
    sink: &mut Sink<'_>,
) -> Result<usize, VerbError> {
    loop {
        while let Some(entry) = journal.next_entry().map_err(LogsError::read)? {
            if is_late(&entry, query) {
                return Ok(printed);
            }
            if fits(&entry, query)? {
                sink.print(&entry)?;
                printed += 1;
            }
        }
        sink.flush()?;
        if !wait(journal)? {
            return Ok(printed);
        }
    }
}

/// Waits for new entries; `false` if the reader went away.
fn wait(journal: &mut Journal) -> Result<bool, VerbError> {
    let stdout = std::io::stdout();
    let Some(changes) = journal.watch_fd() else {
        return Ok(false);
    };
    // A closed pipe is reported without being asked for.
    let mut waited = [
        PollFd::from_borrowed_fd(changes, PollFlags::IN),
        PollFd::new(&stdout, PollFlags::empty()),
    ];
    match poll(&mut waited, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => {
            return Err(LogsError::Watch {
                source: muster_journal::WatchError::Io {
                    operation: "wait",
                    source: errno.into(),
                },
            }
            .into());
        }
    }
    if waited[1]
        .revents()
        .intersects(PollFlags::ERR | PollFlags::HUP)
    {
        return Ok(false);
    }
    let failed = |source| LogsError::Watch { source };
    journal.process_changes().map_err(failed)?;
    // A new file that could not be opened was perhaps just being made.
    if journal.skipped().next().is_some() {
        journal.refresh().map_err(failed)?;
    }
    Ok(true)
}
