//! Exits that core has not acknowledged yet.

use std::collections::VecDeque;

use muster_handover::{Exit, Outcome};

/// Exits that are held; when there are more, the kernel keeps the zombies.
pub const MOST_EXITS: usize = 4096;

/// Exits in the order in which they were reaped, with numbers that are never used again.
#[derive(Debug)]
pub struct ExitLog {
    /// Its room is reserved at the start and never grows.
    waiting: VecDeque<(i32, Outcome)>,
    most: usize,
    /// The number of the first one.
    first: u64,
    /// How many of them the present core has been told.
    told: usize,
}

impl ExitLog {
    /// An empty log; numbers begin with `first`.
    pub fn new(most: usize, first: u64) -> Self {
        Self {
            waiting: VecDeque::with_capacity(most),
            most,
            first,
            told: 0,
        }
    }

    /// Whether nothing more may be reaped.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.most
    }

    /// Adds a process that has been reaped; to be called only when the log is not full.
    pub fn push(&mut self, pid: i32, outcome: Outcome) {
        debug_assert!(!self.is_full(), "an exit was reaped without room for it");
        self.waiting.push_back((pid, outcome));
    }

    /// Forgets those up to and with `seq`. A number that was never told means the last one that was.
    pub fn acknowledge(&mut self, seq: u64) {
        let known = seq.saturating_add(1).saturating_sub(self.first);
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(self.told);
        self.waiting.drain(..known);
        self.told -= known;
        self.first += known as u64;
    }

    /// Those that the present core has not been told.
    pub fn untold(&self) -> impl Iterator<Item = Exit> {
        self.numbered().skip(self.told)
    }

    /// All, told or not.
    pub fn numbered(&self) -> impl Iterator<Item = Exit> {
        let numbers = self.first..;
        numbers
            .zip(&self.waiting)
            .map(|(seq, (pid, outcome))| Exit {
                seq,
                pid: *pid,
                outcome: *outcome,
            })
    }

    /// Whether there is one that the present core has not been told.
    pub fn has_untold(&self) -> bool {
        self.told < self.waiting.len()
    }

    /// The first so many of the untold ones have been told.
    pub fn mark_told(&mut self, count: usize) {
        self.told = (self.told + count).min(self.waiting.len());
    }

    /// A new core has been told nothing.
    pub fn begin_anew(&mut self) {
        self.told = 0;
    }

    /// The number of the first exit that is not acknowledged, or that the next one gets.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Forgets all of them; their numbers are not used again.
    pub fn clear(&mut self) {
        self.first += self.waiting.len() as u64;
        self.waiting.clear();
        self.told = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OK: Outcome = Outcome { raw: 0 };

    fn seqs(log: &ExitLog) -> Vec<u64> {
        log.untold().map(|exit| exit.seq).collect()
    }

    #[test]
    fn what_is_not_acknowledged_is_told_to_the_next_core() {
        let mut log = ExitLog::new(8, 1);
        for pid in 10..14 {
            log.push(pid, OK);
        }
        assert_eq!(seqs(&log), [1, 2, 3, 4]);
        log.mark_told(3);
        assert_eq!(seqs(&log), [4]);
        log.acknowledge(2);
        assert_eq!(seqs(&log), [4]);
        log.begin_anew();
        assert_eq!(seqs(&log), [3, 4]);
        assert_eq!(log.untold().next().unwrap().pid, 12);
    }

    #[test]
    fn only_what_was_told_can_be_acknowledged() {
        let mut log = ExitLog::new(8, 1);
        log.push(10, OK);
        log.push(11, OK);
        log.mark_told(1);
        log.acknowledge(u64::MAX);
        assert_eq!(seqs(&log), [2]);
        log.acknowledge(0);
        assert_eq!(seqs(&log), [2]);
    }

    #[test]
    fn cleared_numbers_are_not_used_again() {
        let mut log = ExitLog::new(2, 1);
        log.push(10, OK);
        log.push(11, OK);
        assert!(log.is_full());
        log.clear();
        log.push(12, OK);
        assert_eq!(seqs(&log), [3]);
    }

    proptest! {
        /// Whatever core acknowledges and however often it restarts, it hears of every exit at least once,
        /// in order, until it has acknowledged it.
        #[test]
        fn no_exit_is_lost(steps in prop::collection::vec((0_u8..5, 0_u64..40), 0..200)) {
            let mut log = ExitLog::new(16, 1);
            let mut pushed = 0;
            let mut acknowledged = 0;
            let mut highest_told = 0;
            for (step, number) in steps {
                match step {
                    0 | 1 if !log.is_full() => {
                        pushed += 1;
                        log.push(i32::try_from(pushed).unwrap(), OK);
                    }
                    2 => {
                        let telling: Vec<u64> = seqs(&log).into_iter().take(3).collect();
                        highest_told = telling.last().copied().unwrap_or(highest_told);
                        log.mark_told(telling.len());
                    }
                    3 if number <= highest_told => {
                        log.acknowledge(number);
                        acknowledged = number.max(acknowledged);
                    }
                    4 => {
                        log.begin_anew();
                        highest_told = acknowledged;
                        let expected: Vec<u64> = (acknowledged + 1..=pushed).collect();
                        prop_assert_eq!(seqs(&log), expected);
                    }
                    _ => {}
                }
                let all: Vec<Exit> = log.numbered().collect();
                prop_assert_eq!(all.len() as u64, pushed - acknowledged);
                prop_assert!(all.iter().all(|exit| u64::try_from(exit.pid).unwrap() == exit.seq));
            }
        }
    }
}
