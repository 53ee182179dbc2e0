use proptest::prelude::*;

use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: usize) -> Vec<u8> {
    let length = u32::try_from(payload).unwrap().to_be_bytes();
    let mut raw = length[1..].to_vec();
    raw.extend([kind, flags]);
    raw.extend((stream | 0x8000_0000).to_be_bytes());
    raw.extend(std::iter::repeat_n(0xff, payload));
    raw
}

#[test]
fn only_data_of_the_first_stream_is_counted() {
    let mut frames = Frames::after(CLIENT_PREFACE);
    let mut raw = vec![0; CLIENT_PREFACE];
    raw.extend(frame(4, 0, 0, 12));
    raw.extend(frame(HEADERS, 0x4, 1, 40));
    raw.extend(frame(DATA, 0, 1, 100));
    raw.extend(frame(DATA, 0, 3, 1000));
    raw.extend(frame(DATA, PADDED, 1, 50));
    raw.extend(frame(8, 0, 1, 4));
    raw.extend(frame(DATA, END_STREAM, 1, 7));
    assert_eq!(
        frames.feed(&raw),
        Seen {
            data: 107,
            ended: true
        }
    );
}

#[test]
fn the_end_of_the_stream_is_seen_in_every_form_and_only_for_it() {
    let cases = [
        (frame(HEADERS, END_STREAM, 1, 5), true),
        (frame(DATA, END_STREAM, 1, 0), true),
        (frame(RST_STREAM, 0, 1, 4), true),
        (frame(HEADERS, 0x4, 1, 5), false),
        (frame(HEADERS, END_STREAM, 3, 5), false),
        (frame(RST_STREAM, 0, 3, 4), false),
        // Flag 0x1 on PING and SETTINGS means ACK.
        (frame(6, 0x1, 0, 8), false),
        (frame(7, 0, 0, 8), false),
    ];
    for (raw, ended) in cases {
        assert_eq!(Frames::after(0).feed(&raw).ended, ended, "{raw:?}");
    }
}

#[tokio::test]
async fn a_partial_write_counts_only_what_was_accepted() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (near, mut far) = tokio::io::duplex(50);
    let (mut recorded, ledger) = Recorded::new(near);
    let mut raw = vec![0; CLIENT_PREFACE];
    raw.extend(frame(DATA, 0, 1, 100));
    let accepted = recorded.write(&raw).await.unwrap();
    assert_eq!(accepted, 50);
    assert_eq!(ledger.written(), 50 - 24 - 9);
    ledger.progress().await;
    far.read_exact(&mut [0; 50]).await.unwrap();
    recorded.write_all(&raw[50..90]).await.unwrap();
    assert_eq!(ledger.written(), 90 - 24 - 9);
}

proptest! {
    /// The count does not depend on how the bytes are cut into pieces.
    #[test]
    fn pieces_do_not_matter(
        frames in prop::collection::vec((0..10_u8, any::<u8>(), 0..4_u32, 0..60_usize), 0..20),
        cuts in prop::collection::vec(1..30_usize, 0..200),
    ) {
        let raw: Vec<u8> =
            frames.iter().flat_map(|(kind, flags, stream, len)| frame(*kind, *flags, *stream, *len))
            .collect();
        let whole = Frames::after(0).feed(&raw);
        let mut parser = Frames::after(0);
        let mut pieces = Seen::default();
        let mut rest = &raw[..];
        for cut in cuts.into_iter().chain([raw.len()]) {
            let (piece, tail) = rest.split_at(cut.min(rest.len()));
            let seen = parser.feed(piece);
            pieces.data += seen.data;
            pieces.ended |= seen.ended;
            rest = tail;
        }
        prop_assert_eq!(&pieces, &whole);
        let data = frames
            .iter()
            .filter(|(kind, flags, stream, _)| *kind == DATA && *stream == 1 && flags & PADDED == 0)
            .map(|frame| frame.3 as u64)
            .sum::<u64>();
        prop_assert_eq!(whole.data, data);
    }

    /// Arbitrary bytes never panic.
    #[test]
    fn garbage_is_survived(raw in prop::collection::vec(any::<u8>(), 0..4000)) {
        Frames::after(0).feed(&raw);
    }
}
