//! What a disk was asked to do, and what of it a power cut leaves.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::blocks::Blocks;

/// What a drive writes whole or not at all.
const SECTOR: usize = 512;

/// One request that reached the disk.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Write { offset: u64, data: Arc<[u8]> },
    Flush,
}

/// What becomes of writes that no flush had completed for when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unflushed {
    /// None of them reached the medium.
    DropAll,
    /// Each of them reached the medium whole or not at all, chosen by the seed: a later one may
    /// have overtaken an earlier one.
    RandomSubset(u64),
    /// As [`Unflushed::RandomSubset`], but chosen for each 512-byte sector of each write.
    Torn(u64),
}

/// The requests that a disk has seen since it was made, in order.
///
/// A *position* in the log is a number of requests: position 0 is before the first one.
#[derive(Clone, Debug)]
pub struct WriteLog {
    base: Blocks,
    records: Vec<Record>,
}

impl WriteLog {
    pub(super) fn new(base: Blocks, records: Vec<Record>) -> Self {
        Self { base, records }
    }

    /// The position after the last request.
    pub fn end(&self) -> usize {
        self.records.len()
    }

    /// How many flushes completed between two positions.
    pub fn flushes(&self, from: usize, to: usize) -> usize {
        self.records[from..to]
            .iter()
            .filter(|record| matches!(record, Record::Flush))
            .count()
    }

    /// Chooses up to `count` positions in `from..=to` to cut the power at, ascending.
    ///
    /// Half of them stand directly before or after a flush, where ordering mistakes show; the rest
    /// anywhere. `to` is always one of them, and a short log is covered wholly.
    pub fn cut_points(&self, from: usize, to: usize, count: usize, seed: u64) -> Vec<usize> {
        let to = to.min(self.end());
        if from >= to || to - from < count {
            return (from.min(to)..=to).take(count).collect();
        }
        let mut random = StdRng::seed_from_u64(seed);
        let around_flushes: Vec<usize> = (from..to)
            .filter(|&at| matches!(self.records[at], Record::Flush))
            .flat_map(|at| [at, at + 1])
            .collect();
        let mut chosen = BTreeSet::from([to]);
        chosen.extend(around_flushes.sample(&mut random, count / 2));
        while chosen.len() < count {
            chosen.insert(random.random_range(from..=to));
        }
        while chosen.len() > count {
            chosen.pop_first();
        }
        chosen.into_iter().collect()
    }

    /// The disk as it is found after the power went at a position.
    pub fn image_at(&self, cut: usize, unflushed: Unflushed) -> Image {
        let before = &self.records[..cut.min(self.end())];
        let durable = before
            .iter()
            .rposition(|record| matches!(record, Record::Flush))
            .unwrap_or(0);
        let mut content = self.base.clone();
        for record in &before[..durable] {
            if let Record::Write { offset, data } = record {
                content.write(*offset, data);
            }
        }
        apply_unflushed(&mut content, &before[durable..], unflushed);
        Image { content }
    }
}

fn apply_unflushed(content: &mut Blocks, records: &[Record], unflushed: Unflushed) {
    let (seed, torn) = match unflushed {
        Unflushed::DropAll => return,
        Unflushed::RandomSubset(seed) => (seed, false),
        Unflushed::Torn(seed) => (seed, true),
    };
    let mut random = StdRng::seed_from_u64(seed);
    for record in records {
        let Record::Write { offset, data } = record else {
            continue;
        };
        let unit = if torn { SECTOR } else { data.len().max(1) };
        for (index, piece) in data.chunks(unit).enumerate() {
            if random.random_bool(0.5) {
                content.write(offset + (index * unit) as u64, piece);
            }
        }
    }
}

/// What a power cut left of a disk.
#[derive(Clone, Debug)]
pub struct Image {
    pub(super) content: Blocks,
}

impl Image {
    /// Writes the image into a new file, for instance as the disk of a guest.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        self.content.store(&File::create_new(path)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 64 * 1024;

    fn log_strategy() -> impl Strategy<Value = WriteLog> {
        let record = prop_oneof![
            3 => (0..SIZE / 512, 1..5_u64, any::<u8>()).prop_map(|(sector, count, fill)| {
                let count = count.min(SIZE / 512 - sector);
                let length = usize::try_from(count).unwrap() * SECTOR;
                Record::Write { offset: sector * 512, data: vec![fill; length].into() }
            }),
            1 => Just(Record::Flush),
        ];
        prop::collection::vec(record, 0..40)
            .prop_map(|records| WriteLog::new(Blocks::new(SIZE), records))
    }

    fn bytes(image: &Image) -> Vec<u8> {
        image.content.read(0, usize::try_from(SIZE).unwrap())
    }

    /// Every value a byte may have after the cut: the last durable one, or any written after it.
    fn possible(log: &WriteLog, cut: usize, at: u64) -> Vec<u8> {
        let mut values = vec![0];
        let mut pending = Vec::new();
        for record in &log.records[..cut] {
            match record {
                Record::Flush => {
                    if let Some(&last) = pending.last() {
                        values = vec![last];
                    }
                    pending.clear();
                }
                Record::Write { offset, data } => {
                    if let Some(index) = at.checked_sub(*offset)
                        && let Some(&byte) = data.get(usize::try_from(index).unwrap())
                    {
                        pending.push(byte);
                    }
                }
            }
        }
        values.extend(pending);
        values
    }

    proptest! {
        #[test]
        fn a_cut_keeps_what_was_flushed_and_invents_nothing(
            log in log_strategy(), cut in 0..41_usize, seed: u64,
        ) {
            let cut = cut.min(log.end());
            for mode in [Unflushed::DropAll, Unflushed::RandomSubset(seed), Unflushed::Torn(seed)] {
                let found = bytes(&log.image_at(cut, mode));
                for sector in 0..SIZE / 512 {
                    let at = sector * 512 + 7;
                    let values = possible(&log, cut, at);
                    let byte = found[usize::try_from(at).unwrap()];
                    if mode == Unflushed::DropAll {
                        prop_assert_eq!(byte, values[0]);
                    } else {
                        prop_assert!(values.contains(&byte));
                    }
                }
            }
        }

        #[test]
        fn the_same_seed_gives_the_same_image(log in log_strategy(), seed: u64) {
            for mode in [Unflushed::RandomSubset(seed), Unflushed::Torn(seed)] {
                let first = bytes(&log.image_at(log.end(), mode));
                prop_assert_eq!(first, bytes(&log.image_at(log.end(), mode)));
            }
        }

        #[test]
        fn cut_points_are_ascending_bounded_and_include_the_end(
            log in log_strategy(), from in 0..41_usize, to in 0..41_usize, count in 1..20_usize, seed: u64,
        ) {
            let to = to.min(log.end());
            let from = from.min(to);
            let points = log.cut_points(from, to, count, seed);
            prop_assert!(points.len() <= count);
            prop_assert_eq!(points.len(), count.min(to - from + 1));
            prop_assert!(points.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(points.last(), Some(&to));
            prop_assert!(points.iter().all(|point| (from..=to).contains(point)));
        }
    }

    #[test]
    fn unflushed_writes_can_survive_and_can_be_torn() {
        let data: Arc<[u8]> = vec![0xAA; 16 * SECTOR].into();
        let log = WriteLog::new(Blocks::new(SIZE), vec![Record::Write { offset: 0, data }]);
        let survivors = |mode| {
            let found = bytes(&log.image_at(1, mode));
            found
                .chunks(SECTOR)
                .filter(|sector| sector[0] == 0xAA)
                .count()
        };
        let whole: BTreeSet<usize> = (0..16)
            .map(|seed| survivors(Unflushed::RandomSubset(seed)))
            .collect();
        assert_eq!(whole, BTreeSet::from([0, 16]));
        assert!((0..16).any(|seed| (1..16).contains(&survivors(Unflushed::Torn(seed)))));
    }
}
