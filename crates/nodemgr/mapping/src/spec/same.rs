//! Whether two machines are the same, whatever is known of their image by now.

use super::MachineSpec;

impl MachineSpec {
    /// Whether it is the machine that another is, with the same image: one that is pinned is the same as what it was pinned from.
    ///
    /// What the image is found from decides, so that neither another tag nor another image of EC2 is taken for the same. Where two
    /// pins are known, they have to be the same too: whoever had it found anew wants what was found. A spec that does not say
    /// from what its image was found is judged by the image's name.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.has_image_of(other) && self.without_image() == other.without_image()
    }

    fn has_image_of(&self, other: &Self) -> bool {
        match self.found_from.zip(other.found_from) {
            Some((own, others)) => own == others && self.is_pinned_like(other),
            None => self.is_named_like(other),
        }
    }

    /// Whether the two are nowhere pinned to different images.
    fn is_pinned_like(&self, other: &Self) -> bool {
        let differ = |own: Option<&str>, others: Option<&str>| {
            own.zip(others).is_some_and(|(own, others)| own != others)
        };
        !(differ(self.ami.as_deref(), other.ami.as_deref())
            || differ(self.digest.as_deref(), other.digest.as_deref())
            || differ(self.pinned_image(), other.pinned_image()))
    }

    fn is_named_like(&self, other: &Self) -> bool {
        match self.pinned_image().or(other.pinned_image()) {
            Some(_) => image_name(self) == image_name(other),
            None => self.image == other.image,
        }
    }

    /// The image, if it can mean no other one tomorrow.
    fn pinned_image(&self) -> Option<&str> {
        self.image.as_deref().filter(|image| image.contains('@'))
    }

    fn without_image(&self) -> Self {
        Self {
            image: None,
            digest: None,
            ami: None,
            pin_for: None,
            found_from: None,
            ..self.clone()
        }
    }
}

/// A digest says more than a tag, and a pin has no tag.
fn image_name(spec: &MachineSpec) -> &str {
    let image = spec.image.as_deref().unwrap_or_default();
    let name = image.split('@').next().unwrap_or_default();
    let slash = name.rfind('/').unwrap_or(0);
    let end = name[slash..].find(':').map_or(name.len(), |at| slash + at);
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Inputs;

    fn image(text: &str, found_from: Option<char>) -> MachineSpec {
        let inputs = found_from.map(|digit| {
            let digits: String = std::iter::repeat_n(digit, 64).collect();
            format!("sha256:{digits}")
                .parse::<Inputs>()
                .expect("a hash")
        });
        MachineSpec {
            image: Some(text.to_owned()),
            found_from: inputs,
            ..MachineSpec::default()
        }
    }

    fn ami(ami: Option<&str>, found_from: Option<char>) -> MachineSpec {
        MachineSpec {
            ami: ami.map(str::to_owned),
            ..image("debian", found_from)
        }
    }

    fn pinned(digit: char) -> String {
        let digits: String = std::iter::repeat_n(digit, 64).collect();
        format!("debian@sha256:{digits}")
    }

    #[test]
    fn a_pin_is_the_same_machine_as_what_it_was_pinned_from_and_no_other() {
        let open = image("debian:12", Some('1'));
        let held = image(&pinned('a'), Some('1'));
        assert!(open.is_like(&held) && held.is_like(&open));
        // Another tag is another image, also where one of them is pinned.
        let other = image("debian:11", Some('2'));
        assert!(!other.is_like(&held) && !held.is_like(&other));
        // It was found anew, and is another one now.
        assert!(!held.is_like(&image(&pinned('b'), Some('1'))));
        // All else counts as it did.
        let larger = MachineSpec {
            cpus: std::num::NonZeroU32::new(8),
            ..open.clone()
        };
        assert!(!larger.is_like(&open));
    }

    #[test]
    fn another_image_of_ec2_is_another_machine() {
        let written = |name: &str, from| ami(Some(name), Some(from));
        assert!(!written("ami-00000001", '1').is_like(&written("ami-00000002", '2')));
        let open = ami(None, Some('3'));
        assert!(open.is_like(&written("ami-00000001", '3')), "it was pinned");
        assert!(!written("ami-00000001", '3').is_like(&written("ami-00000002", '3')));
    }

    #[test]
    fn what_does_not_say_from_what_it_was_found_is_judged_by_its_name() {
        let old = image("debian:12", None);
        assert!(old.is_like(&image(&pinned('a'), Some('1'))));
        assert!(old.is_like(&image("debian:12", Some('1'))));
        assert!(!old.is_like(&image("debian:11", Some('1'))));
        assert!(!image("ubuntu:24.04", None).is_like(&image(&pinned('a'), None)));
    }
}
