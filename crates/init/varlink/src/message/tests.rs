use super::*;

const DEPTH: usize = 8;

fn refused(message: &str) -> MalformedMessage {
    Call::decode(message.as_bytes(), DEPTH).unwrap_err()
}

#[test]
fn a_call_is_read_with_every_mode() {
    for (flag, mode) in [
        ("", CallMode::Once),
        (r#","more":true,"oneway":false"#, CallMode::More),
        (r#","oneway":true"#, CallMode::Oneway),
        (r#","upgrade":true"#, CallMode::Upgrade),
    ] {
        let text = format!(r#"{{"method":"a.b.C","parameters":{{"x":1}}{flag}}}"#);
        let call = Call::decode(text.as_bytes(), DEPTH).unwrap();
        assert_eq!(call.mode, mode);
        assert_eq!(call.split_method(), ("a.b", "C"));
        assert_eq!(call.parameters.text(), r#"{"x":1}"#);
    }
}

#[test]
fn a_call_is_read_as_it_was_written() {
    let parameters = to_raw(&serde_json::json!({"text": "a\0b\"\\ü"}));
    for mode in [
        CallMode::Once,
        CallMode::More,
        CallMode::Oneway,
        CallMode::Upgrade,
    ] {
        let message = Call::encode("io.example.Do\"It", &parameters, mode);
        let (end, body) = message.split_last().unwrap();
        assert_eq!(*end, 0);
        assert!(!body.contains(&0));
        let call = Call::decode(body, DEPTH).unwrap();
        assert_eq!(&*call.method, "io.example.Do\"It");
        assert_eq!(call.mode, mode);
        assert_eq!(call.parameters.text(), parameters.get());
    }
}

#[test]
fn missing_and_null_parameters_are_an_empty_object() {
    for text in [
        r#"{"method":"a.B"}"#,
        r#"{"method":"a.B","parameters":null,"more":null}"#,
    ] {
        let call = Call::decode(text.as_bytes(), DEPTH).unwrap();
        assert_eq!(call.parameters.text(), "{}");
        assert_eq!(call.mode, CallMode::Once);
    }
}

#[test]
fn what_is_no_call_is_refused() {
    for text in [
        "",
        "{",
        "[]",
        "1",
        r#"{"method":1}"#,
        r#"{"method":"a.B","method":"a.C"}"#,
        "{}",
        "\u{1}",
    ] {
        assert!(matches!(refused(text), MalformedMessage::Json(_)), "{text}");
    }
    assert!(matches!(
        Call::decode(b"{\"method\":\"a.\xff\"}", DEPTH),
        Err(MalformedMessage::Json(_))
    ));
    assert!(matches!(
        refused(r#"{"method":"a.B","parameters":[1]}"#),
        MalformedMessage::ParametersNotObject
    ));
    assert!(matches!(
        refused(r#"{"method":"a.B","more":true,"oneway":true}"#),
        MalformedMessage::ContradictoryFlags
    ));
    assert!(matches!(
        refused(r#"{"method":"nodot"}"#),
        MalformedMessage::BadMethod
    ));
    let long = format!(r#"{{"method":"a.{}"}}"#, "B".repeat(300));
    assert!(matches!(refused(&long), MalformedMessage::BadMethod));
    let deep = format!(
        r#"{{"method":"a.B","parameters":{{"x":{}}}}}"#,
        "[".repeat(100_000)
    );
    assert!(matches!(
        refused(&deep),
        MalformedMessage::TooDeep { limit: DEPTH }
    ));
}

#[test]
fn a_reply_is_read_as_it_was_written() {
    let replies = [
        Reply::empty(),
        Reply::of(&serde_json::json!({"a": [1, 2]})).and_more(),
        Reply::failure("a.b.Failed", &serde_json::json!({"why": "x"})),
    ];
    for reply in replies {
        let message = reply.encode();
        let read = Reply::decode(&message[..message.len() - 1], DEPTH).unwrap();
        assert_eq!(read.error, reply.error);
        assert_eq!(read.continues, reply.continues);
        assert_eq!(read.parameters.text(), reply.parameters.text());
    }
}

#[test]
fn the_parameter_that_is_wrong_is_named() {
    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        unit: String,
    }
    for text in [
        r#"{"method":"a.B"}"#,
        r#"{"method":"a.B","parameters":{"unit":"x","unit":"y"}}"#,
    ] {
        let call = Call::decode(text.as_bytes(), DEPTH).unwrap();
        match call.parameters.read::<Wanted>() {
            Err(ServiceError::InvalidParameter { parameter, .. }) => {
                assert_eq!(&*parameter, "unit")
            }
            other => panic!("{other:?}"),
        }
    }
}
