//! Processors, from the text of `/proc/cpuinfo` and the topology in `/sys`.
//!
//! The text differs by architecture. On x86 every logical processor has a paragraph with model,
//! package and core; on ARM and RISC-V it has neither a model's name nor topology, so the model comes
//! from the numbers of implementer and part, and the topology from `/sys`.

mod model;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::ArchInfo;

use crate::tree::{Tree, tidy};

/// Cores of one kind in one package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processor {
    /// As the processor calls itself.
    pub model_name: String,
    /// Cores of this kind that are on.
    pub cores: u64,
    /// Hardware threads of these cores.
    pub threads: u64,
    /// One of these threads, by the kernel's number.
    pub first_cpu: u32,
}

/// Where one logical processor is, by `/sys`. Both are absent on machines that do not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    package: Option<u32>,
    /// The lowest number among the threads of its core: the same for all of them, and no others.
    core: Option<u32>,
}

impl Place {
    pub(crate) fn read(tree: Tree<'_>, cpu: u32) -> Self {
        let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        let text = |name: &str| tree.text_if_any(format!("{topology}/{name}"));
        Self {
            // -1 where the firmware does not say.
            package: text("physical_package_id").and_then(|text| text.trim().parse().ok()),
            core: text("thread_siblings_list").and_then(|text| first_of_list(&text)),
        }
    }
}

/// The first number of a list such as `0-3,8`.
pub(crate) fn first_of_list(list: &str) -> Option<u32> {
    let first = list.trim().split([',', '-']).next()?;
    first.parse().ok()
}

/// How many processors a list such as `0-3,8` names.
pub(crate) fn length_of_list(list: &str) -> Option<u64> {
    let mut length: u64 = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        length += u64::from(last.checked_sub(first)?) + 1;
    }
    Some(length)
}

/// The processors that the text lists, by package and model. None when it lists none, as on
/// architectures whose text is of another form.
pub(crate) fn parse(cpuinfo: &str, place: impl Fn(u32) -> Place) -> Vec<Processor> {
    #[derive(Default)]
    struct Kind {
        cores: BTreeSet<u32>,
        threads: u64,
        first_cpu: u32,
    }
    let mut kinds: BTreeMap<(u32, String), Kind> = BTreeMap::new();
    for paragraph in paragraphs(cpuinfo) {
        let Some(number) = paragraph.number("processor") else {
            continue;
        };
        let place = place(number);
        let package = place
            .package
            .or_else(|| paragraph.number("physical id"))
            .unwrap_or(0);
        let core = place
            .core
            .or_else(|| paragraph.number("core id"))
            .unwrap_or(number);
        let kind = kinds.entry((package, paragraph.model())).or_default();
        if kind.threads == 0 {
            kind.first_cpu = number;
        }
        kind.cores.insert(core);
        kind.threads += 1;
    }
    kinds
        .into_iter()
        .map(|((_, model_name), kind)| Processor {
            model_name,
            cores: u64::try_from(kind.cores.len()).unwrap_or(u64::MAX),
            threads: kind.threads,
            first_cpu: kind.first_cpu,
        })
        .collect()
}

/// Architecture in the words of OCI, from uname's machine; the variant of ARM also from cpuinfo.
pub(crate) fn arch(machine: &str, cpuinfo: &str) -> ArchInfo {
    let arm_version = || {
        let said = paragraphs(cpuinfo).find_map(|paragraph| {
            let version = paragraph.value("CPU architecture")?;
            version.bytes().next().filter(u8::is_ascii_digit)
        });
        said.map(|digit| format!("v{}", char::from(digit)))
    };
    let machine = tidy(machine);
    let (architecture, variant) = match machine.as_str() {
        "x86_64" => ("amd64", String::new()),
        "i386" | "i486" | "i586" | "i686" => ("386", String::new()),
        "aarch64" | "aarch64_be" => ("arm64", arm_version().unwrap_or_else(|| "v8".to_owned())),
        // A 32-bit system on a 64-bit core: what programs must be built for is the system's.
        "armv8l" => ("arm", "v7".to_owned()),
        arm if arm.starts_with("armv6") => ("arm", "v6".to_owned()),
        arm if arm.starts_with("armv7") => ("arm", "v7".to_owned()),
        arm if arm.starts_with("arm") => ("arm", arm_version().unwrap_or_default()),
        "loongarch64" => ("loong64", String::new()),
        "mips64" => ("mips64", String::new()),
        "" => (std::env::consts::ARCH, String::new()),
        other => (other, String::new()),
    };
    ArchInfo::new(architecture, variant).expect("the name is not empty")
}

/// The `key : value` lines between two empty ones.
#[derive(Debug, Clone, Copy)]
struct Paragraph<'a>(&'a str);

fn paragraphs(cpuinfo: &str) -> impl Iterator<Item = Paragraph<'_>> {
    cpuinfo.split("\n\n").map(Paragraph)
}

impl<'a> Paragraph<'a> {
    fn value(self, key: &str) -> Option<&'a str> {
        self.0.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim())
        })
    }

    fn number(self, key: &str) -> Option<u32> {
        self.value(key)?.parse().ok()
    }

    /// Hexadecimal, as ARM writes implementer and part.
    fn hexadecimal(self, key: &str) -> Option<u32> {
        u32::from_str_radix(self.value(key)?.strip_prefix("0x")?, 16).ok()
    }

    fn model(self) -> String {
        // A kernel may write something generic on ARM ("ARMv8 Processor rev 3"), so the part's
        // name comes first.
        if let (Some(implementer), Some(part)) = (
            self.hexadecimal("CPU implementer"),
            self.hexadecimal("CPU part"),
        ) {
            return model::arm(implementer, part);
        }
        let named = ["model name", "cpu model", "uarch", "cpu"]
            .into_iter()
            .filter_map(|key| self.value(key))
            .map(tidy)
            .find(|name| !name.is_empty());
        named.unwrap_or_else(|| "unknown".to_owned())
    }
}
