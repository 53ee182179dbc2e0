//! Images and extensions, as unit files write them: fields between colons.

use muster_mounts::{Extension, ExtensionSource, Image, MountImage, Part, PartOptions, Root};
use muster_unit_file::config::Images;

use super::view::stripped;

/// Partitions that options can be given for and that are not mounted.
const NOT_MOUNTED: [&str; 7] = [
    "esp",
    "xbootldr",
    "swap",
    "root-verity",
    "usr-verity",
    "root-verity-sig",
    "usr-verity-sig",
];

/// Another root than the machine's.
pub(super) fn root(images: &Images) -> Option<Root> {
    if let Some(path) = &images.root_image {
        let options = images.root_image_options.iter();
        let options = options.filter_map(|text| match text.split_once(':') {
            None => options_of("root", text),
            Some((part, words)) => options_of(part, words),
        });
        return Some(Root::Image(Image {
            path: path.0.clone(),
            options: options.collect(),
        }));
    }
    let folder = images.root_directory.as_ref().map(|path| &*path.0);
    // The machine's own root is no other one.
    folder
        .filter(|path| *path != "/")
        .map(|path| Root::Folder(path.into()))
}

/// `MountImages=`. One without a destination keeps an empty one, which no mount has: the start fails.
pub(super) fn mounted(images: &Images) -> Vec<MountImage> {
    let mount = |text: &str| {
        let (optional, text) = stripped(text, '-');
        let mut fields = fields(text).into_iter();
        let source = fields.next().unwrap_or_default();
        let destination = fields.next().unwrap_or_default();
        MountImage {
            image: image(source, fields),
            destination: destination.into(),
            optional,
        }
    };
    images.mount_images.iter().map(mount).collect()
}

/// `ExtensionImages=`, and over those `ExtensionDirectories=`.
pub(super) fn extensions(images: &Images) -> Vec<Extension> {
    let image = |text: &str| {
        let (optional, text) = stripped(text, '-');
        let mut fields = fields(text).into_iter();
        let source = fields.next().unwrap_or_default();
        Extension {
            source: ExtensionSource::Image(image(source, fields)),
            optional,
        }
    };
    let folder = |text: &str| {
        let (optional, text) = stripped(text, '-');
        // Extensions are the machine's, with another root too.
        let (_, path) = stripped(text, '+');
        Extension {
            source: ExtensionSource::Folder(path.into()),
            optional,
        }
    };
    let folders = images.extension_directories.0.iter().map(folder);
    let images = images.extension_images.iter().map(image);
    images.chain(folders).collect()
}

/// An image with its options: pairs of a partition and its options, or options alone, which are the root's.
fn image(path: String, mut fields: impl Iterator<Item = String>) -> Image {
    let mut options = Vec::new();
    while let Some(first) = fields.next() {
        options.extend(match fields.next() {
            Some(words) => options_of(&first, &words),
            None => options_of("root", &first),
        });
    }
    Image {
        path: path.into(),
        options,
    }
}

/// Options of a partition that is mounted if it is there. Others, of which there are some for starting machines, are not.
fn options_of(part: &str, words: &str) -> Option<PartOptions> {
    Some(PartOptions {
        part: Part::named(part)?,
        words: words.into(),
    })
}

/// A partition that options are given for and that there is not, and where: options that nobody applies may be such as
/// protect.
pub(super) fn unknown_partition(images: &Images) -> Option<(&'static str, String)> {
    let root = images.root_image_options.iter();
    let root = root.filter_map(|text| text.split_once(':'));
    let root = root.map(|(part, _)| ("RootImageOptions", part.to_owned()));
    let mounted = images.mount_images.iter();
    let mounted = mounted.flat_map(|text| parts(text, 2).map(|part| ("MountImages", part)));
    let extensions = images.extension_images.iter();
    let extensions =
        extensions.flat_map(|text| parts(text, 1).map(|part| ("ExtensionImages", part)));
    let mut named = root.chain(mounted).chain(extensions);
    named.find(|(_, part)| Part::named(part).is_none() && !NOT_MOUNTED.contains(&part.as_str()))
}

/// The partitions that options are given for, behind so many other fields.
fn parts(text: &str, others: usize) -> impl Iterator<Item = String> {
    let mut fields = fields(text).into_iter().skip(others);
    std::iter::from_fn(move || {
        let part = fields.next()?;
        // Options alone are the root's.
        fields.next().map(|_| part)
    })
}

/// The fields of a text. A colon behind a backslash is part of one, and so is a backslash.
fn fields(text: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = character == '\\' && matches!(characters.peek(), Some(':' | '\\'));
        let last = fields.last_mut();
        match (character, last) {
            (':', _) => fields.push(String::new()),
            (_, Some(field)) if escaped => field.extend(characters.next()),
            (character, Some(field)) => field.push(character),
            (_, None) => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use muster_unit_file::config::Images;
    use proptest::prelude::*;

    use super::{fields, unknown_partition};

    #[test]
    fn options_of_partitions_that_there_are_not_are_found() {
        let named = |text: &str| {
            let mut images = Images::default();
            images.mount_images.push(text);
            unknown_partition(&images).map(|(_, part)| part)
        };
        for good in [
            "/a:/b",
            "/a:/b:nosuid",
            "/a:/b:root:ro:usr:nosuid",
            "/a:/b:esp:ro",
        ] {
            assert_eq!(named(good), None, "{good}");
        }
        assert_eq!(named("/a:/b:nosuid:noexec").as_deref(), Some("nosuid"));
        assert_eq!(named("/a:/b:root:ro:roto:ro").as_deref(), Some("roto"));
        let mut images = Images::default();
        images.root_image_options.push("roto:ro");
        let found = unknown_partition(&images);
        assert_eq!(found, Some(("RootImageOptions", "roto".to_owned())));
    }

    #[test]
    fn colons_separate_unless_they_are_escaped() {
        assert_eq!(fields("/a:/b:root:ro,x"), ["/a", "/b", "root", "ro,x"]);
        assert_eq!(fields(r"/a\:b:/c\\:/d\x"), ["/a:b", r"/c\", r"/d\x"]);
        assert_eq!(fields(""), [""]);
        assert_eq!(fields("a::"), ["a", "", ""]);
        assert_eq!(fields("a\\"), ["a\\"]);
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_read_as_it_was(texts in prop::collection::vec("[a-z:\\\\]{0,6}", 1..5)) {
            let escaped = texts.iter().map(|text| text.replace('\\', "\\\\").replace(':', "\\:"));
            let joined = escaped.collect::<Vec<_>>().join(":");
            prop_assert_eq!(fields(&joined), texts);
        }
    }
}
