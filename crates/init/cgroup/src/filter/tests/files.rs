//! Programs about file systems.

use super::*;

const LAYOUT: FileLayout = FileLayout {
    function: 7,
    inode: 32,
    super_block: 40,
    magic: 96,
};
const NAMES: [&str; 8] = [
    "tmpfs",
    "ext4",
    "ext2",
    "proc",
    "minix",
    "@network",
    "@basic-api",
    "@known",
];
/// Those of names, and of nothing that anybody knows.
const NUMBERS: [u32; 7] = [
    0x0102_1994,
    0xef53,
    0x9fa0,
    0x4d5a,
    0xff53_4d42,
    0xf97c_ff8c,
    0x1234,
];

fn file_systems() -> impl Strategy<Value = FileSystems> {
    let name = proptest::sample::select(&NAMES[..]);
    let rules = proptest::collection::vec((name, any::<bool>()), 0..5);
    rules.prop_map(|rules| {
        let mut listed = FileSystems::default();
        for (name, is_removed) in rules {
            let done = match is_removed {
                true => listed.remove(name),
                false => listed.add(name),
            };
            done.unwrap();
        }
        listed
    })
}

/// What the machine finds where a file is opened: the number, the places of what leads there, whether the process is exempt.
fn context(number: u32, is_exempt: bool) -> [u32; 5] {
    let place = |offset: i16| u32::try_from(offset).unwrap();
    let places = [LAYOUT.inode, LAYOUT.super_block, LAYOUT.magic].map(place);
    let [inode, super_block, magic] = places;
    [number, inode, super_block, magic, is_exempt.into()]
}

proptest! {
    #[test]
    fn files_are_judged_alike(
        listed in file_systems(),
        is_allow_list in any::<bool>(),
        number in proptest::sample::select(&NUMBERS[..]),
        is_exempt in any::<bool>(),
    ) {
        let filter = FileFilter { is_allow_list, listed, layout: LAYOUT };
        let program = filter.program();
        prop_assert_eq!((program.hook, program.function), (Hook::FileOpen, Some(7)));
        let verdict = run(&program.instructions, &context(number, is_exempt), None).verdict;
        prop_assert_eq!(verdict == 1, is_exempt || filter.allows(number));
    }
}

#[test]
fn lists_allow_or_deny() {
    let mut listed = FileSystems::default();
    listed.add("tmpfs").unwrap();
    let filter = |is_allow_list| FileFilter {
        is_allow_list,
        listed: listed.clone(),
        layout: LAYOUT,
    };
    for (number, is_listed) in [(0x0102_1994, true), (0xef53, false)] {
        assert_eq!(filter(true).allows(number), is_listed);
        assert_eq!(filter(false).allows(number), !is_listed);
    }
    let nothing = FileFilter {
        listed: FileSystems::default(),
        ..filter(true)
    };
    assert!(!nothing.allows(0x0102_1994), "a list of nothing");
}
