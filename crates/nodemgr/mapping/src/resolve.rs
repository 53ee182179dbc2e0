//! From a template and mappings to what a provider shall make, with the history of every field.

use std::collections::BTreeMap;
use std::fmt;

use muster_config::Origin;
use muster_template::field::NAME;
use muster_template::{
    Fields, ProviderId, Target, Template, TemplateName, TemplateSet, UnknownTemplate, Value,
};

use crate::lock::Pins;
use crate::mapping::{Mapping, Mappings};

/// For whom a template is resolved, and with what.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who shall make the machine.
    pub provider: ProviderId,
    /// What holds where no template speaks: the provider's own architecture, which mappings see, and its region, which the machine
    /// gets.
    pub defaults: Fields,
    /// What whoever asks wants instead of what the template says, such as a region. Mappings see it.
    pub given: Fields,
}

impl Request {
    /// Without defaults and wishes.
    #[must_use]
    pub fn new(provider: ProviderId) -> Self {
        Self {
            provider,
            defaults: Fields::default(),
            given: Fields::default(),
        }
    }
}

/// Who set a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// The provider's default.
    Default(ProviderId),
    /// The template itself.
    Template(TemplateName),
    /// A template that it extends.
    Extends(TemplateName),
    /// The overrides of the template, or of one that it extends.
    Overrides {
        /// Which of the overrides.
        target: Target,
        /// Whose they are.
        template: TemplateName,
    },
    /// Whoever asked.
    Request,
    /// A mapping.
    Mapping {
        /// The how-manieth it is, from 1.
        number: usize,
        /// Which of its overrides.
        target: Target,
        /// Where it stands.
        origin: Origin,
    },
    /// The lock file.
    Lock,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(provider) => write!(f, "default of {provider}"),
            Self::Template(name) => write!(f, "template {name}"),
            Self::Extends(name) => write!(f, "extends {name}"),
            Self::Overrides { target, template } => write!(f, "overrides {target} of {template}"),
            Self::Request => f.write_str("request"),
            Self::Mapping {
                number,
                target,
                origin,
            } => write!(f, "mapping #{number} ({target}) at {origin}"),
            Self::Lock => f.write_str("lock file"),
        }
    }
}

/// One time that a field was set or, with [`Value::Null`], taken back.
#[derive(Clone, PartialEq, Eq)]
pub struct Assignment {
    /// What it was set to.
    pub value: Value,
    /// By whom.
    pub provenance: Provenance,
    /// Where that is written, if it is.
    pub origin: Option<Origin>,
}

/// Without the value: what may be shown depends on the field.
impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.provenance)
    }
}

/// What became of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It matched and set fields.
    Applied,
    /// It matched, but says nothing for this provider.
    SaysNothing,
    /// This field is not what the mapping wants.
    NotMatched {
        /// The first such field.
        field: String,
        /// What it is wanted to be.
        pattern: String,
    },
}

/// A mapping and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// The how-manieth it is, from 1.
    pub number: usize,
    /// Where it stands.
    pub origin: Origin,
    /// What became of it.
    pub outcome: Outcome,
}

/// What a template comes to for a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct Resolved {
    template: TemplateName,
    provider: ProviderId,
    /// By field, every assignment in order. No list is empty.
    history: BTreeMap<String, Vec<Assignment>>,
    considered: Vec<Considered>,
}

/// Without what may be secret.
impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self
            .fields()
            .map(|(name, it)| (name, muster_template::show(name, &it.value)));
        f.debug_map().entries(shown).finish()
    }
}

/// Resolves a template: pure, and the same for the same inputs. The order of layers stands in the [crate]'s description.
///
/// # Errors
/// There is no such template.
pub fn resolve(
    templates: &TemplateSet,
    name: &str,
    mappings: &Mappings,
    request: &Request,
) -> Result<Resolved, UnknownTemplate> {
    let lineage = templates.lineage(name)?;
    let template = templates.get(name)?;
    let provider = request.provider;
    let mut resolved = Resolved {
        template: template.name().clone(),
        provider,
        history: BTreeMap::new(),
        considered: Vec::new(),
    };
    resolved.lay(&request.defaults, &Provenance::Default(provider));
    resolved.assign(
        NAME,
        Assignment {
            value: Value::String(template.name().to_string()),
            provenance: Provenance::Template(template.name().clone()),
            origin: Some(template.origin().clone()),
        },
    );
    for it in &lineage {
        let provenance = match it.name() == template.name() {
            true => Provenance::Template(it.name().clone()),
            false => Provenance::Extends(it.name().clone()),
        };
        resolved.lay(it.fields(), &provenance);
    }
    for target in [Target::All, Target::Provider(provider)] {
        for it in &lineage {
            resolved.lay_overrides(it, target);
        }
    }
    resolved.lay(&request.given, &Provenance::Request);
    for (nth, mapping) in mappings.iter().enumerate() {
        let outcome = resolved.apply(nth + 1, mapping);
        resolved.considered.push(Considered {
            number: nth + 1,
            origin: mapping.origin().clone(),
            outcome,
        });
    }
    Ok(resolved)
}

impl Resolved {
    fn assign(&mut self, name: &str, assignment: Assignment) {
        let history = self.history.entry(name.to_owned()).or_default();
        history.push(assignment);
    }

    fn lay(&mut self, fields: &Fields, provenance: &Provenance) {
        for (name, assigned) in fields.iter() {
            let assignment = Assignment {
                value: assigned.value.clone(),
                provenance: provenance.clone(),
                origin: assigned.origin.clone(),
            };
            self.assign(name, assignment);
        }
    }

    fn lay_overrides(&mut self, template: &Template, target: Target) {
        if let Some(fields) = template.overrides().get(target) {
            let provenance = Provenance::Overrides {
                target,
                template: template.name().clone(),
            };
            self.lay(fields, &provenance);
        }
    }

    fn apply(&mut self, number: usize, mapping: &Mapping) -> Outcome {
        let failed = (mapping.conditions().iter())
            .find(|it| !it.holds(self.get(&it.field).map(|found| &found.value)));
        if let Some(condition) = failed {
            return Outcome::NotMatched {
                field: condition.field.clone(),
                pattern: condition.pattern.to_string(),
            };
        }
        let mut outcome = Outcome::SaysNothing;
        for target in [Target::All, Target::Provider(self.provider)] {
            if let Some(fields) = mapping.overrides().get(target) {
                let provenance = Provenance::Mapping {
                    number,
                    target,
                    origin: mapping.origin().clone(),
                };
                self.lay(fields, &provenance);
                outcome = Outcome::Applied;
            }
        }
        outcome
    }

    /// With what the lock file pins in place of what it was found from.
    #[must_use]
    pub fn pinned(mut self, pins: &Pins) -> Self {
        for (pin, value) in pins.iter() {
            let assignment = Assignment {
                value: Value::String(value.to_owned()),
                provenance: Provenance::Lock,
                origin: None,
            };
            self.assign(pin.field(), assignment);
        }
        self
    }

    /// The template.
    #[must_use]
    pub fn template(&self) -> &TemplateName {
        &self.template
    }

    /// Who shall make it.
    #[must_use]
    pub fn provider(&self) -> ProviderId {
        self.provider
    }

    /// The assignment that holds, of a field that is set.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Assignment> {
        let last = self.history.get(field)?.last()?;
        (last.value != Value::Null).then_some(last)
    }

    /// The fields that are set, by name, and the assignment that holds.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Assignment)> {
        let names = self.history.keys();
        names.filter_map(|name| Some((name.as_str(), self.get(name)?)))
    }

    /// Every field that anybody spoke of, by name, and each time in order: the last one holds.
    pub fn history(&self) -> impl Iterator<Item = (&str, &[Assignment])> {
        (self.history.iter()).map(|(name, history)| (name.as_str(), history.as_slice()))
    }

    /// Every mapping, in order, and what became of it.
    #[must_use]
    pub fn considered(&self) -> &[Considered] {
        &self.considered
    }
}

#[cfg(test)]
mod tests;
