//! Distributions that publish a list of checksums beside their disks, for whoever wants them known by name.
//!
//! What changes here changes with their releases: where one is gone, the download says so, and the configuration can name it anew.

use crate::catalog::{Catalog, Distribution, Location};

/// A name, the host's folder, the disk in it, and the list beside it.
type Entry = (&'static str, &'static str, &'static str, &'static str);

const KNOWN: &[Entry] = &[
    (
        "almalinux-9",
        "https://repo.almalinux.org/almalinux/9/cloud/{machine}/images",
        "AlmaLinux-9-GenericCloud-latest.{machine}.qcow2",
        "CHECKSUM",
    ),
    (
        "almalinux-10",
        "https://repo.almalinux.org/almalinux/10/cloud/{machine}/images",
        "AlmaLinux-10-GenericCloud-latest.{machine}.qcow2",
        "CHECKSUM",
    ),
    (
        "fedora-42",
        "https://dl.fedoraproject.org/pub/fedora/linux/releases/42/Cloud/{machine}/images",
        "Fedora-Cloud-Base-Generic-42-1.1.{machine}.qcow2",
        "Fedora-Cloud-42-1.1-{machine}-CHECKSUM",
    ),
    (
        "rocky-9",
        "https://dl.rockylinux.org/pub/rocky/9/images/{machine}",
        "Rocky-9-GenericCloud-Base.latest.{machine}.qcow2",
        "Rocky-9-GenericCloud-Base.latest.{machine}.qcow2.CHECKSUM",
    ),
    (
        "ubuntu-22.04",
        "https://cloud-images.ubuntu.com/releases/jammy/release",
        "ubuntu-22.04-server-cloudimg-{arch}.img",
        "SHA256SUMS",
    ),
    (
        "ubuntu-24.04",
        "https://cloud-images.ubuntu.com/releases/noble/release",
        "ubuntu-24.04-server-cloudimg-{arch}.img",
        "SHA256SUMS",
    ),
];

impl Catalog {
    /// Those that publish a list of checksums beside their disks, at their own hosts. Nothing is asked of these before somebody names
    /// a distribution.
    #[must_use]
    pub fn published() -> Self {
        let mut catalog = Self::default();
        for (name, folder, image, checksums) in KNOWN {
            let at = |file: &str| {
                let location = Location::new(&format!("{folder}/{file}"));
                location.expect("a test looks at each")
            };
            let distribution = Distribution {
                image: at(image),
                checksums: at(checksums),
            };
            let added = catalog.add(name, distribution);
            added.expect("a test looks at each");
        }
        catalog
    }
}

#[cfg(test)]
mod tests {
    use muster_template::Arch;

    use super::*;

    #[test]
    fn each_has_a_disk_and_a_list_for_both_architectures() {
        let catalog = Catalog::published();
        assert_eq!(catalog.names().count(), KNOWN.len());
        for (name, ..) in KNOWN {
            let found = catalog.get(name).unwrap();
            let image = found.image.url(Arch::Amd64);
            let (folder, _) = image.rsplit_once('/').unwrap();
            let checksums = found.checksums.url(Arch::Amd64);
            assert!(checksums.starts_with(folder), "{name}");
            let urls = [Arch::Amd64, Arch::Arm64].map(|arch| found.image.url(arch));
            assert_ne!(urls[0], urls[1], "{name}");
            assert!(urls.iter().all(|url| url.starts_with("https://")), "{name}");
        }
    }

    #[test]
    fn what_was_named_by_somebody_can_be_put_in_their_place() {
        let own = Location::new("file:///srv/own.img").unwrap();
        let mut catalog = Catalog::published();
        let distribution = Distribution {
            image: own.clone(),
            checksums: own.clone(),
        };
        catalog.add("ubuntu-24.04", distribution).unwrap();
        assert_eq!(catalog.get("ubuntu-24.04").unwrap().image, own);
    }
}
