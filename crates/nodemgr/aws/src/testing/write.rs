//! Answers in XML.

use std::net::Ipv4Addr;

use quick_xml::escape::escape;

use super::world::{Machine, Refusal};

/// An element with text.
pub(super) fn text(name: &str, value: &str) -> String {
    format!("<{name}>{}</{name}>", escape(value))
}

/// An element with elements in it.
pub(super) fn list(name: &str, items: impl IntoIterator<Item = String>) -> String {
    let items: String = items
        .into_iter()
        .map(|item| format!("<item>{item}</item>"))
        .collect();
    format!("<{name}>{items}</{name}>")
}

pub(super) fn answer(action: &str, inside: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
         <requestId>fake</requestId>{inside}</{action}Response>"
    )
}

pub(super) fn identity(account: &str) -> String {
    let who = text("Arn", &format!("arn:aws:iam::{account}:user/fake")) + &text("UserId", "FAKE");
    let result = who + &text("Account", account);
    format!(
        "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <GetCallerIdentityResult>{result}</GetCallerIdentityResult></GetCallerIdentityResponse>"
    )
}

pub(super) fn refusal(refusal: &Refusal) -> String {
    let error = text("Code", refusal.code) + &text("Message", &refusal.message);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <Response><Errors><Error>{error}</Error></Errors><RequestID>fake</RequestID></Response>"
    )
}

/// A state, under the name that it has there.
pub(super) fn state(name: &str, state: muster_lifecycle::State) -> String {
    let inside = text("code", &state.code().to_string()) + &text("name", state.ec2_name());
    format!("<{name}>{inside}</{name}>")
}

pub(super) fn instance(machine: &Machine, address: Ipv4Addr, now: std::time::Instant) -> String {
    let tags = machine
        .tags
        .iter()
        .map(|(key, value)| text("key", key) + &text("value", value));
    let mut inside = text("instanceId", &machine.id)
        + &text("imageId", &machine.image)
        + &text("instanceType", &machine.kind)
        + &state("instanceState", machine.state_at(now))
        + &text("privateIpAddress", &address.to_string())
        + &text("ipAddress", "192.0.2.7")
        + "<placement><availabilityZone>eu-central-1a</availabilityZone></placement>"
        + &format!(
            "<hibernationOptions>{}</hibernationOptions>",
            text("configured", &machine.can_hibernate.to_string())
        )
        + &list("tagSet", tags);
    if machine.spot {
        inside += &text("instanceLifecycle", "spot");
    }
    if let Some(reason) = machine.reason {
        inside += &format!("<stateReason>{}</stateReason>", text("code", reason));
    }
    inside
}
