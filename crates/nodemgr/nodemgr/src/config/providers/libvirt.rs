//! What only libvirt is told.

use std::collections::BTreeMap;

use muster_config::Problems;
use muster_libvirt::{Acceleration, Catalog, Distribution, Location};
use serde::Deserialize;

/// Where they stand, for problems.
const SECTION: &str = "providers.libvirt.distributions";

/// A distribution that machines can be made of by name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawDistribution {
    /// Its disk: `https://` or `file://`, with `{arch}` (amd64, arm64) or `{machine}` (x86_64, aarch64) where the architecture stands.
    pub image: String,
    /// The list that the disk's SHA-256 or SHA-512 stands in: the same.
    pub checksums: String,
}

pub(super) fn acceleration(text: Option<&str>, problems: &mut Problems<'_>) -> Acceleration {
    match text {
        None | Some("probe") => Acceleration::Probe,
        Some("kvm") => Acceleration::Kvm,
        Some("tcg") => Acceleration::Tcg,
        Some(_) => {
            let key = "providers.libvirt.acceleration";
            problems.report(key, "must be probe, kvm or tcg");
            Acceleration::Probe
        }
    }
}

/// Adds all of them, or says what is wrong with each.
pub(super) fn add(
    catalog: &mut Catalog,
    raw: &BTreeMap<String, RawDistribution>,
    problems: &mut Problems<'_>,
) {
    for (name, raw) in raw {
        let section = format!("{SECTION}.{name}");
        let mut location = |key: &str, text: &str| match Location::new(text) {
            Ok(location) => Some(location),
            Err(error) => {
                problems.report(&format!("{section}.{key}"), error);
                None
            }
        };
        let image = location("image", &raw.image);
        let checksums = location("checksums", &raw.checksums);
        let (Some(image), Some(checksums)) = (image, checksums) else {
            continue;
        };
        if let Err(error) = catalog.add(name, Distribution { image, checksums }) {
            problems.report(&section, error);
        }
    }
}
