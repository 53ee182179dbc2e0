use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn id(number: u8) -> InstanceId {
    InstanceId::new(format!("i{number}")).unwrap()
}

fn network(number: u8) -> NetworkPolicy {
    let subnet = format!("172.{}.0.0/24", 16 + number).parse().unwrap();
    let bridge = LinkName::new(format!("br{number}")).unwrap();
    NetworkPolicy::new(bridge, subnet, [172, 16 + number, 0, 1].into()).unwrap()
}

fn change() -> impl Strategy<Value = Change> {
    let (instance, address) = (0u8..4, 2u8..6);
    prop_oneof![
        (0u8..2, any::<bool>()).prop_map(|(number, masquerade)| {
            let network = network(number);
            Change::PutNetwork(if masquerade {
                network
            } else {
                network.without_masquerade()
            })
        }),
        (0u8..2).prop_map(|number| Change::RemoveNetwork(network(number).bridge().clone())),
        (instance.clone(), address.clone()).prop_map(|(number, host)| {
            let address = std::net::Ipv4Addr::new(172, 16, 0, host).into();
            Change::PutInstance(InstancePolicy::new(id(number), &network(0), address).unwrap())
        }),
        instance
            .clone()
            .prop_map(|number| Change::RemoveInstance(id(number))),
        (instance.clone(), address, any::<bool>()).prop_map(|(number, host, blocked)| {
            Change::PutMeter(Meter {
                instance: id(number),
                address: [172, 16, 0, host].into(),
                download_blocked: blocked,
                upload_blocked: !blocked,
            })
        }),
        instance.prop_map(|number| Change::RemoveMeter(id(number))),
    ]
}

/// What the kernel has, as far as it decides whether a line is refused.
#[derive(Default)]
struct Kernel {
    chains: BTreeSet<String>,
    counters: BTreeSet<String>,
    elements: BTreeSet<(String, String)>,
    /// Chain names by element.
    targets: BTreeSet<(String, String, String)>,
}

impl Kernel {
    /// Carries a script out, line by line, as strict as the kernel is.
    fn run(&mut self, script: &str) -> Result<(), String> {
        for line in script.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let refused = |why: &str| Err(format!("{why}: {line}"));
            match words[..] {
                ["add", "chain", "inet", "muster", name, ..] => {
                    self.chains.insert(name.to_owned());
                }
                ["flush", "chain", "inet", "muster", name] if self.chains.contains(name) => {}
                ["delete", "chain", "inet", "muster", name] => {
                    if self.targets.iter().any(|(_, _, target)| target == name) {
                        return refused("in use");
                    }
                    if !self.chains.remove(name) {
                        return refused("no chain");
                    }
                }
                ["add", "counter", "inet", "muster", name] => {
                    self.counters.insert(name.to_owned());
                }
                ["delete", "counter", "inet", "muster", name] => {
                    if !self.counters.remove(name) {
                        return refused("no counter");
                    }
                }
                ["add", "rule", "inet", "muster", name, ..] if self.chains.contains(name) => {}
                ["add", "element", "inet", "muster", map, ..] => {
                    let key = line
                        .split("{ ")
                        .nth(1)
                        .unwrap_or_default()
                        .split(" }")
                        .next()
                        .unwrap_or_default();
                    let key = key.split(" comment").next().unwrap_or_default().to_owned();
                    if !self.elements.insert((map.to_owned(), key.clone())) {
                        return refused("there already");
                    }
                    if let Some(target) = line
                        .split(" : ")
                        .nth(1)
                        .and_then(|verdict| verdict.split(' ').nth(1))
                    {
                        if !self.chains.contains(target) {
                            return refused("no target");
                        }
                        self.targets
                            .insert((map.to_owned(), key, target.to_owned()));
                    }
                }
                ["delete", "element", "inet", "muster", map, ..] => {
                    let key = line
                        .split("{ ")
                        .nth(1)
                        .unwrap_or_default()
                        .split(" }")
                        .next()
                        .unwrap_or_default();
                    if !self.elements.remove(&(map.to_owned(), key.to_owned())) {
                        return refused("no element");
                    }
                    self.targets.retain(|(of, at, _)| of != map || at != key);
                }
                ["add", "table" | "set" | "map", ..] => {}
                _ => return refused("not understood"),
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Any changes, in any order and any portions: the kernel refuses none, ends with exactly the chains of those that are
    /// there, and the state that the next script is made from is the kernel's.
    #[test]
    fn no_order_of_changes_is_refused_or_leaves_anything(
        portions in prop::collection::vec(prop::collection::vec(change(), 0..6), 1..6),
    ) {
        let mut kernel = Kernel::default();
        let mut state = Installed::default();
        for portion in portions {
            let mut script = Script { text: String::new(), state: state.clone() };
            if !state.founded {
                script.found();
            }
            portion.iter().for_each(|change| script.make(change));
            prop_assert_eq!(&script.text, &changes(&state, &portion));
            kernel.run(&script.text).map_err(TestCaseError::fail)?;
            // Instances add no rules to chains that the packets of others pass: their number costs nothing.
            let of_all = |line: &&str| line.starts_with("add rule") && !line.contains("_system") && {
                let chain = line.split(' ').nth(4).unwrap_or_default();
                chain.rsplit('_').next().is_none_or(|tag| tag.len() != 16)
            };
            prop_assert!(!state.founded || script.text.lines().find(of_all).is_none());
            state = script.state;
            state.founded = true;
        }
        let chains: BTreeSet<_> = kernel.chains.iter().filter(|name| name.len() > 18).cloned().collect();
        let mut expected = BTreeSet::new();
        for instance in state.instances.keys() {
            expected.extend(["out", "in", "node"].map(|prefix| format!("{prefix}_{}", instance.tag())));
        }
        for instance in state.meters.keys() {
            expected.extend(["down", "up"].map(|prefix| format!("{prefix}_{}", instance.tag())));
        }
        prop_assert_eq!(chains, expected);
        prop_assert_eq!(kernel.counters.len(), 2 + 2 * state.meters.len());
        let addresses: BTreeSet<_> = state.instances.values().collect();
        prop_assert_eq!(addresses.len(), state.instances.len(), "an address has one owner");
    }
}
