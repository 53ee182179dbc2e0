//! The work of one pass: parcels are labelled, compared, weighed, booked and passed on.
//!
//! Written so that an optimiser cannot do it once and for all: every pass starts from what the last
//! one left, calls are not inlined, and what they are given goes through `black_box`.

use std::cmp::Ordering;
use std::hint::black_box;

/// Characters on a label.
const LABEL: usize = 30;
const PARCELS: usize = 4;
const LEDGER: usize = 64;
const GRID: usize = 16;

/// A record of several kinds of fields, copied whole in every pass.
#[derive(Debug, Clone, Copy)]
struct Parcel {
    label: [u8; LABEL],
    weight: u32,
    class: Class,
    next: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Packet,
    Crate,
}

/// What the passes work on; fits into the smallest of caches.
#[derive(Debug)]
pub(super) struct Workload {
    parcels: [Parcel; PARCELS],
    ledger: [u32; LEDGER],
    grid: [[u32; GRID]; GRID],
    turn: u32,
}

impl Workload {
    pub(super) fn new() -> Self {
        let mut parcels = [Parcel {
            label: [b'm'; LABEL],
            weight: 40,
            class: Class::Letter,
            next: 0,
        }; PARCELS];
        for (index, parcel) in parcels.iter_mut().enumerate() {
            parcel.next = (index + 1) % PARCELS;
        }
        Self {
            parcels,
            ledger: [0; LEDGER],
            grid: [[0; GRID]; GRID],
            turn: 0,
        }
    }

    /// One pass. The state stays in place: moving it would be most of the work.
    pub(super) fn pass(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        let at = index(self.turn, PARCELS);
        let mut parcel = self.parcels[at];
        relabel(&mut parcel, self.turn);
        let neighbour = &mut self.parcels[parcel.next % PARCELS];
        let order = compare(&parcel.label, &neighbour.label);
        parcel.weight = weigh(parcel.weight, self.turn);
        if order == Ordering::Greater {
            parcel.weight = weigh(neighbour.weight, parcel.weight);
        }
        parcel.class = sort(parcel.class, parcel.weight);
        neighbour.label = parcel.label;
        neighbour.class = sort(neighbour.class, parcel.weight);
        self.parcels[at] = parcel;
        self.book(parcel.weight, at);
    }

    #[inline(never)]
    fn book(&mut self, weight: u32, at: usize) {
        let line = index(weight, LEDGER);
        let entry = self.ledger[line].wrapping_add(weight);
        self.ledger[line] = entry;
        self.ledger[(line + 7) % LEDGER] = entry ^ self.turn;
        let row = index(entry, GRID);
        for cell in &mut self.grid[row][at..at + 3] {
            *cell = cell.wrapping_add(entry);
        }
        self.grid[(row + 5) % GRID][at] = weight;
    }
}

fn index(number: u32, length: usize) -> usize {
    number as usize % length
}

#[inline(never)]
fn relabel(parcel: &mut Parcel, turn: u32) {
    let digit = black_box(turn) % 10;
    parcel.label[LABEL - 1] = b'0' + digit.to_le_bytes()[0];
    parcel.label[LABEL - 2] = b'a' + (digit / 4).to_le_bytes()[0];
}

#[inline(never)]
fn compare(left: &[u8; LABEL], right: &[u8; LABEL]) -> Ordering {
    black_box(left).cmp(black_box(right))
}

#[inline(never)]
fn weigh(weight: u32, turn: u32) -> u32 {
    let heavier = black_box(weight)
        .wrapping_mul(5)
        .wrapping_sub(black_box(turn));
    heavier / black_box(7) + 2
}

#[inline(never)]
fn sort(class: Class, weight: u32) -> Class {
    match black_box(class) {
        Class::Letter if weight > 100 => Class::Crate,
        Class::Letter => Class::Packet,
        Class::Packet if weight.is_multiple_of(2) => Class::Letter,
        Class::Packet => Class::Crate,
        Class::Crate => Class::Letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_leave_traces_and_never_panic() {
        let mut workload = Workload::new();
        for _ in 0..100_000 {
            workload.pass();
        }
        assert_eq!(workload.turn, 100_000);
        assert!(workload.ledger.iter().filter(|entry| **entry != 0).count() > LEDGER / 2);
        assert!(workload.grid.iter().flatten().any(|cell| *cell != 0));
    }

    #[test]
    fn counting_past_the_end_wraps() {
        let mut workload = Workload::new();
        workload.turn = u32::MAX;
        workload.pass();
        assert_eq!(workload.turn, 0);
    }
}
