//! What a unit costs for as long as it is known.

use crate::spec::{ServiceSpec, UnitSpec};
use crate::state::UnitRecord;
use crate::types::{Machine, Mount, Path, Service, Socket, Swap, Timer};

#[test]
fn the_pieces_of_a_unit_stay_small() {
    let pieces = [
        ("UnitRecord", size_of::<UnitRecord>(), 288),
        ("UnitSpec", size_of::<UnitSpec>(), 160),
        ("ServiceSpec", size_of::<ServiceSpec>(), 288),
        ("Machine", size_of::<Machine>(), 16),
        ("Service", size_of::<Service>(), 256),
        ("Socket", size_of::<Socket>(), 128),
        ("Timer", size_of::<Timer>(), 112),
        ("Path", size_of::<Path>(), 24),
        ("Mount", size_of::<Mount>(), 96),
        ("Swap", size_of::<Swap>(), 96),
    ];
    for (name, size, limit) in pieces {
        println!("{name:12} {size:4} of {limit}");
    }
    for (name, size, limit) in pieces {
        assert!(size <= limit, "{name} has grown to {size} bytes");
    }
}
