//! Names by which an instance is found. Pure.

use muster_api::domain::{InstanceIdent, NetworkId};

/// Labels and whole names have their longest lengths in DNS.
const MAX_LABEL: usize = 63;
const MAX_NAME: usize = 253;

/// All names of an instance in its network, in lower case: its host name, its id, and `instance.subject.item`, the first one
/// of a subject also without the number; each also within the network's name. What is no name in DNS is left out.
pub(crate) fn of_instance(
    ident: &InstanceIdent,
    hostname: Option<&str>,
    network: &NetworkId,
) -> Vec<String> {
    let (number, subject, item) = (ident.instance, &ident.subject_id, &ident.item_id);
    let mut short = Vec::new();
    short.extend(hostname.map(str::to_owned));
    short.push(ident.instance_id().to_string());
    short.push(format!("{number}.{subject}.{item}"));
    if number == 0 {
        short.push(format!("{subject}.{item}"));
    }
    let mut names: Vec<String> = Vec::new();
    for name in short {
        for name in [name.clone(), format!("{name}.{network}")] {
            let name = name.to_ascii_lowercase();
            if is_dns_name(&name) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn is_dns_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let label = |label: &str| (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(inner);
    name.len() <= MAX_NAME && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use muster_api::domain::{ItemId, ItemType, SubjectId};
    use proptest::prelude::*;

    use super::*;

    fn ident(item: &str, subject: &str, instance: u64) -> InstanceIdent {
        InstanceIdent {
            item_id: ItemId::new(item).unwrap(),
            subject_id: SubjectId::new(subject).unwrap(),
            instance,
            item_type: ItemType::Service,
            preinstalled: false,
        }
    }

    #[test]
    fn an_instance_is_found_by_the_names_that_the_field_uses() {
        let network = NetworkId::new("net").unwrap();
        let first = ident("Item0", "subject0", 0);
        let id = first.instance_id();
        let expected = format!(
            "web web.net {id} {id}.net 0.subject0.item0 0.subject0.item0.net subject0.item0 subject0.item0.net"
        );
        assert_eq!(
            of_instance(&first, Some("web"), &network).join(" "),
            expected
        );
        assert_eq!(of_instance(&ident("i", "s", 3), None, &network).len(), 4);
    }

    #[test]
    fn what_is_no_name_is_left_out() {
        let network = NetworkId::new("a network").unwrap();
        let id = ident("i t", "s", 1);
        assert_eq!(
            of_instance(&id, None, &network),
            [id.instance_id().to_string()]
        );
    }

    proptest! {
        #[test]
        fn every_name_is_one_that_a_name_server_takes(
            item in "[a-zA-Z0-9 ._-]{1,80}", subject in "[a-zA-Z0-9 ._:-]{1,80}", number in 0_u64..3, network in "[a-zA-Z0-9 ._-]{1,80}"
        ) {
            prop_assume!(![item.as_str(), subject.as_str(), network.as_str()].iter().any(|it| [".", ".."].contains(it)));
            let ident = ident(&item, &subject, number);
            let names = of_instance(&ident, Some("h"), &NetworkId::new(&network).unwrap());
            prop_assert!(names.contains(&"h".to_owned()) && names.contains(&ident.instance_id().to_string()));
            for name in names {
                prop_assert!(is_dns_name(&name), "{}", name);
            }
        }
    }
}
