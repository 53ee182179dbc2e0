//! The kernel's description of its own types: damage is found, and nothing is looked for beyond its end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_cgroup::FileLayout;

fuzz_target!(|bytes: &[u8]| {
    let Ok(layout) = FileLayout::read(bytes) else {
        return;
    };
    // What was found is in there: numbers count from one, and places are those that an instruction reaches.
    assert!(layout.function > 0);
    let places = [layout.inode, layout.super_block, layout.magic];
    assert!(places.iter().all(|place| *place >= 0));
});
