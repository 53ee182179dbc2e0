//! Running averages, kept as a sum.
//!
//! The first sample counts as a whole window of itself; each later one takes the place of an average one. So the sum of `n`
//! samples becomes `sum - round(sum / n) + x`, and the average is `round(sum / n)`.

use std::num::NonZeroU64;

use muster_api::domain::{MonitoringData, PartitionName, PartitionUsage, Timestamp};

use crate::snapshot::ResourceUse;

/// The running average of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Average {
    samples: NonZeroU64,
    /// Of a whole window; `None` before the first sample. Never more than `samples` times the largest sample.
    sum: Option<u128>,
}

impl Average {
    fn new(samples: NonZeroU64) -> Self {
        Self { samples, sum: None }
    }

    fn add(&mut self, sample: u64) {
        let sample = u128::from(sample);
        self.sum = Some(match self.sum {
            None => sample * u128::from(self.samples.get()),
            Some(sum) => sum - self.rounded(sum) + sample,
        });
    }

    fn value(&self) -> Option<u64> {
        let value = self.rounded(self.sum?);
        Some(u64::try_from(value).unwrap_or(u64::MAX))
    }

    /// Half is rounded up.
    fn rounded(&self, sum: u128) -> u128 {
        let samples = u128::from(self.samples.get());
        (sum + samples / 2) / samples
    }
}

/// The running averages of a node or an instance. What is absent in a sample keeps its average.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Averages {
    cpu: Average,
    ram: Average,
    download: Average,
    upload: Average,
    partitions: Vec<(PartitionName, Average)>,
}

impl Averages {
    pub(crate) fn new(samples: NonZeroU64) -> Self {
        let empty = Average::new(samples);
        Self {
            cpu: empty.clone(),
            ram: empty.clone(),
            download: empty.clone(),
            upload: empty,
            partitions: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, sample: &ResourceUse) {
        let traffic = sample.traffic;
        for (average, value) in [
            (&mut self.cpu, sample.cpu.map(|cpu| cpu.dmips)),
            (&mut self.ram, sample.ram),
            (&mut self.download, traffic.map(|traffic| traffic.download)),
            (&mut self.upload, traffic.map(|traffic| traffic.upload)),
        ] {
            if let Some(value) = value {
                average.add(value);
            }
        }
        let samples = self.cpu.samples;
        // Partitions that are no longer there go, and new ones begin.
        let mut before = std::mem::take(&mut self.partitions);
        for partition in &sample.partitions {
            let known = before.iter().position(|(name, _)| *name == partition.name);
            let mut average = known.map_or_else(
                || Average::new(samples),
                |known| before.swap_remove(known).1,
            );
            if let Some(used) = partition.used {
                average.add(used);
            }
            self.partitions.push((partition.name.clone(), average));
        }
    }

    pub(crate) fn data(&self, timestamp: Timestamp) -> MonitoringData {
        let partitions = self.partitions.iter().filter_map(|(name, average)| {
            Some(PartitionUsage {
                name: name.clone(),
                used_size: average.value()?,
            })
        });
        MonitoringData {
            timestamp,
            ram: self.ram.value().unwrap_or_default(),
            cpu: self.cpu.value().unwrap_or_default(),
            partitions: partitions.collect(),
            download: self.download.value().unwrap_or_default(),
            upload: self.upload.value().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::snapshot::PartitionUse;

    fn of(samples: u64, values: &[u64]) -> Vec<u64> {
        let mut average = Average::new(NonZeroU64::new(samples).unwrap());
        let mut after = |value: &u64| {
            average.add(*value);
            average.value().unwrap()
        };
        values.iter().map(&mut after).collect()
    }

    #[test]
    fn the_sum_is_kept_with_rounding() {
        // 3 * 10 = 30; 30 - 10 + 20 = 40 -> 13.3; 40 - 13 + 20 = 47 -> 15.7; 47 - 16 + 0 = 31 -> 10.3.
        assert_eq!(of(3, &[10, 20, 20, 0]), [10, 13, 16, 10]);
        // 2 * 1 = 2; 2 - 1 + 2 = 3 -> 1.5, rounded up; 3 - 2 + 2 = 3.
        assert_eq!(of(2, &[1, 2, 2]), [1, 2, 2]);
    }

    #[test]
    fn a_window_of_one_is_the_sample_itself() {
        assert_eq!(of(1, &[5, 0, u64::MAX, 7]), [5, 0, u64::MAX, 7]);
    }

    #[test]
    fn what_is_absent_keeps_its_average_and_partitions_come_and_go() {
        let partition = |name: &str, used| PartitionUse {
            name: PartitionName::new(name).unwrap(),
            used,
            size: None,
        };
        let sample = |ram, partitions| ResourceUse {
            ram,
            partitions,
            ..ResourceUse::default()
        };
        let now = Timestamp::try_from(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let mut averages = Averages::new(NonZeroU64::new(2).unwrap());
        averages.add(&sample(
            Some(8),
            vec![partition("a", Some(4)), partition("b", None)],
        ));
        averages.add(&sample(
            None,
            vec![partition("a", Some(6)), partition("b", None)],
        ));
        let data = averages.data(now);
        assert_eq!((data.ram, data.cpu), (8, 0));
        assert_eq!(data.partitions.len(), 1, "the other was never measured");
        assert_eq!(data.partitions[0].used_size, 5);
        averages.add(&sample(None, vec![partition("b", Some(1))]));
        let data = averages.data(now);
        assert_eq!(
            (data.partitions.len(), data.partitions[0].used_size),
            (1, 1)
        );
    }

    proptest! {
        /// An average never leaves the range of what was averaged, and follows a constant.
        #[test]
        fn stays_within_its_samples(
            samples in 1..200u64,
            values in prop::collection::vec(any::<u64>(), 1..100),
            last in any::<u64>(),
        ) {
            let (low, high) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            let seen = of(samples, &values);
            prop_assert_eq!(seen[0], values[0]);
            prop_assert!(seen.iter().all(|value| (low..=high).contains(value)));
            let mut settles = values;
            settles.extend(vec![last; usize::try_from(samples * 90).unwrap()]);
            let settled = *of(samples, &settles).last().unwrap();
            // Rounding stops it at most half a window's step away.
            prop_assert!(settled.abs_diff(last) <= samples, "{settled} {last}");
        }
    }
}
