//! One template: reading it, and writing it again.

mod json;

use std::path::Path;

use muster_config::{Content, Format, Located, Origin, read_documents};

use crate::error::DescriptionError;
use crate::field::{self, NAME};
use crate::fields::{Fields, Overrides, table};
use crate::findings::{Findings, join};
use crate::limits::Limits;
use crate::name::TemplateName;

/// The description of a machine that any provider may make.
///
/// Two are equal when they say the same, wherever they stand.
#[derive(Debug, Clone)]
pub struct Template {
    name: TemplateName,
    extends: Option<TemplateName>,
    fields: Fields,
    overrides: Overrides,
    origin: Origin,
    /// Where the parent is named.
    extends_at: Origin,
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.extends == other.extends
            && self.fields == other.fields
            && self.overrides == other.overrides
    }
}

impl Eq for Template {}

impl Template {
    /// Reads the templates of a text that is called `name` in messages. Each document is one template, or a list of them.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its place.
    pub fn read_all(
        name: &Path,
        format: Format,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Vec<Self>, DescriptionError> {
        let mut findings = Findings::default();
        let templates = Self::gather(name, format, bytes, limits, &mut findings);
        DescriptionError::unless_empty(findings).map(|()| templates)
    }

    /// The same, for those who read several texts: what is wrong is added to `findings`.
    pub(crate) fn gather(
        name: &Path,
        format: Format,
        bytes: &[u8],
        limits: &Limits,
        findings: &mut Findings,
    ) -> Vec<Self> {
        let documents = match read_documents(name, format, bytes, &limits.document()) {
            Ok(documents) => documents,
            Err(problem) => {
                findings.add(problem);
                return Vec::new();
            }
        };
        let mut templates = Vec::new();
        for document in &documents {
            match &document.content {
                // `---` at the end of a file begins a document without anything.
                Content::Null => {}
                Content::List(items) => {
                    let read = items.iter().filter_map(|item| Self::read(item, findings));
                    templates.extend(read);
                }
                _ => templates.extend(Self::read(document, findings)),
            }
        }
        templates
    }

    /// Reads one template.
    fn read(document: &Located, findings: &mut Findings) -> Option<Self> {
        let Content::Table(_) = document.content else {
            findings.wrong_kind(document, "", "a template, which is a table");
            return None;
        };
        let mut fields = Fields::default();
        let mut overrides = Overrides::default();
        let (mut name, mut extends) = (None, None);
        let mut extends_at = document.origin.clone();
        let mut has_name = false;
        for (key, value) in table(document, "", findings).into_iter().flatten() {
            match key.text.as_str() {
                NAME => {
                    has_name = true;
                    name = read_name(value, NAME, findings);
                }
                "extends" => {
                    extends_at = value.origin.clone();
                    extends = match value.content {
                        Content::Null => None,
                        _ => read_name(value, "extends", findings),
                    };
                }
                "labels" => fields.read_labels(value, "labels", findings),
                "overrides" => overrides = Overrides::read(value, "overrides", findings),
                "extra" => read_extra(&mut fields, value, findings),
                other if field::common(other).is_some() => {
                    fields.read_entry(key, value, "", findings);
                }
                _ => findings.unknown_key(key, "", &known_keys()),
            }
        }
        if !has_name {
            findings.report(&document.origin, "", "the required key `name` is missing");
        }
        Some(Self {
            name: name?,
            extends,
            fields,
            overrides,
            origin: document.origin.clone(),
            extends_at,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &TemplateName {
        &self.name
    }

    /// The template that says what this one does not.
    #[must_use]
    pub fn extends(&self) -> Option<&TemplateName> {
        self.extends.as_ref()
    }

    /// What it says for every provider: common fields, labels, and what stands under `extra`.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// What it says for single providers, and under `all`.
    #[must_use]
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Where it stands.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn extends_at(&self) -> &Origin {
        &self.extends_at
    }
}

/// The keys of a template, each in the spelling that is suggested.
fn known_keys() -> Vec<&'static str> {
    let structure = [NAME, "extends", "labels", "overrides", "extra"];
    let mut keys: Vec<&'static str> = structure.into_iter().chain(field::spellings()).collect();
    keys.sort_unstable();
    keys
}

fn read_name(value: &Located, key: &str, findings: &mut Findings) -> Option<TemplateName> {
    let Content::String(text) = &value.content else {
        findings.wrong_kind(value, key, "a template's name, which is text");
        return None;
    };
    match text.parse() {
        Ok(name) => Some(name),
        Err(error) => {
            findings.report(&value.origin, key, error);
            None
        }
    }
}

/// Fields that not every provider has. Those that every one has stand outside, so that there is one place to look for them.
fn read_extra(fields: &mut Fields, extra: &Located, findings: &mut Findings) {
    for (key, value) in table(extra, "extra", findings).into_iter().flatten() {
        let known = known_keys();
        if known.contains(&key.text.as_str()) {
            let message = "stands at the top of a template and not under `extra`";
            findings.report(&key.origin, join("extra", &key.text), message);
        } else {
            fields.read_entry(key, value, "extra", findings);
        }
    }
}

#[cfg(test)]
mod tests;
