use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use super::*;

fn all_frames(reader: &mut FrameReader) -> Vec<(u64, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Ok(Some((number, frame))) = reader.next_frame() {
        frames.push((number, frame.to_vec()));
    }
    frames
}

/// Messages, and the places at which the stream of their bytes is cut.
fn stream() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<usize>)> {
    let message = prop::collection::vec(1u8.., 0..40);
    (
        prop::collection::vec(message, 0..8),
        prop::collection::vec(1usize..50, 0..40),
    )
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_messages((messages, cuts) in stream()) {
        let mut bytes: Vec<u8> = messages.iter().flat_map(|m| m.iter().copied().chain([0])).collect();
        bytes.extend(b"half");
        let mut reader = FrameReader::new(64);
        let mut found = Vec::new();
        let mut rest = bytes.as_slice();
        for cut in cuts.iter().copied().chain([usize::MAX]) {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            rest = later;
            if !now.is_empty() {
                reader.push(now);
            }
            prop_assert_eq!(reader.has_frame(), now.contains(&0));
            found.extend(all_frames(&mut reader));
            prop_assert!(!reader.has_frame());
        }
        let expected: Vec<_> = (0..).zip(messages).collect();
        prop_assert_eq!(found, expected);
        prop_assert!(reader.has_partial());
    }

    #[test]
    fn what_is_sent_piecemeal_is_what_was_queued(
        sizes in prop::collection::vec((1usize..30, any::<bool>()), 1..40),
        steps in prop::collection::vec(1usize..60, 1..20),
    ) {
        let mut writer = FrameWriter::new(usize::MAX);
        let mut expected: Vec<u8> = Vec::new();
        let mut carriers = Vec::new();
        for (index, (size, with_fd)) in sizes.iter().enumerate() {
            let frame = vec![u8::try_from(index).unwrap_or(0); *size];
            let mut fds = Vec::new();
            if *with_fd {
                carriers.push(expected.len());
                fds.push(UnixStream::pair().unwrap().0.into());
            }
            expected.extend(&frame);
            writer.push(frame, fds).unwrap();
        }
        prop_assert_eq!(writer.queued_bytes(), expected.len());
        let mut sent: Vec<u8> = Vec::new();
        let mut seen = Vec::new();
        for step in steps.iter().cycle() {
            if writer.is_empty() {
                break;
            }
            let (slices, fds) = writer.next_batch();
            if !fds.is_empty() {
                seen.push(sent.len());
            }
            let bytes: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
            // Descriptors never come in the middle of a batch: what carries some begins one.
            let end = sent.len() + bytes.len();
            prop_assert!(!carriers.iter().any(|at| *at > sent.len() && *at < end));
            let taken = bytes.len().min(*step);
            sent.extend(&bytes[..taken]);
            writer.advance(taken);
        }
        prop_assert_eq!(sent, expected);
        prop_assert_eq!(seen, carriers);
        prop_assert_eq!(writer.queued_bytes(), 0);
    }
}

#[test]
fn a_message_of_the_longest_length_is_taken_and_a_longer_one_is_not() {
    let mut reader = FrameReader::new(3);
    reader.push(b"abc\0");
    assert_eq!(reader.next_frame().unwrap().unwrap().1, b"abc");
    reader.push(b"abcd\0");
    assert_eq!(reader.next_frame(), Err(MessageTooLong { limit: 3 }));
}

#[test]
fn a_message_without_end_is_refused_while_it_comes() {
    let mut reader = FrameReader::new(3);
    reader.push(b"abc");
    assert_eq!(reader.next_frame(), Ok(None));
    reader.push(b"d");
    assert_eq!(reader.next_frame(), Err(MessageTooLong { limit: 3 }));
}

#[test]
fn a_chunk_belongs_to_the_last_message_with_bytes_in_it() {
    let mut reader = FrameReader::new(100);
    assert_eq!(reader.push(b"a"), 0);
    assert_eq!(reader.push(b"b\0"), 0);
    assert_eq!(reader.push(b"c\0d\0"), 2);
    assert_eq!(reader.push(b"e\0f"), 4);
    assert_eq!(reader.push(b"\0"), 4);
}

#[test]
fn a_full_queue_takes_nothing_and_an_empty_one_takes_any_message() {
    let mut writer = FrameWriter::new(4);
    writer.push(vec![1; 10], Vec::new()).unwrap();
    assert_eq!(
        writer.push(vec![2], Vec::new()),
        Err(QueueFull { limit: 4 })
    );
    writer.advance(8);
    writer.push(vec![2; 2], Vec::new()).unwrap();
    assert_eq!(writer.queued_bytes(), 4);
}
