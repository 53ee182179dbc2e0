//! How a template came to what it is for a provider, for people and for programs.

use std::fmt;

use muster_template::show;
use serde::Serialize;

use crate::resolve::{Assignment, Considered, Outcome, Resolved};

/// What there is to tell about a resolved template. Nothing secret is in it, so it can be printed and sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The template.
    pub template: String,
    /// For whom it was resolved.
    pub provider: String,
    /// Every field that anybody spoke of, by name.
    pub fields: Vec<FieldStory>,
    /// Every mapping, in order.
    pub mappings: Vec<MappingStory>,
}

/// What happened to a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldStory {
    /// The field.
    pub field: String,
    /// Each time that it was set or taken back, in order: the last one holds.
    pub steps: Vec<Step>,
}

/// One time that a field was set or taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The value as people may see it; nothing where the field was taken back.
    pub value: Option<String>,
    /// Who did it.
    pub by: String,
    /// Where that is written, if it is.
    pub at: Option<String>,
}

/// What became of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MappingStory {
    /// The how-manieth it is, from 1.
    pub number: usize,
    /// Where it stands.
    pub at: String,
    /// Whether it matched.
    pub matched: bool,
    /// What became of it.
    pub outcome: String,
}

impl Resolved {
    /// How it came about, field by field.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        let fields = self.history().map(|(field, history)| FieldStory {
            field: field.to_owned(),
            steps: history.iter().map(|it| step(field, it)).collect(),
        });
        let mappings = self.considered().iter().map(|it| self.story(it));
        Explanation {
            template: self.template().to_string(),
            provider: self.provider().to_string(),
            fields: fields.collect(),
            mappings: mappings.collect(),
        }
    }

    fn story(&self, considered: &Considered) -> MappingStory {
        let outcome = match &considered.outcome {
            Outcome::Applied => "applied".to_owned(),
            Outcome::SaysNothing => format!("matched, but says nothing for {}", self.provider()),
            Outcome::NotMatched { field, pattern } => {
                format!("not matched: `{field}` is not `{pattern}`")
            }
        };
        MappingStory {
            number: considered.number,
            at: considered.origin.to_string(),
            matched: !matches!(considered.outcome, Outcome::NotMatched { .. }),
            outcome,
        }
    }
}

fn step(field: &str, assignment: &Assignment) -> Step {
    use muster_template::Value;
    Step {
        value: (assignment.value != Value::Null).then(|| show(field, &assignment.value)),
        by: assignment.provenance.to_string(),
        at: assignment.origin.as_ref().map(ToString::to_string),
    }
}

/// What holds first, and below it what it replaced, the latest first.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "template {} for {}", self.template, self.provider)?;
        for story in &self.fields {
            for (nth, step) in story.steps.iter().rev().enumerate() {
                let value = step.value.as_deref().unwrap_or("(taken back)");
                match nth {
                    0 => write!(f, "{} = {value}", story.field)?,
                    _ => write!(f, "    instead of {value}")?,
                }
                write!(f, "  [{}", step.by)?;
                match &step.at {
                    Some(at) => writeln!(f, ", {at}]")?,
                    None => writeln!(f, "]")?,
                }
            }
        }
        for mapping in &self.mappings {
            let MappingStory {
                number,
                at,
                outcome,
                ..
            } = mapping;
            writeln!(f, "mapping #{number} at {at}: {outcome}")?;
        }
        Ok(())
    }
}
