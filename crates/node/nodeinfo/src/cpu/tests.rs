use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

fn nowhere(_cpu: u32) -> Place {
    Place::default()
}

/// Two packages of two cores with two threads each, in the order in which Linux numbers them.
fn server() -> String {
    let mut text = String::new();
    for cpu in 0..8 {
        let (package, core) = (cpu / 2 % 2, cpu % 2);
        writeln!(
            text,
            "processor\t: {cpu}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R)  Xeon(R) Gold 6140 CPU @ 2.30GHz\n\
             physical id\t: {package}\nsiblings\t: 4\ncore id\t\t: {core}\ncpu cores\t: 2\nflags\t\t: fpu sse2\n"
        )
        .unwrap();
    }
    text
}

/// Four small and two large cores, and the board's paragraph at the end.
const BIG_LITTLE: &str = "\
processor\t: 0\nBogoMIPS\t: 48.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd03\nCPU revision\t: 4\n
processor\t: 1\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd03\n
processor\t: 2\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd03\n
processor\t: 3\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd03\n
processor\t: 4\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd08\n
processor\t: 5\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd08\n
Hardware\t: A board\nRevision\t: 0000\nSerial\t\t: 0000000000000000\n";

/// A small 32-bit board whose kernel names the architecture, not the core.
const ARM32: &str = "\
processor\t: 0\nmodel name\t: ARMv7 Processor rev 5 (v7l)\nCPU implementer\t: 0x41\nCPU architecture: 7\nCPU part\t: 0xc07\n";

const RISCV: &str = "\
processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nmmu\t\t: sv39\nuarch\t\t: sifive,u74-mc\n
processor\t: 1\nhart\t\t: 2\nisa\t\t: rv64imafdc\nmmu\t\t: sv39\nuarch\t\t: sifive,u74-mc\n";

fn summary(processors: &[Processor]) -> Vec<(&str, u64, u64, u32)> {
    let line = |p: &Processor| (p.cores, p.threads, p.first_cpu);
    processors
        .iter()
        .map(|p| {
            let (cores, threads, first) = line(p);
            (p.model_name.as_str(), cores, threads, first)
        })
        .collect()
}

#[test]
fn a_server_has_one_entry_per_package() {
    let name = "Intel(R) Xeon(R) Gold 6140 CPU @ 2.30GHz";
    assert_eq!(
        summary(&parse(&server(), nowhere)),
        [(name, 2, 4, 0), (name, 2, 4, 2)]
    );
}

#[test]
fn the_topology_of_sys_goes_before_the_text() {
    // The text numbers cores anew in every package; /sys tells that all are in one.
    let place = |cpu: u32| Place {
        package: Some(0),
        core: Some(cpu % 4),
    };
    let processors = parse(&server(), place);
    assert_eq!(processors.len(), 1);
    assert_eq!((processors[0].cores, processors[0].threads), (4, 8));
}

#[test]
fn kinds_of_cores_are_told_apart() {
    assert_eq!(
        summary(&parse(BIG_LITTLE, nowhere)),
        [("ARM Cortex-A53", 4, 4, 0), ("ARM Cortex-A72", 2, 2, 4)]
    );
}

#[test]
fn other_architectures() {
    assert_eq!(
        summary(&parse(ARM32, nowhere)),
        [("ARM Cortex-A7", 1, 1, 0)]
    );
    assert_eq!(
        summary(&parse(RISCV, nowhere)),
        [("sifive,u74-mc", 2, 2, 0)]
    );
    assert_eq!(
        summary(&parse(
            "processor : 0\nCPU implementer : 0x99\nCPU part : 0x1\n",
            nowhere
        )),
        [("ARM implementer 0x99 part 0x001", 1, 1, 0)]
    );
    assert_eq!(
        summary(&parse("processor : 3\n", nowhere)),
        [("unknown", 1, 1, 3)]
    );
    assert_eq!(
        parse("vendor_id : IBM/S390\n# processors : 2\n", nowhere),
        []
    );
}

#[test]
fn architectures_in_the_words_of_oci() {
    for (machine, cpuinfo, expected) in [
        ("x86_64", "", ("amd64", None)),
        ("i686", "", ("386", None)),
        ("aarch64", BIG_LITTLE, ("arm64", Some("v8"))),
        (
            "aarch64",
            "CPU architecture: AArch64\n",
            ("arm64", Some("v8")),
        ),
        ("armv7l", ARM32, ("arm", Some("v7"))),
        ("armv6l", "", ("arm", Some("v6"))),
        ("armv8l", BIG_LITTLE, ("arm", Some("v7"))),
        ("riscv64", RISCV, ("riscv64", None)),
        ("ppc64le", "", ("ppc64le", None)),
    ] {
        let arch = arch(machine, cpuinfo);
        assert_eq!((arch.architecture(), arch.variant()), expected, "{machine}");
    }
}

#[test]
fn lists_of_processors() {
    assert_eq!(length_of_list("0-3,8,10-11\n"), Some(7));
    assert_eq!(length_of_list("0"), Some(1));
    assert_eq!(first_of_list("4-7\n"), Some(4));
    for list in ["", "3-1", "a", "1,", "-1"] {
        assert_eq!(length_of_list(list), None, "{list:?}");
    }
    assert_eq!(length_of_list("0-4294967295"), Some(1 << 32));
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>(), machine in any::<String>()) {
        let _ = parse(&text, nowhere);
        let _ = length_of_list(&text);
        let _ = first_of_list(&text);
        prop_assert!(!arch(&machine, &text).architecture().is_empty());
    }

    /// Lines of the real format in any order and number: every processor is counted once.
    #[test]
    fn every_processor_is_in_exactly_one_entry(
        cpus in proptest::collection::vec((0_u32..4, 0_u32..8, 0_usize..3), 1..40),
    ) {
        let models = ["model name : a", "CPU implementer : 0x41\nCPU part : 0xd05", "uarch : c"];
        let text: String = cpus
            .iter()
            .enumerate()
            .map(|(number, (package, core, model))| {
                let model = models[*model];
                format!("processor : {number}\n{model}\nphysical id : {package}\ncore id : {core}\n\n")
            })
            .collect();
        let processors = parse(&text, nowhere);
        let threads: u64 = processors.iter().map(|p| p.threads).sum();
        prop_assert_eq!(threads, cpus.len() as u64);
        for processor in &processors {
            prop_assert!(processor.cores >= 1 && processor.cores <= processor.threads);
        }
    }
}
