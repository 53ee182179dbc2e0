use proptest::prelude::*;

use super::*;

/// A query for a name, with the extension if `size` is given.
fn query(name: &str, kind: u16, size: Option<u16>) -> Vec<u8> {
    let mut packet = vec![
        0xab,
        0xcd,
        1,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        u8::from(size.is_some()),
    ];
    packet.extend(name.parse::<Name>().unwrap().wire());
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    if let Some(size) = size {
        packet.extend([0, 0, 41]);
        packet.extend(size.to_be_bytes());
        packet.extend([0; 6]);
    }
    packet
}

#[test]
fn queries_are_read() {
    let packet = query("web.cameras", 1, Some(4096));
    let parsed = Query::parse(&packet).unwrap();
    assert_eq!(parsed.name, "web.cameras".parse().unwrap());
    assert_eq!(parsed.kind, Kind::A);
    assert_eq!(
        parsed.limit(Transport::Udp),
        1232,
        "no more than passes every link"
    );
    assert_eq!(parsed.limit(Transport::Tcp), 65535);
    let packet = query("web", 28, None);
    let parsed = Query::parse(&packet).unwrap();
    assert_eq!(
        (parsed.kind, parsed.limit(Transport::Udp)),
        (Kind::Aaaa, 512)
    );
    let packet = query("web", 28, Some(0));
    assert_eq!(Query::parse(&packet).unwrap().limit(Transport::Udp), 512);
}

#[test]
fn hostile_packets_are_refused_or_ignored() {
    let good = query("web", 1, Some(1232));
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        Query::parse(&packet).map(|_| ()).unwrap_err()
    };
    let malformed = Bad::Refuse(Code::FormatError);
    assert_eq!(Query::parse(&[]).unwrap_err(), Bad::Ignore);
    assert_eq!(Query::parse(&good[..11]).unwrap_err(), Bad::Ignore);
    assert_eq!(with(&|packet| packet[2] |= 0x80), Bad::Ignore, "an answer");
    assert_eq!(
        with(&|packet| packet[2] |= 0x28),
        Bad::Refuse(Code::NotImplemented),
        "an update"
    );
    assert_eq!(with(&|packet| packet[5] = 0), malformed, "no question");
    assert_eq!(with(&|packet| packet[5] = 2), malformed, "two questions");
    assert_eq!(with(&|packet| packet[6] = 0xff), malformed, "65280 answers");
    assert_eq!(
        with(&|packet| packet[11] = 2),
        malformed,
        "a record that is not there"
    );
    // A name that leads to itself, in the question and behind it.
    assert_eq!(with(&|packet| packet[12] = 0xc0), malformed);
    let mut looping = query("web", 1, None);
    looping[11] = 1;
    looping.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert!(
        Query::parse(&looping).is_ok(),
        "a pointer is skipped, wherever it leads"
    );
    looping.truncate(looping.len() - 1);
    assert_eq!(Query::parse(&looping).unwrap_err(), malformed);
    for end in 12..good.len() {
        assert!(Query::parse(&good[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn answers_fit_and_say_when_they_were_cut() {
    let many: Vec<Record<'_>> = (0..200)
        .map(|host| Record::Address([10, 0, 0, host].into()))
        .collect();
    for (size, limit) in [(None, 512), (Some(1232), 1232), (Some(65535), 1232)] {
        let packet = query("web", 1, size);
        let answer = Query::parse(&packet)
            .unwrap()
            .answer(Code::NoError, &many, Transport::Udp, 5);
        assert!(
            answer.len() <= limit && answer.len() + 16 + 11 > limit,
            "{} of {limit}",
            answer.len()
        );
        assert!(is_truncated(&answer));
        let count = usize::from(u16_at(&answer, 6).unwrap());
        let extension = if size.is_some() { 11 } else { 0 };
        assert_eq!(answer.len(), 12 + 9 + count * 16 + extension);
        let whole = Query::parse(&packet)
            .unwrap()
            .answer(Code::NoError, &many, Transport::Tcp, 5);
        assert!(!is_truncated(&whole));
        assert_eq!(u16_at(&whole, 6), Some(200));
    }
}

#[test]
fn only_the_answer_to_the_question_matches() {
    let packet = query("wEb", 1, None);
    let question = Query::parse(&packet).unwrap();
    let mut answer = question.refuse(Code::NoError);
    let asked = question.question().to_vec();
    assert_eq!(matches(&answer, 0xabcd, &asked), Match::Yes);
    assert_eq!(matches(&answer, 0xabce, &asked), Match::No, "another id");
    assert_eq!(
        matches(&packet, 0xabcd, &asked),
        Match::No,
        "the question itself"
    );
    assert_eq!(matches(&answer[..20], 0xabcd, &asked), Match::No, "cut");
    answer[13] ^= 0x20;
    assert_eq!(matches(&answer, 0xabcd, &asked), Match::ButForCase);
    answer[13] = b'x';
    assert_eq!(matches(&answer, 0xabcd, &asked), Match::No, "another name");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever comes, it is read without a panic, and every answer is to the packet.
    #[test]
    fn anything_is_read(mut packet in prop::collection::vec(any::<u8>(), 0..120), sane in any::<bool>()) {
        if sane && packet.len() > 12 {
            packet[2..12].copy_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
        }
        if let Ok(query) = Query::parse(&packet) {
            let answer = query.answer(Code::NoError, &[Record::Pointer(&query.name)], Transport::Udp, 5);
            prop_assert!(answer.len() <= query.limit(Transport::Udp));
            prop_assert_eq!(&answer[..2], &packet[..2]);
            let id = u16::from_be_bytes([packet[0], packet[1]]);
            prop_assert_eq!(matches(&answer, id, query.question()), Match::Yes);
        }
        let _ = matches(&packet, 0, &[0; 5]);
    }
}
