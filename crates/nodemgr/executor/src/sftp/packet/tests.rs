use proptest::prelude::*;

use super::*;

fn framed(bytes: &[u8]) -> BytesMut {
    BytesMut::from(bytes)
}

#[test]
fn a_packet_is_taken_when_it_is_whole() {
    let whole = Request::new(kind::OPEN, 7).text(b"name").u32(1).finish();
    for cut in 0..whole.len() {
        assert_eq!(next(&mut framed(&whole[..cut])), Ok(None), "{cut}");
    }
    let mut two = framed(&[whole.clone(), whole.clone()].concat());
    assert_eq!(next(&mut two).unwrap().unwrap(), whole.slice(4..));
    assert_eq!(next(&mut two).unwrap().unwrap(), whole.slice(4..));
    assert_eq!(next(&mut two), Ok(None));
}

#[test]
fn a_length_that_is_none_is_refused() {
    assert!(next(&mut framed(&[0, 0, 0, 0])).is_err());
    assert!(next(&mut framed(&[0xff; 4])).is_err());
}

#[test]
fn attributes_come_back_as_they_were_sent() {
    let attrs = Attrs {
        size: Some(1 << 40),
        mode: Some(0o100_644),
        mtime: Some(7),
    };
    let mut packet = Request::new(ATTRS, 3).attrs(attrs).finish();
    packet.advance(4);
    assert_eq!(reply(packet), Ok((3, Reply::Attrs(attrs))));
    assert_eq!(attrs.entry().kind, Kind::File { size: 1 << 40 });
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 100u8..110) {
        let mut with_kind = vec![kind];
        with_kind.extend_from_slice(&bytes);
        for packet in [bytes, with_kind] {
            let packet = Bytes::from(packet);
            let _ = reply(packet.clone());
            let _ = version(packet.clone());
            let _ = limits(packet.clone());
            let mut buffer = BytesMut::from(packet.as_ref());
            while let Ok(Some(_)) = next(&mut buffer) {}
        }
    }
}
