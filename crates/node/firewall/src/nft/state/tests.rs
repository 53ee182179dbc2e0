use super::*;
use crate::netlink::push_nested;

fn element(key: &[u8], notes: Option<&[u8]>) -> Vec<u8> {
    let (mut value, mut element) = (Vec::new(), Vec::new());
    push_attribute(&mut value, DATA_VALUE, key);
    push_nested(&mut element, ELEMENT_KEY, &value);
    if let Some(notes) = notes {
        push_attribute(&mut element, ELEMENT_NOTES, notes);
    }
    element
}

fn message(elements: &[Vec<u8>]) -> Vec<u8> {
    let (mut list, mut message) = (Vec::new(), Vec::new());
    elements
        .iter()
        .for_each(|element| push_nested(&mut list, 1, element));
    push_attribute(&mut message, ELEMENTS_TABLE, TABLE);
    push_nested(&mut message, ELEMENTS, &list);
    message
}

fn commented(text: &str) -> Vec<u8> {
    // A note of another kind comes first.
    let length = u8::try_from(text.len() + 1).unwrap();
    [&[9, 1, 7, COMMENT, length], text.as_bytes(), b"\0"].concat()
}

fn bridge(name: &str, record: &str) -> Vec<u8> {
    let mut key = name.as_bytes().to_vec();
    key.resize(16, 0);
    element(&key, Some(&commented(record)))
}

#[test]
fn state_is_read_from_keys_and_comments() {
    let networks = message(&[
        bridge("br0", "172.20.0.0/24 172.20.0.1 masquerade"),
        bridge("br1", "172.21.0.0/24 172.21.0.1"),
    ]);
    let instances = message(&[element(&[172, 20, 0, 2], Some(&commented("a")))]);
    let maps = Maps {
        bridges: read_elements(&networks).collect(),
        instances: read_elements(&instances).collect(),
        meters: Vec::new(),
    };
    let state = maps.interpret().unwrap();
    assert!(state.is_complete());
    let masqueraded: Vec<_> = state
        .networks()
        .map(|network| (network.bridge().as_str(), network.is_masqueraded()))
        .collect();
    assert_eq!(masqueraded, [("br0", true), ("br1", false)]);
    let instances: Vec<_> = state
        .instances()
        .map(|(id, at)| (id.as_str(), at.to_string()))
        .collect();
    assert_eq!(instances, [("a", "172.20.0.2".to_owned())]);
    assert_eq!(state.meters().count(), 0);
}

#[test]
fn what_others_wrote_into_the_table_is_said() {
    for element in [
        element(&[172, 20, 0, 2], Some(&commented("a b"))),
        element(&[172, 20, 0, 2], None),
        element(&[172, 20, 0, 2], Some(&[COMMENT, 200, 65])),
        element(&[172, 20], Some(&commented("a"))),
    ] {
        let maps = Maps {
            instances: read_elements(&message(&[element])).collect(),
            ..Maps::default()
        };
        assert!(maps.interpret().is_err());
    }
    for record in [
        "172.20.0.0/24",
        "172.20.0.0/24 10.0.0.1",
        "172.20.0.0/24 172.20.0.1 x",
        "",
    ] {
        let maps = Maps {
            bridges: read_elements(&message(&[bridge("br0", record)])).collect(),
            ..Maps::default()
        };
        assert!(maps.interpret().is_err(), "took {record:?}");
    }
}

#[test]
fn cut_messages_are_read_as_far_as_they_go() {
    let whole = message(&[bridge("br0", "172.20.0.0/24 172.20.0.1")]);
    for end in 0..whole.len() {
        assert_eq!(read_elements(&whole[..end]).count(), 0);
    }
}

fn object(name: &str, bytes: u64) -> Vec<u8> {
    let (mut data, mut object) = (Vec::new(), Vec::new());
    push_attribute(&mut data, COUNTER_BYTES, &bytes.to_be_bytes());
    push_attribute(&mut object, OBJECT_NAME, format!("{name}\0").as_bytes());
    push_nested(&mut object, OBJECT_DATA, &data);
    object
}

#[test]
fn counters_are_read_by_owner() {
    let one = InstanceId::new("one").unwrap();
    let mut counters = Counters::default();
    for (name, bytes) in [
        ("in_system".to_owned(), 10),
        ("out_system".to_owned(), 20),
        (format!("in_{}", one.tag()), 30),
        (format!("out_{}", one.tag()), 40),
        ("odd".to_owned(), 50),
    ] {
        note_counter(&mut counters, &object(&name, bytes));
    }
    let amounts = |download, upload| Amounts { download, upload };
    assert_eq!(counters.system(), amounts(10, 20));
    assert_eq!(counters.instance(&one), Some(amounts(30, 40)));
    assert_eq!(counters.instance(&InstanceId::new("two").unwrap()), None);
}
