//! What one layer says about a machine's fields.

use std::collections::BTreeMap;
use std::fmt;

use muster_config::{Content, Key, Located, Origin};

use crate::field::{self, LABEL_PREFIX};
use crate::findings::{Findings, join};
use crate::provider::Target;
use crate::show::show;
use crate::value::Value;

/// Fields and their values, each at most once, in the one form in which they are kept. Common ones have values that are valid.
///
/// A field that is not here is not spoken of; one that is `null` is taken back from whoever spoke before. Two are equal when they
/// say the same, wherever they stand.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields {
    by_name: BTreeMap<String, Assigned>,
}

/// A value and where it was written.
#[derive(Clone)]
pub struct Assigned {
    /// The value.
    pub value: Value,
    /// The place, where it was read from a document.
    pub origin: Option<Origin>,
}

impl PartialEq for Assigned {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Assigned {}

/// Without what may be secret.
impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = (self.by_name.iter()).map(|(name, it)| (name, show(name, &it.value)));
        f.debug_map().entries(shown).finish()
    }
}

/// Only the place: what may be shown depends on the field.
impl fmt::Debug for Assigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assigned")
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Fields {
    /// What is said of a field, by the name under which it is kept.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Assigned> {
        self.by_name.get(name)
    }

    /// All that is said, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Assigned)> {
        self.by_name.iter().map(|(name, it)| (name.as_str(), it))
    }

    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Says something about a field that is not spoken of yet. The label `tier` is the field `labels.tier`.
    ///
    /// # Errors
    /// What is wrong with the name or the value, or that the field is spoken of already, perhaps by its other name.
    pub fn set(&mut self, written: &str, value: Value) -> Result<(), String> {
        if let Some(message) = refused(written) {
            return Err(message);
        }
        self.assign(written, value, None)
    }

    fn assign(
        &mut self,
        written: &str,
        value: Value,
        origin: Option<Origin>,
    ) -> Result<(), String> {
        match written.strip_prefix(LABEL_PREFIX) {
            Some(key) => {
                let value = field::check_label(key, value)?;
                self.insert(written, value, origin)
            }
            None => match field::common(written) {
                Some(name) => {
                    let value = field::check_common(written, value)?;
                    self.insert(name, value, origin)
                }
                None => {
                    field::check_name(written)?;
                    self.insert(written, value, origin)
                }
            },
        }
    }

    fn insert(&mut self, name: &str, value: Value, origin: Option<Origin>) -> Result<(), String> {
        if self.by_name.contains_key(name) {
            return Err(format!("says `{name}` a second time, by another name"));
        }
        let assigned = Assigned { value, origin };
        self.by_name.insert(name.to_owned(), assigned);
        Ok(())
    }

    /// Takes one entry of a document's table in; what is wrong with it is reported under `path`.
    pub(crate) fn read_entry(
        &mut self,
        key: &Key,
        value: &Located,
        path: &str,
        findings: &mut Findings,
    ) {
        let path = join(path, &key.text);
        match field::plain(value) {
            Ok(plain) => {
                let origin = Some(value.origin.clone());
                if let Err(message) = self.assign(&key.text, plain, origin) {
                    findings.report(&value.origin, path, message);
                }
            }
            Err((at, message)) => findings.report(&at.origin, path, message),
        }
    }

    /// Takes the labels of a document's table in.
    pub(crate) fn read_labels(&mut self, labels: &Located, path: &str, findings: &mut Findings) {
        let Some(entries) = table(labels, path, findings) else {
            return;
        };
        for (key, value) in entries {
            let name = Key {
                text: format!("{LABEL_PREFIX}{}", key.text),
                origin: key.origin.clone(),
            };
            let above = path.strip_suffix("labels").unwrap_or(path);
            self.read_entry(&name, value, above.trim_end_matches('.'), findings);
        }
    }
}

/// What is said for all providers, and for single ones. A target that says nothing is as one that is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    by_target: BTreeMap<Target, Fields>,
}

/// Keys that describe a template and not a machine.
const NOT_OVERRIDDEN: [&str; 5] = [field::NAME, "extends", "overrides", "extra", "match_type"];

impl Overrides {
    /// What is said for a target.
    #[must_use]
    pub fn get(&self, target: Target) -> Option<&Fields> {
        self.by_target.get(&target)
    }

    /// All that is said, `all` first and then by provider.
    pub fn iter(&self) -> impl Iterator<Item = (Target, &Fields)> {
        self.by_target
            .iter()
            .map(|(target, fields)| (*target, fields))
    }

    /// Whether nothing is said for anybody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }

    /// Reads the table under `overrides`; what is wrong with it is reported under `path`.
    pub fn read(overrides: &Located, path: &str, findings: &mut Findings) -> Self {
        let mut out = Self::default();
        for (key, fields) in table(overrides, path, findings).into_iter().flatten() {
            let path = join(path, &key.text);
            let target: Target = match key.text.parse() {
                Ok(target) => target,
                Err(error) => {
                    findings.report(&key.origin, path, error);
                    continue;
                }
            };
            let fields = read_fields(fields, &path, findings);
            if !fields.is_empty() {
                out.by_target.insert(target, fields);
            }
        }
        out
    }
}

fn read_fields(fields: &Located, path: &str, findings: &mut Findings) -> Fields {
    let mut out = Fields::default();
    for (key, value) in table(fields, path, findings).into_iter().flatten() {
        if key.text == "labels" {
            out.read_labels(value, &join(path, "labels"), findings);
        } else if let Some(message) = refused(&key.text) {
            findings.report(&key.origin, join(path, &key.text), message);
        } else {
            out.read_entry(key, value, path, findings);
        }
    }
    out
}

/// Why a key cannot be a machine's field.
fn refused(written: &str) -> Option<String> {
    if NOT_OVERRIDDEN.contains(&written) {
        return Some("describes the template and cannot be overridden".to_owned());
    }
    let meant = field::misspelt(written)?;
    Some(format!("unknown key; did you mean `{meant}`?"))
}

/// The entries of a table; nothing at all is an empty one.
pub(crate) fn table<'a>(
    located: &'a Located,
    path: &str,
    findings: &mut Findings,
) -> Option<&'a [(Key, Located)]> {
    match &located.content {
        Content::Table(entries) => Some(entries),
        Content::Null => None,
        _ => {
            findings.wrong_kind(located, path, "a table");
            None
        }
    }
}
