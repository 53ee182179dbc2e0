#![no_main]
//! Certificates and names of strangers on their way to an identity: nothing panics, one identity has
//! one spelling, and a role comes from a SPIFFE id or a rule and from nowhere else.
//!
//! The first byte chooses: a certificate in DER, a SPIFFE id, or names one per line.

use libfuzzer_sys::fuzz_target;
use muster_tls::{
    CertFacts, CertField, CertNames, Condition, IdentityOrigin, IdentityPolicy, MappedIdentity,
    MappingRule, Pattern, Role, SpiffeId, Take,
};

fn rule(field: CertField, pattern: Pattern, take: CertField, role: Role) -> MappingRule {
    MappingRule::new(
        Condition { field, pattern },
        MappedIdentity { system: Take::From(take), node: Take::From(take), role },
    )
}

fn check(names: &CertNames, glob: &str) {
    let policy = IdentityPolicy::spiffe_only().with_rules([
        rule(CertField::SubjectCn, Pattern::Glob(glob.to_owned()), CertField::Dns, Role::Sm),
        rule(CertField::Dns, Pattern::Glob("*.a*".to_owned()), CertField::SubjectO, Role::Mp),
        rule(CertField::IssuerCn, Pattern::Exact("ca".to_owned()), CertField::SubjectCn, Role::Cm),
    ]);
    let Ok(Some(found)) = policy.identify(names) else {
        return;
    };
    let text = found.id.to_string();
    assert_eq!(text.parse::<SpiffeId>().as_ref(), Ok(&found.id));
    match found.origin {
        IdentityOrigin::Spiffe => assert!(names.uris.contains(&text)),
        IdentityOrigin::Rule(rule) => {
            assert_eq!(found.id.role, [Role::Sm, Role::Mp, Role::Cm][rule]);
            assert!(names.uris.iter().all(|uri| !uri.to_ascii_lowercase().starts_with("spiffe:")));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 3 {
        0 => {
            if let Ok(facts) = CertFacts::from_der(data) {
                assert!(!facts.summary.to_string().chars().any(char::is_control));
                check(&facts.names, "*node*");
            }
        }
        1 => {
            if let Ok(text) = std::str::from_utf8(data)
                && let Ok(id) = text.parse::<SpiffeId>()
            {
                assert_eq!(id.to_string(), text);
            }
        }
        _ => {
            let Ok(text) = std::str::from_utf8(data) else {
                return;
            };
            let mut names = CertNames::default();
            let mut glob = "";
            for line in text.lines() {
                match line.split_at_checked(1) {
                    Some(("i", name)) => names.issuer_cn.push(name.to_owned()),
                    Some(("c", name)) => names.subject_cn.push(name.to_owned()),
                    Some(("o", name)) => names.subject_o.push(name.to_owned()),
                    Some(("d", name)) => names.dns.push(name.to_owned()),
                    Some(("u", name)) => names.uris.push(name.to_owned()),
                    Some(("g", pattern)) => glob = pattern,
                    _ => {}
                }
            }
            check(&names, glob);
        }
    }
});
