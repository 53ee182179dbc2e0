//! Mappings and how they are read.

use std::path::{Path, PathBuf};

use muster_config::{Content, Format, Key, Located, Origin, read_documents};
use muster_template::field::{self, LABEL_PREFIX, NAME, SSH_KEYS, USER_DATA};
use muster_template::{DescriptionError, Findings, Limits, Overrides, Value, join, read_texts};

use crate::pattern::{MatchType, Pattern};

/// One rule: what a machine must be for it to hold, and what it then says.
#[derive(Debug, Clone)]
pub struct Mapping {
    origin: Origin,
    conditions: Vec<Condition>,
    overrides: Overrides,
}

/// One field and what it must be.
#[derive(Debug, Clone)]
pub struct Condition {
    /// The field, by the name under which it is kept.
    pub field: String,
    /// What it must be.
    pub pattern: Pattern,
}

impl Mapping {
    /// Where it stands.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// What must all hold.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// What it says.
    #[must_use]
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }
}

/// Mappings in the order in which they are applied: that of the files as they were named, and in a file from top to bottom.
#[derive(Debug, Clone, Default)]
pub struct Mappings {
    list: Vec<Mapping>,
}

impl Mappings {
    /// Reads the mappings of a text that is called `name` in messages.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its place.
    pub fn read(
        name: &Path,
        format: Format,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Self, DescriptionError> {
        let mut findings = Findings::default();
        let mut mappings = Self::default();
        mappings.gather(name, format, bytes, limits, &mut findings);
        DescriptionError::unless_empty(findings).map(|()| mappings)
    }

    /// Reads files, and of folders the files that end in `.yaml`, `.yml` or `.json`, by name.
    ///
    /// # Errors
    /// What could not be read, or everything that is wrong with what was.
    pub fn load(paths: &[PathBuf], limits: &Limits) -> Result<Self, DescriptionError> {
        let mut findings = Findings::default();
        let mut mappings = Self::default();
        read_texts(paths, limits, |path, format, bytes| {
            mappings.gather(path, format, bytes, limits, &mut findings);
        })?;
        DescriptionError::unless_empty(findings).map(|()| mappings)
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &Mapping> {
        self.list.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn gather(
        &mut self,
        name: &Path,
        format: Format,
        bytes: &[u8],
        limits: &Limits,
        findings: &mut Findings,
    ) {
        let documents = match read_documents(name, format, bytes, &limits.document()) {
            Ok(documents) => documents,
            Err(problem) => return findings.add(problem),
        };
        for document in &documents {
            self.read_document(document, limits, findings);
        }
    }

    fn read_document(&mut self, document: &Located, limits: &Limits, findings: &mut Findings) {
        let entries = match &document.content {
            Content::Null => return,
            Content::Table(entries) => entries,
            _ => return findings.wrong_kind(document, "", "a table with the key `mapping`"),
        };
        for (key, value) in entries {
            if key.text != "mapping" {
                findings.unknown_key(key, "", &["mapping"]);
                continue;
            }
            let items = match &value.content {
                Content::List(items) => items,
                Content::Null => continue,
                _ => {
                    findings.wrong_kind(value, "mapping", "a list of mappings");
                    continue;
                }
            };
            for (nth, item) in items.iter().enumerate() {
                if self.list.len() == limits.mappings {
                    let message = format!("more than {} mappings", limits.mappings);
                    return findings.report(&item.origin, "mapping", message);
                }
                let path = format!("mapping[{nth}]");
                self.list.extend(read_mapping(item, &path, findings));
            }
        }
    }
}

fn read_mapping(item: &Located, path: &str, findings: &mut Findings) -> Option<Mapping> {
    let Content::Table(entries) = &item.content else {
        findings.wrong_kind(item, path, "a mapping, which is a table");
        return None;
    };
    let mut overrides = Overrides::default();
    let (mut wanted, mut beside) = (None, None);
    for (key, value) in entries {
        match key.text.as_str() {
            "match" => wanted = Some(value),
            "match_type" => beside = read_match_type(value, &join(path, "match_type"), findings),
            "overrides" => overrides = Overrides::read(value, &join(path, "overrides"), findings),
            _ => findings.unknown_key(key, path, &["match", "match_type", "overrides"]),
        }
    }
    let has_overrides = entries.iter().any(|(key, _)| key.text == "overrides");
    if !has_overrides {
        findings.report(
            &item.origin,
            path,
            "the required key `overrides` is missing",
        );
    }
    let Some(wanted) = wanted else {
        findings.report(&item.origin, path, "the required key `match` is missing");
        return None;
    };
    let conditions = read_conditions(wanted, beside, &join(path, "match"), findings)?;
    Some(Mapping {
        origin: item.origin.clone(),
        conditions,
        overrides,
    })
}

fn read_match_type(value: &Located, path: &str, findings: &mut Findings) -> Option<MatchType> {
    let Content::String(text) = &value.content else {
        findings.wrong_kind(value, path, "`exact` or `glob`");
        return None;
    };
    let read = text.parse();
    read.map_err(|message: String| findings.report(&value.origin, path, message))
        .ok()
}

/// The fields under `match`; `match_type` may stand among them.
fn read_conditions(
    wanted: &Located,
    beside: Option<MatchType>,
    path: &str,
    findings: &mut Findings,
) -> Option<Vec<Condition>> {
    let Content::Table(entries) = &wanted.content else {
        findings.wrong_kind(wanted, path, "a table of fields");
        return None;
    };
    let inside = entries.iter().find(|(key, _)| key.text == "match_type");
    let inside_type =
        inside.and_then(|(_, value)| read_match_type(value, &join(path, "match_type"), findings));
    if let (Some((key, _)), Some(inner), Some(outer)) = (inside, inside_type, beside)
        && inner != outer
    {
        let message = "says something else than `match_type` beside `match`";
        findings.report(&key.origin, join(path, "match_type"), message);
    }
    let match_type = inside_type.or(beside).unwrap_or_default();
    let mut conditions: Vec<Condition> = Vec::new();
    let mut named = 0;
    let mut add = |key: &Key, value: &Located, path: &str, findings: &mut Findings| {
        named += 1;
        let path = join(path, &key.text);
        match read_condition(&key.text, value, match_type) {
            Ok(condition) if conditions.iter().any(|it| it.field == condition.field) => {
                let message = format!("`{}` is matched twice, by another name", condition.field);
                findings.report(&key.origin, path, message);
            }
            Ok(condition) => conditions.push(condition),
            Err(message) => findings.report(&value.origin, path, message),
        }
    };
    for (key, value) in entries {
        match (key.text.as_str(), &value.content) {
            ("match_type", _) => {}
            ("labels", Content::Table(labels)) => {
                for (label, value) in labels {
                    let key = Key {
                        text: format!("{LABEL_PREFIX}{}", label.text),
                        origin: label.origin.clone(),
                    };
                    add(&key, value, path, findings);
                }
            }
            ("labels", Content::Null) => {}
            ("labels", _) => findings.wrong_kind(value, &join(path, "labels"), "a table"),
            _ => add(key, value, path, findings),
        }
    }
    if named == 0 {
        let message = "matches every machine; to mean that, match `image: \"*\"` as a glob";
        findings.report(&wanted.origin, path, message);
    }
    Some(conditions)
}

fn read_condition(
    written: &str,
    value: &Located,
    match_type: MatchType,
) -> Result<Condition, String> {
    let plain = field::plain(value).map_err(|(_, message)| message.to_owned())?;
    let Some(text) = plain.as_text().map(|text| text.into_owned()) else {
        return Err(format!(
            "is {}; a field is matched with text or a number",
            plain.kind()
        ));
    };
    let (name, text) = match field::common(written) {
        Some(SSH_KEYS | USER_DATA) => return Err("cannot be matched".to_owned()),
        Some(_) if match_type == MatchType::Glob && written == "diskGB" => {
            return Err("is kept as `diskMB`, so match that as a glob".to_owned());
        }
        // What cannot be the value of the field can never match.
        Some(name) if match_type == MatchType::Exact => {
            let kept = field::check_common(written, plain)?;
            let kept = kept.as_text().map_or(text, |kept| kept.into_owned());
            (name, kept)
        }
        Some(name) => (name, text),
        None if written == NAME || written.starts_with(LABEL_PREFIX) => (written, text),
        None => {
            if let Some(meant) = field::misspelt(written) {
                return Err(format!("unknown key; did you mean `{meant}`?"));
            }
            field::check_name(written)?;
            (written, text)
        }
    };
    Ok(Condition {
        field: name.to_owned(),
        pattern: Pattern::new(&text, match_type)?,
    })
}

impl Condition {
    /// Whether a field's value is what it must be; a field that is not set, a list and a map are never.
    #[must_use]
    pub fn holds(&self, value: Option<&Value>) -> bool {
        let text = value.and_then(Value::as_text);
        text.is_some_and(|text| self.pattern.matches(&text))
    }
}

#[cfg(test)]
mod tests;
