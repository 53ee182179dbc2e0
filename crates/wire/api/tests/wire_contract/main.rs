//! The compiled contracts against the table of the interface that the field already speaks
//! (`tests/data/wire-api.csv`), entry by entry.

mod compare;
mod descriptor;
mod table;

use std::collections::BTreeMap;

use muster_api::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};

use crate::compare::compare;
use crate::table::{Key, Shape};

const TABLE: &str = include_str!("../data/wire-api.csv");

fn expected() -> BTreeMap<Key, Shape> {
    table::read(TABLE).expect("the table in tests/data is well formed")
}

fn compiled() -> FileDescriptorSet {
    FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the descriptor set is well formed")
}

/// Applies `change` to one message of the compiled contracts and compares the result.
fn report_after(message: &str, change: impl FnOnce(&mut DescriptorProto)) -> String {
    let mut set = compiled();
    let message = set
        .file
        .iter_mut()
        .flat_map(|file| &mut file.message_type)
        .find(|candidate| candidate.name() == message)
        .expect("the message is part of the contracts");
    change(message);
    compare(&expected(), &descriptor::read(&set)).expect_err("the change is found")
}

#[test]
fn contracts_equal_the_published_table() {
    if let Err(report) = compare(&expected(), &descriptor::read(&compiled())) {
        panic!("{report}");
    }
}

#[test]
fn every_package_of_the_table_is_proto3() {
    for file in compiled().file {
        assert_eq!(file.syntax(), "proto3", "{}", file.name());
    }
}

/// The table lists a map as a list of its entries, which is also how the two look on the wire.
#[test]
fn permissions_are_maps() {
    let set = compiled();
    for owner in ["Permissions", "RegisterInstanceRequest"] {
        let mut messages = set.file.iter().flat_map(|file| &file.message_type);
        let message = messages
            .find(|message| message.name() == owner)
            .expect("in the contracts");
        let entry = &message.nested_type[0];
        let is_map = entry
            .options
            .as_ref()
            .is_some_and(prost_types::MessageOptions::map_entry);
        assert!(is_map && entry.name() == "PermissionsEntry", "{owner}");
    }
}

#[test]
fn an_altered_field_number_is_reported_by_name() {
    let report = report_after("InstanceInfo", |message| {
        let field = message
            .field
            .iter_mut()
            .find(|field| field.name() == "runtime_id");
        field.expect("the field exists").number = Some(77);
    });
    assert_eq!(
        report,
        "1 difference between the contracts and the table:\n\
         differs: servicemanager.v5 field InstanceInfo.runtime_id: \
         expected 5 string, found 77 string"
    );
}

#[test]
fn a_removed_field_is_reported_by_name() {
    let report = report_after("Alert", |message| {
        message.field.retain(|field| field.name() != "core_alert");
    });
    assert_eq!(
        report,
        "1 difference between the contracts and the table:\n\
         missing: servicemanager.v5 field Alert.core_alert: \
         expected 6 servicemanager.v5.CoreAlert oneof AlertItem, found nothing"
    );
}

#[test]
fn an_extra_field_is_reported_by_name() {
    let report = report_after("ErrorInfo", |message| {
        let mut field = message.field[0].clone();
        field.name = Some("severity".to_owned());
        field.number = Some(4);
        message.field.push(field);
    });
    assert_eq!(
        report,
        "1 difference between the contracts and the table:\n\
         extra: common.v2 field ErrorInfo.severity: expected nothing, found 4 int32"
    );
}

#[test]
fn an_altered_label_oneof_or_type_is_reported() {
    let report = report_after("Alert", |message| {
        message.oneof_decl[0].name = Some("Other".to_owned());
    });
    assert_eq!(report.matches("differs:").count(), 6, "{report}");

    let report = report_after("Subjects", |message| {
        message.field[0].set_label(prost_types::field_descriptor_proto::Label::Optional);
        message.field[0].set_type(prost_types::field_descriptor_proto::Type::Bytes);
    });
    assert!(
        report.contains("expected 1 string repeated, found 1 bytes"),
        "{report}"
    );
}

#[test]
fn services_enums_and_empty_messages_are_compared_too() {
    let mut set = compiled();
    for file in &mut set.file {
        for service in &mut file.service {
            for method in &mut service.method {
                if method.name() == "GetBlobsInfos" {
                    method.server_streaming = Some(true);
                }
            }
        }
        for value in file.enum_type.iter_mut().flat_map(|kind| &mut kind.value) {
            if value.name() == "COMPONENT" {
                value.number = Some(2);
            }
        }
        file.message_type
            .retain(|message| message.name() != "ClockSyncRequest");
    }
    let report = compare(&expected(), &descriptor::read(&set)).expect_err("three changes");
    for part in [
        "3 differences",
        "differs: servicemanager.v5 rpc SMService.GetBlobsInfos:",
        "found servicemanager.v5.BlobsInfosRequest stream servicemanager.v5.BlobsInfos",
        "differs: common.v2 enum ItemType.COMPONENT: expected 1, found 2",
        "missing: servicemanager.v5 message ClockSyncRequest:",
    ] {
        assert!(report.contains(part), "{part:?} is not in:\n{report}");
    }
}

#[test]
fn the_table_is_read_whole() {
    assert_eq!(
        expected().len(),
        TABLE.lines().count() - 1,
        "no two rows share a key"
    );
}
