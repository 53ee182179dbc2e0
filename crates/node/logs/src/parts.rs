//! Cutting lines into parts, and packing them. Pure.

use std::collections::VecDeque;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Divides lines among parts, from the newest line back to the oldest, so that it is known how many parts there are before
/// the first one is made, and of too many lines the newest stay.
#[derive(Debug)]
pub(crate) struct Cutter {
    part_bytes: usize,
    part_count: usize,
    /// Lines of each part, the oldest part first.
    parts: VecDeque<u64>,
    /// Bytes in the oldest part.
    filled: usize,
}

impl Cutter {
    pub(crate) fn new(part_bytes: usize, part_count: usize) -> Self {
        Self {
            part_bytes,
            part_count,
            parts: VecDeque::new(),
            filled: 0,
        }
    }

    /// Takes the line before those that it has; false when there is no room for it.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        if let Some(lines) = self.parts.front_mut()
            && self.filled + bytes <= self.part_bytes
        {
            *lines += 1;
            self.filled += bytes;
            return true;
        }
        if self.parts.len() >= self.part_count {
            return false;
        }
        self.parts.push_front(1);
        self.filled = bytes;
        true
    }

    /// How many lines each part has, in the order of time.
    pub(crate) fn parts(self) -> Vec<u64> {
        self.parts.into()
    }
}

/// Compresses a part.
///
/// # Panics
/// Never: memory takes whatever is written.
pub(crate) fn pack(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::default());
    encoder
        .write_all(text)
        .and_then(|()| encoder.finish())
        .expect("memory takes whatever is written")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_part_unpacks_to_what_it_was() {
        let text = b"a line\n".repeat(1000);
        let packed = pack(&text);
        assert!(packed.len() < text.len() / 10);
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..])
            .read_to_end(&mut unpacked)
            .expect("gzip");
        assert_eq!(unpacked, text);
    }

    proptest! {
        /// The newest lines are divided without a gap, no part is too large, no room is wasted that a line would fit in,
        /// and a line is refused only when all parts are there.
        #[test]
        fn lines_are_divided(
            lines in prop::collection::vec(1_usize..100, 0..300), count in 1_usize..20,
        ) {
            const PART: usize = 100;
            let mut cutter = Cutter::new(PART, count);
            let kept: Vec<usize> =
                lines.iter().copied().take_while(|line| cutter.add(*line)).collect();
            let parts = cutter.parts();
            prop_assert!(parts.len() <= count);
            prop_assert!(kept.len() == lines.len() || parts.len() == count);
            prop_assert_eq!(parts.iter().sum::<u64>(), kept.len() as u64);
            // `lines` runs from the newest to the oldest, as the cutter sees them.
            let mut rest = kept.iter();
            let sizes: Vec<usize> = parts.iter().rev()
                .map(|lines| rest.by_ref().take(usize::try_from(*lines).expect("small")).sum())
                .collect();
            prop_assert!(sizes.iter().all(|size| *size > 0 && *size <= PART));
            // A part was closed only because the next older line, the last of the next part, did not fit.
            let mut taken = 0;
            for (index, size) in sizes.iter().enumerate() {
                taken += usize::try_from(parts[parts.len() - 1 - index]).expect("small");
                if let Some(next) = kept.get(taken) {
                    prop_assert!(size + next > PART);
                }
            }
            if let Some(refused) = lines.get(kept.len()) {
                prop_assert!(sizes.last().expect("full") + refused > PART);
            }
        }
    }
}
