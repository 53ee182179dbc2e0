//! Identities for certificates of a PKI that knows nothing of SPIFFE: rules, first match wins.

use std::fmt;

use crate::facts::{CertNames, shown};
use crate::spiffe::{NodeId, ParseSpiffeError, Role, SpiffeId, SystemId};

/// A text to compare a certificate's name with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// The whole name, to the letter.
    Exact(String),
    /// The whole name, where each `*` stands for any run of characters, also none. Nothing else is
    /// special and nothing can be escaped.
    Glob(String),
}

impl Pattern {
    /// Whether `text` is what the pattern describes.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(wanted) => wanted == text,
            Self::Glob(glob) => glob_matches(glob, text),
        }
    }
}

/// Fixes the first and last piece at the ends and finds the rest from left to right; taking the
/// leftmost place for each piece never spoils a later one, so there is no backtracking.
fn glob_matches(glob: &str, text: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else {
        return glob == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for piece in middle.split('*').filter(|piece| !piece.is_empty()) {
        let Some(at) = text.find(piece) else {
            return false;
        };
        text = &text[at + piece.len()..];
    }
    text.ends_with(last)
}

/// A kind of name in a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertField {
    /// The issuer's common name.
    IssuerCn,
    /// The subject's common name.
    SubjectCn,
    /// The subject's organization.
    SubjectO,
    /// A DNS alternative name; compared in lower case.
    Dns,
}

impl CertField {
    fn values(self, names: &CertNames) -> &[String] {
        match self {
            Self::IssuerCn => &names.issuer_cn,
            Self::SubjectCn => &names.subject_cn,
            Self::SubjectO => &names.subject_o,
            Self::Dns => &names.dns,
        }
    }
}

impl fmt::Display for CertField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IssuerCn => "issuer common name",
            Self::SubjectCn => "subject common name",
            Self::SubjectO => "subject organization",
            Self::Dns => "DNS name",
        })
    }
}

/// One condition: some value of the field matches the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Which names to look at.
    pub field: CertField,
    /// What one of them has to be.
    pub pattern: Pattern,
}

impl Condition {
    fn holds(&self, names: &CertNames) -> bool {
        self.field
            .values(names)
            .iter()
            .any(|value| self.pattern.matches(value))
    }
}

/// Where one part of a mapped identity comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take<T> {
    /// Always this.
    Fixed(T),
    /// The only value of a field of the certificate.
    From(CertField),
}

/// How an identity is put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedIdentity {
    /// Where the system id comes from.
    pub system: Take<SystemId>,
    /// Where the node id comes from.
    pub node: Take<NodeId>,
    /// The role. It decides on permissions, so the rule says it and never the certificate.
    pub role: Role,
}

/// A rule: when all conditions hold, the peer has this identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingRule {
    first: Condition,
    more: Vec<Condition>,
    identity: MappedIdentity,
}

/// Why a rule that matched gives no identity. The peer is refused: a later, weaker rule must not
/// get a say about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapIdentityError {
    /// The certificate has no value, or several, where the rule takes one.
    #[error(
        "its certificate has {found} values of \"{field}\", the mapping rule takes the {part} from exactly one"
    )]
    NotOne {
        /// Which part of the identity.
        part: &'static str,
        /// The field the rule names.
        field: CertField,
        /// How many values there are.
        found: usize,
    },
    /// The value cannot be that part of an identity.
    #[error("its certificate's {field} \"{value}\" cannot be a {part}")]
    Part {
        /// Which part of the identity.
        part: &'static str,
        /// The field the rule names.
        field: CertField,
        /// What stands there.
        value: String,
        /// What is wrong with it.
        source: ParseSpiffeError,
    },
}

impl MappingRule {
    /// A rule with one condition; a rule without any would give its identity to everybody.
    pub fn new(condition: Condition, identity: MappedIdentity) -> Self {
        Self {
            first: condition,
            more: Vec::new(),
            identity,
        }
    }

    /// Adds a condition that has to hold as well.
    #[must_use]
    pub fn and(mut self, condition: Condition) -> Self {
        self.more.push(condition);
        self
    }

    /// The identity of a certificate with these names; `None` when the rule does not match.
    pub fn apply(&self, names: &CertNames) -> Option<Result<SpiffeId, MapIdentityError>> {
        let matched = self.first.holds(names) && self.more.iter().all(|more| more.holds(names));
        matched.then(|| {
            Ok(SpiffeId {
                system: take("system id", &self.identity.system, names, SystemId::new)?,
                node: take("node id", &self.identity.node, names, NodeId::new)?,
                role: self.identity.role.clone(),
            })
        })
    }
}

fn take<T: Clone>(
    part: &'static str,
    from: &Take<T>,
    names: &CertNames,
    parse: fn(String) -> Result<T, ParseSpiffeError>,
) -> Result<T, MapIdentityError> {
    let field = match from {
        Take::Fixed(value) => return Ok(value.clone()),
        Take::From(field) => *field,
    };
    match field.values(names) {
        [value] => parse(value.clone()).map_err(|source| MapIdentityError::Part {
            part,
            field,
            value: shown(value),
            source,
        }),
        values => Err(MapIdentityError::NotOne {
            part,
            field,
            found: values.len(),
        }),
    }
}

#[cfg(test)]
mod tests;
