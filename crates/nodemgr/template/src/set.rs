//! All templates together: files, inheritance and lookup.

use std::collections::BTreeMap;
use std::path::PathBuf;

use muster_config::{nearest, printable};

use crate::error::{DescriptionError, UnknownTemplate};
use crate::findings::Findings;
use crate::limits::Limits;
use crate::name::TemplateName;
use crate::sources::read_texts;
use crate::template::Template;

/// Templates by name. Every parent is there, no template extends itself by any way, and no chain is longer than the limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateSet {
    by_name: BTreeMap<TemplateName, Template>,
}

impl TemplateSet {
    /// Puts templates together.
    ///
    /// # Errors
    /// A name that stands twice, a parent that is not there, a circle, a chain that is too long; all that there are.
    pub fn new(templates: Vec<Template>, limits: &Limits) -> Result<Self, DescriptionError> {
        let mut findings = Findings::default();
        let set = Self::gather(templates, limits, &mut findings);
        DescriptionError::unless_empty(findings).map(|()| set)
    }

    /// Reads files, and of folders the files that end in `.yaml`, `.yml` or `.json`, by name; hidden ones are left out.
    ///
    /// # Errors
    /// What could not be read, or everything that is wrong with what was.
    pub fn load(paths: &[PathBuf], limits: &Limits) -> Result<Self, DescriptionError> {
        let mut findings = Findings::default();
        let mut templates = Vec::new();
        read_texts(paths, limits, |path, format, bytes| {
            let found = Template::gather(path, format, bytes, limits, &mut findings);
            templates.extend(found);
        })?;
        let set = Self::gather(templates, limits, &mut findings);
        DescriptionError::unless_empty(findings).map(|()| set)
    }

    fn gather(templates: Vec<Template>, limits: &Limits, findings: &mut Findings) -> Self {
        let mut set = Self::default();
        for template in templates {
            let name = template.name().clone();
            if let Some(first) = set.by_name.get(&name) {
                let message = format!(
                    "there is a template `{name}` already, at {}",
                    first.origin()
                );
                findings.report(template.origin(), "name", message);
            } else if set.by_name.len() == limits.templates {
                let message = format!("more than {} templates", limits.templates);
                findings.report(template.origin(), "", message);
                break;
            } else {
                set.by_name.insert(name, template);
            }
        }
        for template in set.by_name.values() {
            if findings.is_full() {
                break;
            }
            set.check_parents(template, limits, findings);
        }
        set
    }

    fn check_parents(&self, template: &Template, limits: &Limits, findings: &mut Findings) {
        let mut chain = vec![template.name()];
        let mut child = template;
        while let Some(parent) = child.extends() {
            let report = |findings: &mut Findings, message: String| {
                findings.report(template.extends_at(), "extends", message);
            };
            if let Some(start) = chain.iter().position(|name| *name == parent) {
                // Each circle is reported once for each template in it, and not for those that lead into it.
                if start == 0 {
                    let names: Vec<_> = chain.iter().map(|name| name.as_str()).collect();
                    let names = format!("{} -> {parent}", names.join(" -> "));
                    report(findings, format!("templates extend each other: {names}"));
                }
                return;
            }
            if chain.len() > limits.ancestors {
                let most = limits.ancestors;
                report(
                    findings,
                    format!("more than {most} templates above this one"),
                );
                return;
            }
            match self.get(parent.as_str()) {
                Ok(found) => child = found,
                Err(error) => {
                    // The one that names it says so.
                    if chain.len() == 1 {
                        report(findings, error.to_string());
                    }
                    return;
                }
            }
            chain.push(parent);
        }
    }

    /// The template that is called so.
    ///
    /// # Errors
    /// There is none; which one was probably meant.
    pub fn get(&self, name: &str) -> Result<&Template, UnknownTemplate> {
        self.by_name.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.by_name.keys().map(TemplateName::as_str).collect();
            UnknownTemplate {
                name: printable(name, 64),
                suggestion: nearest(name, &names).map(str::to_owned),
                known: names.len(),
            }
        })
    }

    /// The template that is called so after those that it extends, the topmost first.
    ///
    /// # Errors
    /// There is none.
    pub fn lineage(&self, name: &str) -> Result<Vec<&Template>, UnknownTemplate> {
        let mut template = self.get(name)?;
        let mut lineage = vec![template];
        while let Some(parent) = template.extends() {
            template = self.get(parent.as_str())?;
            lineage.push(template);
        }
        lineage.reverse();
        Ok(lineage)
    }

    /// All templates, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Template> {
        self.by_name.values()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

#[cfg(test)]
mod tests;
