use super::*;
use proptest::prelude::*;

#[test]
fn every_known_role_survives_a_round_trip() {
    for name in ["iam", "cm", "sm", "mp", "nodemgr", "operator"] {
        let role = Role::new(name).unwrap();
        assert_eq!(role.as_str(), name);
        assert!(
            !matches!(role, Role::Custom(_)),
            "{name} must be a known role"
        );
    }
    assert_eq!(Role::new("billing").unwrap().as_str(), "billing");
}

#[test]
fn an_identity_has_its_three_parts() {
    let id: SpiffeId = "spiffe://system-1/node/Node_7.a/sm".parse().unwrap();
    assert_eq!(id.system.as_str(), "system-1");
    assert_eq!(id.node.as_str(), "Node_7.a");
    assert_eq!(id.role, Role::Sm);
    assert_eq!(id.to_string(), "spiffe://system-1/node/Node_7.a/sm");
}

#[test]
fn everything_but_the_one_spelling_is_refused() {
    for text in [
        "",
        "spiffe://",
        "spiffe://s",
        "spiffe://s/",
        "spiffe://s/node",
        "spiffe://s/node/n",
        "spiffe://s/node/n/",
        "spiffe://s/node/n/sm/",
        "spiffe://s/node/n/sm/extra",
        "spiffe://s//node/n/sm",
        "spiffe://s/node//sm",
        "spiffe:///node/n/sm",
        "spiffe://s/Node/n/sm",
        "spiffe://s/host/n/sm",
        "spiffe://S/node/n/sm",
        "SPIFFE://s/node/n/sm",
        "spiffe:/s/node/n/sm",
        "https://s/node/n/sm",
        " spiffe://s/node/n/sm",
        "spiffe://s/node/n/sm ",
        "spiffe://s/node/n/sm\n",
        "spiffe://s/node/n/sm\0",
        "spiffe://s:443/node/n/sm",
        "spiffe://u@s/node/n/sm",
        "spiffe://s/node/n/sm?x=1",
        "spiffe://s/node/n/sm#x",
        "spiffe://s/node/n%20/sm",
        "spiffe://s/node/./sm",
        "spiffe://s/node/../sm",
        "spiffe://s/node/n/..",
        "spiffe://./node/n/sm",
        "spiffe://s/node/n/SM",
        "spiffe://s/node/n/sm\u{301}",
        "spiffe://s/node/\u{43d}/sm",
    ] {
        assert!(
            text.parse::<SpiffeId>().is_err(),
            "{text:?} must be refused"
        );
    }
}

#[test]
fn lengths_are_bounded_exactly() {
    assert!(SystemId::new("a".repeat(255)).is_ok());
    assert!(SystemId::new("a".repeat(256)).is_err());
    assert!(NodeId::new("a".repeat(255)).is_ok());
    assert!(NodeId::new("a".repeat(256)).is_err());
    assert!(Role::new(&"a".repeat(64)).is_ok());
    assert!(Role::new(&"a".repeat(65)).is_err());
    let long = format!("spiffe://{}", "a".repeat(2048));
    assert_eq!(
        long.parse::<SpiffeId>(),
        Err(ParseSpiffeError::TooLong { len: 2057 })
    );
}

#[test]
fn any_spelling_of_the_scheme_is_a_claim() {
    assert!(claims_to_be_spiffe("spiffe://x"));
    assert!(claims_to_be_spiffe("SPIFFE:x"));
    assert!(!claims_to_be_spiffe("https://spiffe:"));
    assert!(!claims_to_be_spiffe("spiff\u{e9}:"));
}

proptest! {
    /// What is accepted prints as it was written: one identity, one spelling.
    #[test]
    fn accepted_text_is_canonical(text in "(spiffe|SPIFFE|spif)://[a-zA-Z0-9._%-]{0,6}/(node|Node|)/[a-zA-Z0-9./-]{0,6}/[a-zA-Z./]{0,5}") {
        if let Ok(id) = text.parse::<SpiffeId>() {
            prop_assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn arbitrary_text_never_panics_and_never_yields_two_spellings(text in any::<String>()) {
        if let Ok(id) = text.parse::<SpiffeId>() {
            prop_assert_eq!(&id.to_string(), &text);
            prop_assert!(claims_to_be_spiffe(&text));
        }
    }

    #[test]
    fn every_well_formed_identity_survives_a_round_trip(
        system in "[a-z0-9_-]{1,20}", node in "[A-Za-z0-9_-]{1,20}", role in "[a-z0-9_-]{1,20}",
    ) {
        let id = SpiffeId {
            system: SystemId::new(system).unwrap(),
            node: NodeId::new(node).unwrap(),
            role: Role::new(&role).unwrap(),
        };
        prop_assert_eq!(id.to_string().parse::<SpiffeId>(), Ok(id));
    }
}
