use muster_item::{Index, IndexEntry, MediaType};

use super::*;

fn digest(number: usize) -> Digest {
    crate::hash::sha256(&number.to_le_bytes())
}

fn blob(media_type: MediaType, number: usize) -> Descriptor {
    Descriptor {
        media_type,
        digest: digest(number),
        size: 10,
    }
}

fn index(entries: impl IntoIterator<Item = (MediaType, usize)>) -> Document {
    let entry = |(media_type, number)| IndexEntry {
        descriptor: blob(media_type, number),
        platform: Some(Platform::new("linux", format!("arch-{number}"))),
        name: None,
        refers: false,
    };
    let manifests = entries.into_iter().map(entry).collect();
    Document::Index(Index { manifests })
}

fn manifest(blobs: impl IntoIterator<Item = usize>) -> Document {
    let mut blobs = blobs.into_iter();
    let config = blobs.next().expect("a configuration at least");
    Document::Manifest(Box::new(Manifest {
        config: blob(MediaType::ImageConfig, config),
        item_config: None,
        layers: blobs.map(|it| blob(MediaType::Empty, it)).collect(),
    }))
}

#[test]
fn everything_that_documents_lead_to_is_found_once_and_in_order() {
    let mut content = Content::of(digest(0));
    assert_eq!(content.open.pop_front(), Some(digest(0)));
    let entries = [
        (MediaType::Manifest, 1),
        (MediaType::Index, 2),
        (MediaType::Manifest, 1),
        (MediaType::Other("application/x".to_owned()), 3),
    ];
    content
        .take(digest(0), index(entries))
        .expect("a good index");
    assert_eq!(content.open, [digest(1), digest(2)]);
    content
        .take(digest(1), manifest([10, 11, 12, 11]))
        .expect("a good manifest");
    // An index may lead back to what is known.
    let back = [(MediaType::Manifest, 4), (MediaType::Index, 0)];
    content.take(digest(2), index(back)).expect("a good index");
    assert_eq!(content.open, [digest(1), digest(2), digest(4)]);
    content
        .take(digest(4), manifest([13, 10]))
        .expect("a good manifest");

    let found: BTreeSet<Digest> = [0, 1, 2, 4, 10, 11, 12, 13].map(digest).into();
    let record = content.record(true);
    assert_eq!(record.blobs, found);
    assert!(record.is_complete && record.layers.is_empty());
    let manifests: Vec<_> = content
        .manifests
        .iter()
        .map(|(digest, platform, _)| (*digest, platform.as_ref().map(|it| &*it.architecture)))
        .collect();
    assert_eq!(
        manifests,
        [(digest(1), Some("arch-1")), (digest(4), Some("arch-4"))]
    );
}

#[test]
fn more_documents_and_blobs_than_any_item_has_are_refused() {
    let mut content = Content::of(digest(0));
    let many = (1..=MAX_DOCUMENTS).map(|number| (MediaType::Manifest, number));
    let refused = content.take(digest(0), index(many));
    assert!(matches!(
        refused,
        Err(InstallError::TooMuch {
            limit: MAX_DOCUMENTS,
            ..
        })
    ));

    let mut content = Content::of(digest(0));
    let refused = content.take(digest(0), manifest(1..=MAX_BLOBS));
    assert!(matches!(
        refused,
        Err(InstallError::TooMuch {
            limit: MAX_BLOBS,
            ..
        })
    ));
}
