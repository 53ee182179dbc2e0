use super::*;
use crate::idl::Interface;
use serde_json::Value;

const INFO: ServiceInfo = ServiceInfo {
    vendor: "vendor",
    product: "product",
    version: "1",
    url: "https://example.org",
    interfaces: &[Offered {
        name: "io.example.Thing",
        text: "interface io.example.Thing",
    }],
};

fn ask(method: &str, parameters: &str) -> Option<Reply> {
    let text = format!(r#"{{"method":"{method}","parameters":{parameters}}}"#);
    INFO.answer(&Call::decode(text.as_bytes(), 8).unwrap())
}

fn value(reply: &Reply) -> Value {
    serde_json::from_str(reply.parameters.text()).unwrap()
}

#[test]
fn a_daemon_says_who_it_is_as_described() {
    let reply = ask("org.varlink.service.GetInfo", "{}").unwrap();
    let described = Interface::parse(INTERFACE_TEXT).unwrap();
    described.check_reply("GetInfo", &value(&reply)).unwrap();
    let info: InfoReply = reply.parameters.read().unwrap();
    assert_eq!(
        info.interfaces,
        ["org.varlink.service".into(), "io.example.Thing".into()]
    );
}

#[test]
fn every_offered_interface_is_described_and_no_other() {
    let describe = |name: &str| {
        let parameters = format!(r#"{{"interface":"{name}"}}"#);
        ask("org.varlink.service.GetInterfaceDescription", &parameters).unwrap()
    };
    for name in ["org.varlink.service", "io.example.Thing"] {
        let text: DescriptionReply = describe(name).parameters.read().unwrap();
        assert_eq!(&*Interface::parse(&text.description).unwrap().name, name);
    }
    let missing = describe("io.example.Other");
    assert_eq!(
        missing.error.unwrap(),
        "org.varlink.service.InterfaceNotFound"
    );
}

#[test]
fn calls_for_others_are_left_to_them_or_refused() {
    assert!(ask("io.example.Thing.Do", "{}").is_none());
    let error = |method| ask(method, "{}").unwrap().error.unwrap();
    assert_eq!(
        error("io.example.None.Do"),
        "org.varlink.service.InterfaceNotFound"
    );
    assert_eq!(
        error("org.varlink.service.Nope"),
        "org.varlink.service.MethodNotFound"
    );
    assert_eq!(
        error("org.varlink.service.GetInterfaceDescription"),
        "org.varlink.service.InvalidParameter"
    );
}

#[test]
fn every_error_is_as_described() {
    let described = Interface::parse(INTERFACE_TEXT).unwrap();
    let errors = [
        ServiceError::InterfaceNotFound("a.b".into()),
        ServiceError::MethodNotFound("a.b.C".into()),
        ServiceError::MethodNotImplemented("a.b.C".into()),
        ServiceError::InvalidParameter {
            parameter: "x".into(),
            reason: "y".into(),
        },
        ServiceError::PermissionDenied,
        ServiceError::ExpectedMore,
    ];
    for error in &errors {
        let name = error.name().rsplit('.').next().unwrap();
        described.check_error(name, &value(&error.reply())).unwrap();
    }
}
