use std::path::PathBuf;

use muster_provider::{MachineSpec, Secret, SshSeed};
use proptest::prelude::*;
use quick_xml::events::Event;
use quick_xml::reader::Reader;

use super::*;
use crate::plan::Origin;
use crate::plan::tests::{findings, order};
use crate::settings::Defaults;

fn plan(network: Option<&str>, image: &str) -> Option<MachinePlan> {
    let mut order = order(MachineSpec {
        network: network.map(str::to_owned),
        ..MachineSpec::default()
    });
    order.ssh = Some(SshSeed {
        user: "builder".to_owned(),
        authorized_keys: Vec::new(),
        host_private: Secret::new(String::new()),
        host_public: String::new(),
    });
    let mut findings = findings();
    findings.origin = Origin::Disc { path: image.into() };
    MachinePlan::new(&order, &Defaults::default(), findings).ok()
}

fn describe_with(plan: &MachinePlan, folder: &str) -> String {
    let folder = PathBuf::from(folder);
    describe(
        plan,
        Files {
            disk: &folder.join("disk"),
            seed: Some(&folder.join("seed")),
            console: &folder.join("console"),
            emulator: None,
        },
    )
}

/// Every element with its attributes, by an independent reader.
fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = Reader::from_str(xml);
    let mut found = Vec::new();
    loop {
        match reader.read_event().expect("it is well formed") {
            Event::Start(element) | Event::Empty(element) => {
                let attributes = element.attributes().map(|attribute| {
                    let attribute = attribute.expect("attributes are well formed");
                    let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0);
                    let key: &str = attribute.key.as_ref();
                    (key.to_owned(), value.expect("it unescapes").into_owned())
                });
                let name: &str = element.name().into_inner();
                found.push((name.to_owned(), attributes.collect()));
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

#[test]
fn the_mark_stands_in_the_description_and_is_read_back() {
    let plan = plan(None, "/disc.iso").unwrap();
    let xml = describe_with(&plan, "/machines/1");
    let begin = xml.find("<muster:machine").unwrap();
    let end = begin + xml[begin..].find("/>").unwrap() + 2;
    let read = Metadata::read(&xml[begin..end]).unwrap();
    assert_eq!(read.mark, plan.mark);
    assert_eq!(read.ssh_port, Some(2222));
    assert_eq!(read.ssh_user.as_deref(), Some("builder"));
    assert!(xml.contains("hostfwd=tcp:127.0.0.1:2222-:22"));
    assert!(xml.contains("<cpu mode=\"maximum\"/>"));
}

#[test]
fn a_named_network_replaces_the_users() {
    let xml = describe_with(&plan(Some("lab"), "/disc.iso").unwrap(), "/machines/1");
    assert!(xml.contains("<source network=\"lab\"/>"));
    assert!(!xml.contains("hostfwd"));
}

proptest! {
    /// However hostile a name or path is, the description has the same elements, and says exactly that name.
    #[test]
    fn no_name_changes_the_structure(network in "[\"'<>&; a-z/=ü]{1,30}", image in "/[\"'<>&; a-z=-]{1,30}") {
        let plain: Vec<String> = elements(&describe_with(&plan(Some("lab"), "/a").unwrap(), "/m"))
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let hostile = plan(Some(&network), &image).unwrap();
        let found = elements(&describe_with(&hostile, "/m"));
        let names: Vec<String> = found.iter().map(|(name, _)| name.clone()).collect();
        prop_assert_eq!(names, plain);
        let all: Vec<&(String, String)> = found.iter().flat_map(|(_, attributes)| attributes).collect();
        prop_assert!(all.contains(&&("network".to_owned(), network)));
        prop_assert!(all.contains(&&("file".to_owned(), image)));
    }
}
