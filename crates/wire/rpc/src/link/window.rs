//! Durable messages between the owner's spool and the peer: what was written, what is proved.
//!
//! ```text
//!   spool --fetch--> pending --write--> entries --flushed + probe answered--> confirmed
//!                       \_________________/
//!                        at most the window; thrown away when the stream breaks and fetched again
//! ```
//!
//! A message counts as confirmed only when a probe came back that began after the message's last
//! byte was in the socket of the same connection.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

/// Bounds of what may be written and unconfirmed, and how it is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimits {
    /// Messages that are fetched and not confirmed: the most that one broken stream can repeat.
    pub messages: usize,
    /// The same in bytes; one message may go over it.
    pub bytes: usize,
    /// How long after a write its proof begins, so that one probe proves many messages. A window
    /// that is half full does not wait.
    pub probe_delay: Duration,
    /// A probe unanswered for so long ends the stream.
    pub probe_timeout: Duration,
    /// How long to leave a spool alone that failed to read.
    pub retry: Duration,
}

impl Default for WindowLimits {
    fn default() -> Self {
        Self {
            messages: 256,
            bytes: 1024 * 1024,
            probe_delay: Duration::from_secs(1),
            probe_timeout: Duration::from_secs(3),
            retry: Duration::from_secs(1),
        }
    }
}

/// What to read from the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchRange {
    /// Only messages with a higher id.
    pub after: u64,
    /// At most so many.
    pub messages: usize,
    /// At most so many bytes together, but at least one message.
    pub bytes: usize,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    len: usize,
    /// Position of the message's last byte on the stream.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
enum Fetch {
    Idle,
    Running,
    /// Running for a stream that is gone: its result is thrown away.
    Outdated,
    FailedUntil(Duration),
}

#[derive(Clone, Copy, Debug)]
enum Probe {
    None,
    /// Something flushed is unproved; a probe begins then.
    Due(Duration),
    Running {
        covers: u64,
        expires: Duration,
    },
}

/// The batch a spool returned is not ascending from where it was asked to begin.
#[derive(Debug)]
pub(super) struct BadBatch;

#[derive(Debug)]
pub(super) struct Window {
    limits: WindowLimits,
    confirmed: u64,
    cursor: u64,
    /// The spool may hold more than was fetched.
    more: bool,
    fetch: Fetch,
    probe: Probe,
    pending: VecDeque<(u64, Bytes)>,
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Window {
    pub(super) fn new(limits: WindowLimits) -> Self {
        Self {
            limits,
            confirmed: 0,
            cursor: 0,
            more: true,
            fetch: Fetch::Idle,
            probe: Probe::None,
            pending: VecDeque::new(),
            entries: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The stream is gone; everything unconfirmed is fetched and sent again on the next one.
    /// Returns how many messages were written in vain.
    pub(super) fn disconnect(&mut self) -> usize {
        let unproved = self.entries.len();
        self.entries.clear();
        self.pending.clear();
        self.bytes = 0;
        self.cursor = self.confirmed;
        self.more = true;
        self.probe = Probe::None;
        if let Fetch::Running = self.fetch {
            self.fetch = Fetch::Outdated;
        }
        unproved
    }

    /// The owner appended something.
    pub(super) fn offer(&mut self) {
        self.more = true;
    }

    /// What to fetch now, if there may be something and room for it.
    pub(super) fn start_fetch(&mut self, now: Duration) -> Option<FetchRange> {
        if matches!(self.fetch, Fetch::FailedUntil(until) if until <= now) {
            self.fetch = Fetch::Idle;
        }
        let ready = matches!(self.fetch, Fetch::Idle);
        let messages = self.limits.messages.saturating_sub(self.entries.len());
        let bytes = self.limits.bytes.saturating_sub(self.bytes);
        if !ready || !self.more || !self.pending.is_empty() || messages == 0 || bytes == 0 {
            return None;
        }
        self.more = false;
        self.fetch = Fetch::Running;
        Some(FetchRange {
            after: self.cursor,
            messages,
            bytes,
        })
    }

    /// Takes a batch over. A batch that is not strictly ascending is refused as a whole.
    pub(super) fn fetched(
        &mut self,
        now: Duration,
        batch: Vec<(u64, Bytes)>,
    ) -> Result<(), BadBatch> {
        if let Fetch::Outdated = self.fetch {
            self.fetch = Fetch::Idle;
            return Ok(());
        }
        let room = self.limits.messages.saturating_sub(self.entries.len());
        let mut last = self.cursor;
        let ascending = batch
            .iter()
            .all(|(id, _)| std::mem::replace(&mut last, *id) < *id);
        if !ascending || batch.len() > room {
            self.fetch_failed(now);
            return Err(BadBatch);
        }
        self.fetch = Fetch::Idle;
        // An empty batch means "nothing more" unless something was offered in the meantime.
        self.more |= !batch.is_empty();
        self.cursor = last;
        self.bytes += batch
            .iter()
            .map(|(_, message)| message.len())
            .sum::<usize>();
        self.pending.extend(batch);
        Ok(())
    }

    pub(super) fn fetch_failed(&mut self, now: Duration) {
        self.more = true;
        self.fetch = match self.fetch {
            Fetch::Outdated => Fetch::Idle,
            Fetch::Idle | Fetch::Running | Fetch::FailedUntil(_) => {
                Fetch::FailedUntil(now.saturating_add(self.limits.retry))
            }
        };
    }

    /// The next message to write, if any.
    pub(super) fn next_pending(&mut self) -> Option<(u64, Bytes)> {
        self.pending.pop_front()
    }

    /// The message's last byte will be at `end` on the stream.
    pub(super) fn written(&mut self, id: u64, len: usize, end: u64) {
        self.entries.push_back(Entry { id, len, end });
    }

    /// Arms the probe for what has been flushed; returns true when one must begin now.
    pub(super) fn start_probe(&mut self, now: Duration, flushed: u64) -> bool {
        if let Probe::Running { .. } = self.probe {
            return false;
        }
        let provable = self.entries.partition_point(|entry| entry.end <= flushed);
        let Some(last) = provable.checked_sub(1) else {
            return false;
        };
        let due = match self.probe {
            Probe::Due(at) => at,
            Probe::None | Probe::Running { .. } => now.saturating_add(self.limits.probe_delay),
        };
        let provable_bytes: usize = self.entries.iter().take(provable).map(|e| e.len).sum();
        let half_full =
            provable * 2 >= self.limits.messages || provable_bytes * 2 >= self.limits.bytes;
        if due > now && !half_full {
            self.probe = Probe::Due(due);
            return false;
        }
        let expires = now.saturating_add(self.limits.probe_timeout);
        self.probe = Probe::Running {
            covers: self.entries[last].id,
            expires,
        };
        true
    }

    /// A probe came back. Returns the id up to which everything is confirmed now; nothing when the
    /// answer is not conclusive, and then another probe follows.
    pub(super) fn probed(&mut self, conclusive: bool) -> Option<u64> {
        let Probe::Running { covers, .. } = self.probe else {
            return None;
        };
        self.probe = Probe::None;
        if !conclusive {
            return None;
        }
        while self.entries.front().is_some_and(|entry| entry.id <= covers) {
            let entry = self
                .entries
                .pop_front()
                .expect("the front was just looked at");
            self.bytes -= entry.len;
        }
        self.confirmed = covers;
        Some(covers)
    }

    pub(super) fn probe_expired(&self, now: Duration) -> bool {
        matches!(self.probe, Probe::Running { expires, .. } if expires <= now)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let probe = match self.probe {
            Probe::None => None,
            Probe::Due(at) => Some(at),
            Probe::Running { expires, .. } => Some(expires),
        };
        let fetch = match self.fetch {
            Fetch::FailedUntil(until) if self.more => Some(until),
            Fetch::Idle | Fetch::Running | Fetch::Outdated | Fetch::FailedUntil(_) => None,
        };
        probe.into_iter().chain(fetch).min()
    }

    /// Messages fetched and not confirmed.
    pub(super) fn unconfirmed(&self) -> usize {
        self.entries.len() + self.pending.len()
    }

    #[cfg(test)]
    pub(super) fn unconfirmed_bytes(&self) -> usize {
        self.bytes
    }
}
