use super::*;
use proptest::prelude::*;

fn names() -> CertNames {
    CertNames {
        issuer_cn: vec!["Aos Root".into()],
        subject_cn: vec!["node-7".into()],
        subject_o: vec!["Aos".into(), "Fleet".into()],
        dns: vec!["sm.node-7.local".into()],
        uris: vec![],
    }
}

fn condition(field: CertField, pattern: Pattern) -> Condition {
    Condition { field, pattern }
}

fn exact(text: &str) -> Pattern {
    Pattern::Exact(text.into())
}

fn identity(node: Take<NodeId>) -> MappedIdentity {
    MappedIdentity {
        system: Take::Fixed(SystemId::new("system-1").unwrap()),
        node,
        role: Role::Sm,
    }
}

#[test]
fn all_conditions_have_to_hold() {
    let rule = MappingRule::new(
        condition(CertField::IssuerCn, exact("Aos Root")),
        identity(Take::From(CertField::SubjectCn)),
    )
    .and(condition(
        CertField::Dns,
        Pattern::Glob("sm.*.local".into()),
    ));
    assert_eq!(
        rule.apply(&names()).unwrap().unwrap().to_string(),
        "spiffe://system-1/node/node-7/sm"
    );
    let stricter = rule.and(condition(CertField::SubjectO, exact("Somebody else")));
    assert_eq!(stricter.apply(&names()), None);
}

#[test]
fn a_part_is_never_guessed() {
    let from_o = MappingRule::new(
        condition(CertField::SubjectO, exact("Fleet")),
        identity(Take::From(CertField::SubjectO)),
    );
    assert_eq!(
        from_o.apply(&names()).unwrap(),
        Err(MapIdentityError::NotOne {
            part: "node id",
            field: CertField::SubjectO,
            found: 2
        })
    );
    let from_issuer = MappingRule::new(
        condition(CertField::SubjectO, exact("Fleet")),
        identity(Take::From(CertField::IssuerCn)),
    );
    assert!(matches!(
        from_issuer.apply(&names()).unwrap(),
        Err(MapIdentityError::Part {
            part: "node id",
            ..
        })
    ));
}

#[test]
fn globs_match_whole_names() {
    for (glob, text, wanted) in [
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
        ("*", "anything", true),
        ("a*", "abc", true),
        ("a*", "ba", false),
        ("*c", "abc", true),
        ("*c", "abcd", false),
        ("a*c", "ac", true),
        ("ab*ba", "aba", false),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "acb", false),
        ("**", "x", true),
        ("a**c", "abc", true),
        ("a.c", "abc", false),
        ("*\u{fc}*", "gr\u{fc}n", true),
    ] {
        assert_eq!(
            Pattern::Glob(glob.into()).matches(text),
            wanted,
            "{glob:?} on {text:?}"
        );
    }
}

/// The definition of a glob, as slow as it is obvious.
fn glob_by_definition(glob: &[char], text: &[char]) -> bool {
    match glob.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|skip| glob_by_definition(rest, &text[skip..])),
        Some((wanted, rest)) => text
            .split_first()
            .is_some_and(|(got, text)| got == wanted && glob_by_definition(rest, text)),
    }
}

proptest! {
    #[test]
    fn globs_agree_with_their_definition(glob in "[ab*]{0,7}", text in "[ab]{0,9}") {
        let glob_chars: Vec<char> = glob.chars().collect();
        let text_chars: Vec<char> = text.chars().collect();
        prop_assert_eq!(
            Pattern::Glob(glob).matches(&text),
            glob_by_definition(&glob_chars, &text_chars)
        );
    }

    /// Whatever the certificate says, the role is the rule's.
    #[test]
    fn the_role_never_comes_from_the_certificate(
        cn in prop::collection::vec(any::<String>(), 0..3),
        dns in prop::collection::vec("[a-z.]{0,8}", 0..3),
    ) {
        let names = CertNames { subject_cn: cn, dns, ..CertNames::default() };
        let rule = MappingRule::new(
            condition(CertField::SubjectCn, Pattern::Glob("*".into())),
            identity(Take::From(CertField::Dns)),
        );
        match rule.apply(&names) {
            None => prop_assert!(names.subject_cn.is_empty()),
            Some(Ok(id)) => {
                prop_assert_eq!(id.role, Role::Sm);
                prop_assert_eq!(id.node.as_str(), names.dns[0].as_str());
                prop_assert_eq!(names.dns.len(), 1);
            }
            Some(Err(_)) => {}
        }
    }
}
