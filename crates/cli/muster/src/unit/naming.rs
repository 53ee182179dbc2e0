//! What people call things, and which ones they mean.

use crate::console::Exit;
use crate::text::nearest;

use super::facts::{InstanceFacts, Listed};

/// How many of several candidates are named.
const NAMED: usize = 5;

/// A name means nothing, or too much.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSuchError {
    #[error("there is no {kind} {name}{}", hint(.meant.as_deref(), kind))]
    Unknown {
        kind: &'static str,
        name: String,
        meant: Option<String>,
    },
    #[error("{name} may be {}; name one of them", listed(candidates))]
    Several {
        name: String,
        candidates: Vec<String>,
    },
}

fn hint(meant: Option<&str>, kind: &str) -> String {
    match meant {
        Some(meant) => format!("; did you mean {meant}?"),
        None => format!("; `muster get {kind}s` lists them"),
    }
}

fn listed(candidates: &[String]) -> String {
    let mut text = candidates[..candidates.len().min(NAMED)].join(", ");
    if candidates.len() > NAMED {
        text.push_str(&format!(" or {} others", candidates.len() - NAMED));
    }
    text
}

impl NoSuchError {
    /// Nothing of the kind has this name; the nearest that is there is suggested.
    pub(crate) fn unknown<'a>(
        kind: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::Unknown {
            kind,
            name: name.to_owned(),
            meant: nearest(name, known).map(str::to_owned),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Unknown { .. } => Exit::NotFound,
            Self::Several { .. } => Exit::Usage,
        }
    }
}

/// Whether a name means this instance: `item`, `item/subject`, `item/subject/number` or its id. The wire's way of writing, with
/// colons, is understood too.
pub(crate) fn means(name: &str, instance: &InstanceFacts) -> bool {
    if name == instance.name || name.eq_ignore_ascii_case(&instance.id) {
        return true;
    }
    let mut parts = name.split(['/', ':']);
    let item = parts.next().is_some_and(|item| item == instance.item);
    let subject = parts.next().is_none_or(|it| it == instance.subject);
    let number = (parts.next()).is_none_or(|it| it == instance.instance.to_string());
    item && subject && number && parts.next().is_none()
}

/// The one instance that a name means.
pub(crate) fn one<'a>(
    name: &str,
    instances: &'a [InstanceFacts],
) -> Result<&'a InstanceFacts, NoSuchError> {
    let candidates: Vec<&InstanceFacts> = instances.iter().filter(|it| means(name, it)).collect();
    match candidates.as_slice() {
        [one] => Ok(one),
        [] => {
            let known = instances.iter().flat_map(|it| [&*it.name, &*it.item]);
            Err(NoSuchError::unknown("instance", name, known))
        }
        several => Err(NoSuchError::Several {
            name: name.to_owned(),
            candidates: several.iter().map(|it| it.name.clone()).collect(),
        }),
    }
}

/// The one thing that has a name, or, where several versions of it are there, a key.
pub(crate) fn named<T: Listed>(name: &str, all: Vec<T>) -> Result<T, NoSuchError> {
    let (mut fitting, others): (Vec<T>, Vec<T>) =
        (all.into_iter()).partition(|thing| thing.name() == name || thing.key() == name);
    match (fitting.len(), fitting.pop()) {
        (1, Some(thing)) => Ok(thing),
        (_, Some(last)) => Err(NoSuchError::Several {
            name: name.to_owned(),
            candidates: fitting.iter().chain([&last]).map(Listed::key).collect(),
        }),
        (_, None) => {
            let known: Vec<String> = others.iter().map(Listed::name).collect();
            let known = known.iter().map(String::as_str);
            Err(NoSuchError::unknown(T::KIND, name, known))
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_api::common::v2::InstanceIdent;
    use muster_control_api::v1;

    use super::super::facts::ItemFacts;
    use super::*;

    fn instances() -> Vec<InstanceFacts> {
        let instance = |item: &str, subject: &str, number| {
            InstanceFacts::from(v1::Instance {
                ident: Some(InstanceIdent {
                    item_id: item.into(),
                    subject_id: subject.into(),
                    instance: number,
                    ..InstanceIdent::default()
                }),
                instance_id: format!("id-{item}-{number}"),
                ..v1::Instance::default()
            })
        };
        vec![
            instance("web", "local", 0),
            instance("web", "local", 1),
            instance("worker", "night", 0),
        ]
    }

    #[test]
    fn an_instance_has_several_names() {
        let instances = instances();
        for (name, meant) in [
            ("web/local/0", "web/local/0"),
            ("web:local:1", "web/local/1"),
            ("worker", "worker/night/0"),
            ("worker/night", "worker/night/0"),
            ("ID-web-1", "web/local/1"),
        ] {
            assert_eq!(one(name, &instances).unwrap().name, meant, "{name}");
        }
    }

    #[test]
    fn of_several_versions_one_has_to_be_named() {
        let item = |version: &str| {
            ItemFacts::from(v1::Item {
                item_id: "web".into(),
                version: version.into(),
                ..v1::Item::default()
            })
        };
        let all = vec![item("1"), item("2")];
        assert_eq!(named("web@2", all.clone()).unwrap().version, "2");
        assert_eq!(
            named("web", all.clone()).unwrap_err().to_string(),
            "web may be web@1, web@2; name one of them"
        );
        assert_eq!(
            named("wbe", all).unwrap_err().to_string(),
            "there is no item wbe; did you mean web?"
        );
    }

    #[test]
    fn a_name_that_means_nothing_or_too_much_is_refused_with_help() {
        let instances = instances();
        let refusal = |name: &str| one(name, &instances).unwrap_err().to_string();
        assert_eq!(
            refusal("web"),
            "web may be web/local/0, web/local/1; name one of them"
        );
        assert_eq!(
            refusal("wroker"),
            "there is no instance wroker; did you mean worker?"
        );
        assert_eq!(
            refusal("web/local/2"),
            "there is no instance web/local/2; did you mean web/local/0?"
        );
        assert_eq!(
            refusal("web/local/0/0"),
            "there is no instance web/local/0/0; did you mean web/local/0?"
        );
        assert_eq!(
            refusal("something"),
            "there is no instance something; `muster get instances` lists them"
        );
    }
}
