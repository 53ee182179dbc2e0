//! What name services are told.

use serde_json::{Value, json};

use super::*;

fn ask(method: &str, parameters: &Value, more: bool) -> Vec<Value> {
    let known: [Named; 2] = [("one".into(), 62_001), ("two".into(), 62_002)];
    ask_of(&known, method, parameters, more)
}

fn ask_of(known: &[Named], method: &str, parameters: &Value, more: bool) -> Vec<Value> {
    let method = format!("{INTERFACE}.{method}");
    let message = json!({"method": method, "parameters": parameters, "more": more});
    let call = Call::decode(message.to_string().as_bytes(), 16).unwrap();
    let replies = answer(&call, known);
    let count = replies.len();
    assert!(
        (1..)
            .zip(&replies)
            .all(|(at, reply)| reply.continues == (at < count))
    );
    let read = |reply: &Reply| match &reply.error {
        Some(error) => Value::from(error.rsplit('.').next()),
        None => serde_json::from_str(reply.parameters.text()).unwrap(),
    };
    replies.iter().map(read).collect()
}

#[test]
fn users_and_groups_are_found_by_number_and_by_name() {
    for wanted in [
        json!({"uid": 62_002, "service": SERVICE}),
        json!({"userName": "two", "service": SERVICE}),
        json!({"userName": "two", "uid": 62_002, "service": SERVICE}),
    ] {
        let told = ask("GetUserRecord", &wanted, false);
        let record = &told[0]["record"];
        assert_eq!(
            (&record["userName"], &record["uid"]),
            (&json!("two"), &json!(62_002))
        );
        assert_eq!(
            (&record["gid"], &record["disposition"]),
            (&json!(62_002), &json!("dynamic"))
        );
        assert_eq!(told[0]["incomplete"], json!(false));
    }
    let told = ask(
        "GetGroupRecord",
        &json!({"gid": 62_001, "service": SERVICE}),
        false,
    );
    assert_eq!(told[0]["record"]["groupName"], json!("one"));
    let told = ask(
        "GetGroupRecord",
        &json!({"groupName": "one", "service": SERVICE}),
        false,
    );
    assert_eq!(told[0]["record"]["gid"], json!(62_001));
}

#[test]
fn all_are_listed_for_whoever_takes_more_than_one_answer() {
    let told = ask("GetUserRecord", &json!({"service": SERVICE}), true);
    let names: Vec<&Value> = told.iter().map(|one| &one["record"]["userName"]).collect();
    assert_eq!(names, [&json!("one"), &json!("two")]);
    assert_eq!(
        ask("GetUserRecord", &json!({"service": SERVICE}), false),
        ["ExpectedMore"]
    );
    let nobody = ask_of(&[], "GetUserRecord", &json!({"service": SERVICE}), true);
    assert_eq!(nobody, ["NoRecordFound"]);
}

#[test]
fn what_is_not_there_is_said_to_be_so() {
    for (method, wanted, error) in [
        (
            "GetUserRecord",
            json!({"uid": 1, "service": SERVICE}),
            "NoRecordFound",
        ),
        (
            "GetUserRecord",
            json!({"userName": "root", "service": SERVICE}),
            "NoRecordFound",
        ),
        (
            "GetUserRecord",
            json!({"userName": "one", "uid": 62_002, "service": SERVICE}),
            "ConflictingRecordFound",
        ),
        (
            "GetUserRecord",
            json!({"uid": 62_001, "service": "io.systemd.Home"}),
            "BadService",
        ),
        ("GetUserRecord", json!({"uid": 62_001}), "BadService"),
        (
            "GetUserRecord",
            json!({"uid": "x", "service": SERVICE}),
            "InvalidParameter",
        ),
        (
            "GetMemberships",
            json!({"userName": "one", "service": SERVICE}),
            "NoRecordFound",
        ),
        ("GetAnything", json!({}), "MethodNotFound"),
    ] {
        assert_eq!(ask(method, &wanted, false), [error], "{method} {wanted}");
    }
}
