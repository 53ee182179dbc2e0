//! A descriptor set in the form of the interface table.

use std::collections::BTreeMap;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

use crate::table::{Key, Shape};

/// Lists every entry of every package except Google's own.
pub(crate) fn read(set: &FileDescriptorSet) -> BTreeMap<Key, Shape> {
    let mut listing = Listing::default();
    for file in set
        .file
        .iter()
        .filter(|file| !file.package().starts_with("google."))
    {
        listing.package = file.package().to_owned();
        for message in &file.message_type {
            listing.add_message(message.name(), message);
        }
        for kind in &file.enum_type {
            for value in &kind.value {
                let shape = Shape {
                    number: Some(value.number()),
                    ..Shape::default()
                };
                listing.add("enum", kind.name(), value.name(), shape);
            }
        }
        for service in &file.service {
            for method in &service.method {
                let shape = Shape {
                    number: None,
                    kind: streamed(method.client_streaming(), method.input_type()),
                    label: streamed(method.server_streaming(), method.output_type()),
                };
                listing.add("rpc", service.name(), method.name(), shape);
            }
        }
    }
    listing.entries
}

#[derive(Default)]
struct Listing {
    package: String,
    entries: BTreeMap<Key, Shape>,
}

impl Listing {
    fn add(&mut self, kind: &'static str, owner: &str, name: &str, shape: Shape) {
        let key = Key {
            package: self.package.clone(),
            kind,
            owner: owner.into(),
            name: name.into(),
        };
        self.entries.insert(key, shape);
    }

    fn add_message(&mut self, path: &str, message: &DescriptorProto) {
        if message.field.is_empty() {
            self.add("message", path, "", Shape::default());
        }
        for field in &message.field {
            let shape = Shape {
                number: Some(field.number()),
                kind: type_of(field),
                label: label_of(message, field),
            };
            self.add("field", path, field.name(), shape);
        }
        for nested in &message.nested_type {
            self.add_message(&format!("{path}.{}", nested.name()), nested);
        }
        for kind in &message.enum_type {
            for value in &kind.value {
                let shape = Shape {
                    number: Some(value.number()),
                    ..Shape::default()
                };
                self.add(
                    "enum",
                    &format!("{path}.{}", kind.name()),
                    value.name(),
                    shape,
                );
            }
        }
    }
}

fn absolute(name: &str) -> &str {
    name.trim_start_matches('.')
}

fn streamed(is_stream: bool, name: &str) -> String {
    format!(
        "{}{}",
        if is_stream { "stream " } else { "" },
        absolute(name)
    )
}

fn type_of(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum | Type::Group => absolute(field.type_name()).to_owned(),
        // The scalar's name in the language is the constant's name without its prefix.
        scalar => scalar
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_lowercase(),
    }
}

fn label_of(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    if field.label() == Label::Repeated {
        return "repeated".to_owned();
    }
    if field.proto3_optional() {
        return "optional".to_owned();
    }
    let oneof = field
        .oneof_index
        .and_then(|index| usize::try_from(index).ok());
    oneof.map_or_else(String::new, |index| {
        format!("oneof {}", message.oneof_decl[index].name())
    })
}
