//! Any bytes as the kernel's tables of mounts and swaps.

#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_activation::mounts::{MountLine, MountTable, SwapTable};

fuzz_target!(|bytes: &[u8]| {
    let _ = MountLine::parse(bytes);
    let mut table = MountTable::default();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    for text in [first, bytes, second, bytes] {
        for change in table.update(text) {
            assert_eq!(change.now.as_ref(), table.at(&change.place));
        }
        // The same again changes nothing, unless two lines have the same number and fight about it.
        let again = table.update(text);
        assert!(again.iter().all(|change| table.at(&change.place) == change.now.as_ref()));
    }
    let mut swaps = SwapTable::default();
    swaps.update(bytes);
    assert_eq!(swaps.update(bytes), []);
});
