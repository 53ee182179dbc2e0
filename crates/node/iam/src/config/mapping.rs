//! `identityMapping`: rules for peers of a PKI that knows nothing of SPIFFE.

use muster_config::Problems;
use muster_tls::{
    CertField, Condition, MappedIdentity, MappingRule, NodeId, ParseSpiffeError, Pattern, Role,
    SystemId, Take,
};

use super::raw::RawMapping;

/// Checks one rule; whatever is wrong has been reported when it gives none.
pub(super) fn validate(raw: RawMapping, problems: &mut Problems<'_>) -> Option<MappingRule> {
    let conditions = conditions(&raw);
    if conditions.is_empty() {
        problems.report(
            "subjectCn",
            "is missing: give at least one of issuerCn, subjectCn, subjectO, dns, or the rule would \
             fit everybody",
        );
    }
    let role = match Role::new(&raw.role) {
        Ok(role) => Some(role),
        Err(error) => {
            problems.report("role", error);
            None
        }
    };
    let system = part(
        problems,
        "system",
        raw.system,
        raw.system_from,
        SystemId::new,
    );
    let node = part(problems, "node", raw.node, raw.node_from, NodeId::new);
    let identity = MappedIdentity {
        system: system?,
        node: node?,
        role: role?,
    };
    let mut conditions = conditions.into_iter();
    let rule = MappingRule::new(conditions.next()?, identity);
    Some(conditions.fold(rule, MappingRule::and))
}

fn conditions(raw: &RawMapping) -> Vec<Condition> {
    [
        (CertField::IssuerCn, &raw.issuer_cn),
        (CertField::SubjectCn, &raw.subject_cn),
        (CertField::SubjectO, &raw.subject_o),
        (CertField::Dns, &raw.dns),
    ]
    .into_iter()
    .filter_map(|(field, pattern)| {
        let pattern = Pattern::Glob(pattern.clone()?);
        Some(Condition { field, pattern })
    })
    .collect()
}

/// A part of the identity: a fixed text, or the name of the field that holds it.
fn part<T>(
    problems: &mut Problems<'_>,
    key: &'static str,
    fixed: Option<String>,
    from: Option<String>,
    parse: fn(String) -> Result<T, ParseSpiffeError>,
) -> Option<Take<T>> {
    match (fixed, from) {
        (Some(text), None) => match parse(text) {
            Ok(value) => Some(Take::Fixed(value)),
            Err(error) => {
                problems.report(key, error);
                None
            }
        },
        (None, Some(field)) => match field.to_ascii_lowercase().as_str() {
            "issuercn" => Some(Take::From(CertField::IssuerCn)),
            "subjectcn" => Some(Take::From(CertField::SubjectCn)),
            "subjecto" => Some(Take::From(CertField::SubjectO)),
            "dns" => Some(Take::From(CertField::Dns)),
            _ => {
                problems.report(
                    &format!("{key}From"),
                    "must be issuerCn, subjectCn, subjectO or dns",
                );
                None
            }
        },
        _ => {
            problems.report(key, format!("give either {key} or {key}From"));
            None
        }
    }
}
