//! What a program is built for, and whether it runs on a node.

use muster_api::domain::{ArchInfo, NodeInfo, OsInfo};

use crate::read::{At, ReadDocumentError};

/// An operating system and a processor, in OCI's (Go's) words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// `linux`.
    pub os: String,
    /// `amd64`, `arm64`, `arm` ...
    pub architecture: String,
    /// `v7`, `v8` ...
    pub variant: Option<String>,
    /// Of the operating system.
    pub os_version: Option<String>,
    /// What the operating system must offer, or what it offers.
    pub os_features: Vec<String>,
}

/// How well an image suits a node. Greater is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It says nothing about where it runs.
    Unsaid,
    /// It is for an older variant of the processor; the greater the newer.
    Older(u32),
    /// It is for the processor, without a word about variants.
    AnyVariant,
    /// It is for the very variant.
    Exact,
}

impl Platform {
    /// A platform with nothing but the two names that every one has.
    pub fn new(os: impl Into<String>, architecture: impl Into<String>) -> Self {
        Self {
            os: os.into(),
            architecture: architecture.into(),
            variant: None,
            os_version: None,
            os_features: Vec::new(),
        }
    }

    /// The platform that this program was built for.
    pub fn of_this_program() -> Self {
        Self::new(std::env::consts::OS, go_name(std::env::consts::ARCH))
    }

    /// The same with a variant of the processor.
    #[must_use]
    pub fn with_variant(mut self, variant: impl Into<String>) -> Self {
        self.variant = Some(variant.into()).filter(|variant| !variant.is_empty());
        self
    }

    /// What a runtime announces.
    pub fn of_runtime(os: &OsInfo, arch: &ArchInfo) -> Self {
        Self {
            os: os.os().to_owned(),
            architecture: arch.architecture().to_owned(),
            variant: arch.variant().map(str::to_owned),
            os_version: os.version().map(str::to_owned),
            os_features: os.features().to_vec(),
        }
    }

    /// What a node runs, with the variant of its processor: images for `arm/v7` are no others' on a node that has it.
    pub fn of_node(node: &NodeInfo) -> Self {
        match node.cpus.first() {
            Some(cpu) => Self::of_runtime(&node.os_info, &cpu.arch_info),
            None => Self::of_this_program(),
        }
    }

    /// Whether something built for `image` runs on this node, and how well it suits.
    ///
    /// Operating system and processor must be the same (`x86_64` and `aarch64` are read as `amd64` and `arm64`), and every
    /// feature that the image asks for must be there. A variant of the processor runs what was built for an older one (`v7`
    /// runs `v6`); the two that are implied, `arm64`'s `v8` and `amd64`'s `v1`, may be left out. Versions of the operating
    /// system are compared on Windows only, as the specification has it.
    pub fn fit(&self, image: &Self) -> Option<Fit> {
        let same_name = |a: &str, b: &str| go_name(a).eq_ignore_ascii_case(go_name(b));
        if !self.os.eq_ignore_ascii_case(&image.os)
            || !same_name(&self.architecture, &image.architecture)
            || !image
                .os_features
                .iter()
                .all(|wanted| self.os_features.contains(wanted))
        {
            return None;
        }
        let versions_differ = match (&self.os_version, &image.os_version) {
            (Some(own), Some(wanted)) => own != wanted,
            _ => false,
        };
        if self.os.eq_ignore_ascii_case("windows") && versions_differ {
            return None;
        }
        match (self.stated_variant(), image.stated_variant()) {
            (own, wanted) if own == wanted => Some(Fit::Exact),
            (_, None) => Some(Fit::AnyVariant),
            // A node that does not know its variant gets what its processor surely runs.
            (own, Some(wanted)) => {
                let own = own.map_or(Some(1), level)?;
                let wanted = level(wanted)?;
                (wanted < own).then_some(Fit::Older(wanted))
            }
        }
    }

    /// The variant, unless it is the one that is implied.
    fn stated_variant(&self) -> Option<&str> {
        let variant = self.variant.as_deref()?;
        let implied = matches!(
            (go_name(&self.architecture), variant),
            ("arm64", "v8") | ("amd64", "v1")
        );
        (!implied).then_some(variant)
    }

    pub(crate) fn read(at: &At<'_>) -> Result<Self, ReadDocumentError> {
        let text = |name| at.optional(name, |at| at.text().map(str::to_owned));
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Self {
            os: text("os")?.unwrap_or_default(),
            architecture: text("architecture")?.unwrap_or_default(),
            variant: filled(text("variant")?),
            os_version: filled(text("os.version")?),
            os_features: at.each("os.features", |at| at.text().map(str::to_owned))?,
        })
    }

    /// Whether it says of itself that it is for nothing: `unknown/unknown`.
    pub(crate) fn is_nobodys(&self) -> bool {
        [&self.os, &self.architecture]
            .into_iter()
            .all(|name| name.eq_ignore_ascii_case("unknown"))
    }

    /// Whether it names anything.
    pub(crate) fn is_stated(&self) -> bool {
        !self.os.is_empty() || !self.architecture.is_empty()
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}/{}",
            self.os.escape_debug(),
            self.architecture.escape_debug()
        )?;
        match &self.variant {
            Some(variant) => write!(f, "/{}", variant.escape_debug()),
            None => Ok(()),
        }
    }
}

/// The number in `v7`.
fn level(variant: &str) -> Option<u32> {
    variant.strip_prefix('v')?.parse().ok()
}

/// Processors by the name that OCI uses.
fn go_name(architecture: &str) -> &str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" | "i386" | "i686" => "386",
        "powerpc64le" | "ppc64el" => "ppc64le",
        "loongarch64" => "loong64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(own: &str, image: &str) -> Option<Fit> {
        let platform = |text: &str| {
            let (architecture, variant) = text.split_once('/').unwrap_or((text, ""));
            Platform::new("linux", architecture).with_variant(variant)
        };
        platform(own).fit(&platform(image))
    }

    #[test]
    fn variants_fit_downwards_only() {
        let cases = [
            ("amd64", "amd64", Some(Fit::Exact)),
            ("x86_64", "amd64", Some(Fit::Exact)),
            ("amd64", "arm64", None),
            ("arm/v7", "arm/v7", Some(Fit::Exact)),
            ("arm/v7", "arm", Some(Fit::AnyVariant)),
            ("arm/v7", "arm/v6", Some(Fit::Older(6))),
            ("arm/v6", "arm/v7", None),
            ("arm", "arm/v7", None),
            ("arm64", "arm64/v8", Some(Fit::Exact)),
            ("aarch64/v8", "arm64", Some(Fit::Exact)),
            ("amd64/v3", "amd64", Some(Fit::AnyVariant)),
            ("amd64/v3", "amd64/v2", Some(Fit::Older(2))),
            ("amd64", "amd64/v3", None),
            ("arm/v7", "arm/neon", None),
        ];
        for (own, image, expected) in cases {
            assert_eq!(fit(own, image), expected, "{image} on {own}");
        }
        assert!(Fit::Exact > Fit::AnyVariant && Fit::AnyVariant > Fit::Older(7));
        assert!(Fit::Older(7) > Fit::Older(6) && Fit::Older(0) > Fit::Unsaid);
    }

    #[test]
    fn a_node_runs_what_its_first_processor_does() {
        use muster_api::domain::{CpuInfo, NodeId, NodeState, NodeType};
        let mut node = NodeInfo {
            node_id: NodeId::new("board").unwrap(),
            node_type: NodeType::new("board").unwrap(),
            title: String::new(),
            max_dmips: 1000,
            total_ram: 1 << 30,
            physical_ram: None,
            os_info: OsInfo::new("linux", "12", Vec::new()).unwrap(),
            cpus: Vec::new(),
            partitions: Vec::new(),
            attrs: std::collections::BTreeMap::new(),
            state: NodeState::Provisioned,
            error: None,
        };
        assert_eq!(Platform::of_node(&node), Platform::of_this_program());
        node.cpus.push(CpuInfo {
            model_name: "Cortex-A7".to_owned(),
            num_cores: 4,
            num_threads: 4,
            arch_info: ArchInfo::new("arm", "v7").unwrap(),
            max_dmips: None,
        });
        let platform = Platform::of_node(&node);
        assert_eq!(platform.to_string(), "linux/arm/v7");
        let of_v7 = Platform::new("linux", "arm").with_variant("v7");
        assert_eq!(platform.fit(&of_v7), Some(Fit::Exact));
    }

    #[test]
    fn features_must_be_there_and_versions_count_on_windows_only() {
        let mut node = Platform::new("linux", "amd64");
        let mut image = node.clone();
        image.os_features = vec!["sgx".to_owned()];
        assert_eq!(node.fit(&image), None);
        node.os_features = vec!["kvm".to_owned(), "sgx".to_owned()];
        assert_eq!(node.fit(&image), Some(Fit::Exact));
        node.os_version = Some("6.1".to_owned());
        image.os_version = Some("6.18".to_owned());
        assert_eq!(node.fit(&image), Some(Fit::Exact));
        (node.os, image.os) = ("windows".to_owned(), "windows".to_owned());
        assert_eq!(node.fit(&image), None);
    }
}
