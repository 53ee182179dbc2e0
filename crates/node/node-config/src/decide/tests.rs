use proptest::prelude::*;

use super::*;

fn identity() -> Identity {
    Identity {
        node_id: NodeId::new("node-1").expect("an id"),
        node_type: NodeType::new("main").expect("a type"),
    }
}

fn offered(version: &str, document: &str) -> Result<Offer, RefuseNodeConfig> {
    read_offer(version, document, &identity(), &Limits::default())
}

fn offer(version: &str, priority: u64) -> Offer {
    offered(version, &format!("{{\"priority\": {priority}}}")).expect("an offer")
}

fn installed(version: &str, priority: u64) -> State {
    let offer = offer(version, priority);
    State::Installed {
        version: offer.version,
        config: Arc::new(offer.config),
    }
}

#[test]
fn only_a_higher_version_replaces_what_is_installed() {
    let state = installed("2.0.0", 1);
    for version in ["2.0.1", "2.1.0", "10.0.0", "3.0.0-alpha"] {
        assert_eq!(
            state.decide(&offer(version, 1)),
            Ok(Decision::Take),
            "{version}"
        );
    }
    for version in ["1.9.9", "2.0.0-rc.1", "0.0.1"] {
        let refusal = state.decide(&offer(version, 1)).expect_err(version);
        assert_eq!(refusal.code(), AosCode::WrongState, "{version}");
        assert!(refusal.to_string().contains(version), "{refusal}");
    }
}

#[test]
fn the_installed_version_may_be_repeated_but_not_changed() {
    let state = installed("2.0.0", 1);
    assert_eq!(state.decide(&offer("2.0.0", 1)), Ok(Decision::Keep));
    assert_eq!(state.decide(&offer("2.0.0+build.7", 1)), Ok(Decision::Keep));
    let refusal = state.decide(&offer("2.0.0", 2)).expect_err("other content");
    assert_eq!(refusal.code(), AosCode::AlreadyExists);
}

#[test]
fn any_version_replaces_nothing_and_what_cannot_be_read() {
    let unreadable = State::Unreadable {
        version: "9.0.0".into(),
        reason: "x".into(),
    };
    for state in [State::Absent, unreadable] {
        assert_eq!(state.decide(&offer("0.0.1", 1)), Ok(Decision::Take));
        assert_eq!(*state.config(), NodeConfig::default());
    }
}

#[test]
fn a_document_for_another_node_is_refused_by_name() {
    let refusal = |document| offered("1.0.0", document).expect_err(document);
    let other = refusal(r#"{"node": {"codename": "node-2"}}"#);
    assert_eq!(other.code(), AosCode::InvalidArgument);
    assert_eq!(
        other.to_string(),
        "node.codename: the node configuration is for \"node-2\", and this is \"node-1\""
    );
    let other = refusal(r#"{"nodeGroupSubject": {"codename": "secondary"}}"#).to_string();
    assert!(other.starts_with("nodeGroupSubject.codename: "), "{other}");
    let own = r#"{"node": {"codename": "node-1"}, "nodeGroupSubject": {"codename": "main"}}"#;
    assert!(offered("1.0.0", own).is_ok());
}

#[test]
fn there_is_one_version() {
    let with = r#"{"version": "1.2.3"}"#;
    let version = |request, document| offered(request, document).map(|it| it.version);
    assert_eq!(version("1.2.3", with), Ok(Version::new(1, 2, 3)));
    assert_eq!(version("", with), Ok(Version::new(1, 2, 3)));
    assert_eq!(version("1.2.3", "{}"), Ok(Version::new(1, 2, 3)));
    assert_eq!(version("", "{}"), Err(RefuseNodeConfig::NoVersion));
    assert!(matches!(
        version("1.2.4", with),
        Err(RefuseNodeConfig::TwoVersions { .. })
    ));
    for text in ["1", "1.0", "v1.0.0", "1.0.0.0", "-"] {
        let refusal = version(text, "{}").expect_err(text);
        assert_eq!(refusal.code(), AosCode::InvalidArgument);
    }
}

proptest! {
    /// Whatever is offered in whatever order: versions only rise, and what is in force is what the last taken offer said.
    #[test]
    fn versions_only_rise(offers in prop::collection::vec((0_u64..4, 0_u64..3, 0_u64..3), 1..40)) {
        let mut state = State::Absent;
        for (major, minor, priority) in offers {
            let offer = offer(&format!("{major}.{minor}.0"), priority);
            let decision = state.decide(&offer);
            if let State::Installed { version, config } = &state {
                let expected = match offer.version.cmp(version) {
                    Ordering::Greater => Some(Decision::Take),
                    Ordering::Equal if **config == offer.config => Some(Decision::Keep),
                    _ => None,
                };
                prop_assert_eq!(decision.clone().ok(), expected);
            }
            if decision == Ok(Decision::Take) {
                state = State::Installed { version: offer.version, config: Arc::new(offer.config) };
                prop_assert_eq!(state.config().priority, priority);
            }
            // Taken or not: what is installed can always be repeated.
            if let State::Installed { version, config } = &state {
                let again = Offer { version: version.clone(), config: (**config).clone(), unknown: Vec::new() };
                prop_assert_eq!(state.decide(&again), Ok(Decision::Keep));
            }
        }
    }
}
