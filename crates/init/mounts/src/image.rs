//! Files with file systems in them, as units name them.

use serde::{Deserialize, Serialize};

use crate::release::ExtensionKind;

/// The mount option that lets an extension's release file have another name than the extension.
const ANY_NAME: &str = "x-systemd.relax-extension-release-check";
/// What the name of an image may end in.
const IMAGE_SUFFIX: &str = ".raw";

/// A file with a file system (ext4, squashfs, erofs), or with partitions that have one each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The file, or a block device.
    pub path: Box<str>,
    /// Mount options of its partitions. Several of one partition add up.
    pub options: Vec<PartOptions>,
}

/// Mount options of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOptions {
    /// Of which.
    pub part: Part,
    /// Comma-separated.
    pub words: Box<str>,
}

impl Image {
    /// An image without options.
    #[must_use]
    pub fn at(path: &str) -> Self {
        Self {
            path: path.into(),
            options: Vec::new(),
        }
    }

    /// The options of a partition, comma-separated.
    #[must_use]
    pub fn options_of(&self, part: Part) -> String {
        let options = self.options.iter().filter(|options| options.part == part);
        let words: Vec<&str> = options.map(|options| &*options.words).collect();
        words.join(",")
    }
}

/// What a partition is for. A file system without a partition table is a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// `/`
    Root,
    /// `/usr`
    Usr,
    /// `/home`
    Home,
    /// `/srv`
    Srv,
    /// `/var`
    Var,
    /// `/var/tmp`
    Tmp,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Root,
        Self::Usr,
        Self::Home,
        Self::Srv,
        Self::Var,
        Self::Tmp,
    ];

    /// What unit files call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Usr => "usr",
            Self::Home => "home",
            Self::Srv => "srv",
            Self::Var => "var",
            Self::Tmp => "tmp",
        }
    }

    /// Where it is mounted in the image.
    #[must_use]
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Root => "/",
            Self::Usr => "/usr",
            Self::Home => "/home",
            Self::Srv => "/srv",
            Self::Var => "/var",
            Self::Tmp => "/var/tmp",
        }
    }

    /// The one that unit files call so.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// An image that is seen at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountImage {
    /// The image.
    pub image: Image,
    /// Where it is seen.
    pub destination: Box<str>,
    /// Nothing happens if it does not exist.
    pub optional: bool,
}

/// Something that is laid over folders of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// What is laid over them.
    pub source: ExtensionSource,
    /// Nothing happens if it does not exist.
    pub optional: bool,
}

/// Where the files of an extension are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExtensionSource {
    /// `ExtensionImages=`
    Image(Image),
    /// `ExtensionDirectories=`
    Folder(Box<str>),
}

impl Extension {
    /// The directive that names it.
    #[must_use]
    pub fn directive(&self) -> &'static str {
        match self.source {
            ExtensionSource::Image(_) => "ExtensionImages",
            ExtensionSource::Folder(_) => "ExtensionDirectories",
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &str {
        match &self.source {
            ExtensionSource::Image(image) => &image.path,
            ExtensionSource::Folder(path) => path,
        }
    }

    /// What its release file is named after: its own file, without what marks it as an image.
    #[must_use]
    pub fn name(&self) -> &str {
        let path = self.path().trim_end_matches('/');
        let name = path.rsplit('/').next().unwrap_or(path);
        match self.source {
            ExtensionSource::Image(_) => name.strip_suffix(IMAGE_SUFFIX).unwrap_or(name),
            ExtensionSource::Folder(_) => name,
        }
    }

    /// Whether its release file may be named after something else.
    #[must_use]
    pub fn has_any_name(&self) -> bool {
        match &self.source {
            ExtensionSource::Image(image) => {
                let options = image.options_of(Part::Root);
                options.split(',').any(|word| word.trim() == ANY_NAME)
            }
            ExtensionSource::Folder(_) => false,
        }
    }
}

/// A folder that extensions are laid over, with all that is below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hierarchy {
    /// `/usr`
    Usr,
    /// `/opt`
    Opt,
    /// `/etc`
    Etc,
}

impl Hierarchy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Usr, Self::Opt, Self::Etc];

    /// The folder.
    #[must_use]
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Usr => "/usr",
            Self::Opt => "/opt",
            Self::Etc => "/etc",
        }
    }

    /// Which extensions are laid over it.
    #[must_use]
    pub const fn kind(self) -> ExtensionKind {
        match self {
            Self::Usr | Self::Opt => ExtensionKind::System,
            Self::Etc => ExtensionKind::Configuration,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extension, ExtensionSource, Image, Part, PartOptions};

    fn image(path: &str, words: &str) -> Extension {
        let options = vec![PartOptions {
            part: Part::Root,
            words: words.into(),
        }];
        let path = path.into();
        Extension {
            source: ExtensionSource::Image(Image { path, options }),
            optional: false,
        }
    }

    #[test]
    fn an_extension_is_named_after_its_file() {
        assert_eq!(image("/srv/tools.raw", "").name(), "tools");
        assert_eq!(image("/srv/tools.img", "").name(), "tools.img");
        let folder = Extension {
            source: ExtensionSource::Folder("/srv/tools.raw/".into()),
            optional: false,
        };
        assert_eq!(folder.name(), "tools.raw");
        assert!(!folder.has_any_name());
        assert!(!image("/a", "nosuid").has_any_name());
        assert!(image("/a", "nosuid, x-systemd.relax-extension-release-check").has_any_name());
    }

    #[test]
    fn options_of_one_partition_add_up() {
        let option = |part, words: &str| PartOptions {
            part,
            words: words.into(),
        };
        let image = Image {
            path: "/a".into(),
            options: vec![
                option(Part::Root, "ro"),
                option(Part::Home, "nodev"),
                option(Part::Root, "nosuid,noexec"),
            ],
        };
        assert_eq!(image.options_of(Part::Root), "ro,nosuid,noexec");
        assert_eq!(image.options_of(Part::Home), "nodev");
        assert_eq!(image.options_of(Part::Usr), "");
    }

    #[test]
    fn parts_have_their_names() {
        for part in Part::ALL {
            assert_eq!(Part::named(part.name()), Some(part));
        }
        assert_eq!(Part::named("esp"), None);
    }
}
