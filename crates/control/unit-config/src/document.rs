//! The document: read once, then a part for every node.

use muster_api::domain::{NodeId, NodeType};
use muster_config::Limits;
use muster_node_config::{Document, NodeConfig};
use semver::Version;
use serde_json::{Map, Value};

/// Why a document is no configuration of a Unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the unit configuration is not valid: {path}: {message}")]
pub struct InvalidUnitConfig {
    /// Where: `nodes[2].alertRules.cpu.minThreshold`; `document` for all of it.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl InvalidUnitConfig {
    fn at(path: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self {
            path: path.into(),
            message: message.to_string(),
        }
    }
}

/// A configuration of a Unit that is valid in itself.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitConfig {
    /// Which one.
    pub version: Version,
    /// How it is written.
    pub format_version: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
struct Part {
    node: Option<String>,
    node_type: Option<String>,
    /// As it came, so that nodes get what this version does not know.
    object: Map<String, Value>,
    config: NodeConfig,
}

/// What one node is given.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePart {
    /// As JSON, for the node.
    pub json: String,
    /// What it says, for whoever places instances.
    pub config: NodeConfig,
}

/// Keys are found whatever their case is, as in every document of this family.
fn get<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let found = object
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(key));
    found
        .map(|(_, value)| value)
        .filter(|value| !value.is_null())
}

fn set(object: &mut Map<String, Value>, key: &str, value: Value) {
    object.retain(|name, _| !name.eq_ignore_ascii_case(key));
    object.insert(key.to_owned(), value);
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a str, InvalidUnitConfig> {
    match get(object, key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(InvalidUnitConfig::at(key, "must be a text")),
        None => Err(InvalidUnitConfig::at(key, "is missing")),
    }
}

impl UnitConfig {
    /// Reads a document; `limits` bounds its size, and size and depth of each part.
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, InvalidUnitConfig> {
        if bytes.len() > limits.file_bytes {
            let message = format!(
                "has {} bytes and may have {}",
                bytes.len(),
                limits.file_bytes
            );
            return Err(InvalidUnitConfig::at("document", message));
        }
        let document: Map<String, Value> = serde_json::from_slice(bytes)
            .map_err(|error| InvalidUnitConfig::at("document", error))?;
        let version = text(&document, "version")?;
        let version = Version::parse(version).map_err(|error| {
            InvalidUnitConfig::at("version", format!("must be semantic, as 1.0.0: {error}"))
        })?;
        let format_version = text(&document, "formatVersion")?.to_owned();
        let nodes = match get(&document, "nodes") {
            Some(Value::Array(nodes)) => nodes.as_slice(),
            Some(_) => return Err(InvalidUnitConfig::at("nodes", "must be a list")),
            None => &[],
        };
        let parts = nodes.iter().enumerate();
        let parts: Vec<Part> = parts
            .map(|(at, value)| part(at, value, limits))
            .collect::<Result<_, _>>()?;
        for (at, part) in parts.iter().enumerate() {
            let same = |it: &&Part| it.node == part.node && it.node_type == part.node_type;
            if part.node.is_some() && parts[..at].iter().any(|it| it.node == part.node)
                || part.node.is_none() && parts[..at].iter().any(|it| same(&it))
            {
                let message = "is for the same node as one before it";
                return Err(InvalidUnitConfig::at(format!("nodes[{at}]"), message));
            }
        }
        Ok(Self {
            version,
            format_version,
            parts,
        })
    }

    /// The part of a node: by its id, else by its type, else an empty one.
    pub fn for_node(&self, id: &NodeId, node_type: &NodeType) -> NodePart {
        let by_id = |part: &&Part| part.node.as_deref() == Some(id.as_str());
        let by_type = |part: &&Part| {
            part.node.is_none() && part.node_type.as_deref() == Some(node_type.as_str())
        };
        let found = self.parts.iter().find(by_id);
        let found = found.or_else(|| self.parts.iter().find(by_type));
        let mut object = found.map_or_else(Map::new, |part| part.object.clone());
        let named = |codename: &str| {
            let mut identity = Map::new();
            identity.insert("codename".into(), codename.into());
            Value::Object(identity)
        };
        set(&mut object, "version", self.version.to_string().into());
        set(&mut object, "node", named(id.as_str()));
        set(&mut object, "nodeGroupSubject", named(node_type.as_str()));
        NodePart {
            json: Value::Object(object).to_string(),
            config: found.map_or_else(NodeConfig::default, |part| part.config.clone()),
        }
    }
}

fn part(at: usize, value: &Value, limits: &Limits) -> Result<Part, InvalidUnitConfig> {
    let within = |path: &str| match path {
        "" => format!("nodes[{at}]"),
        path => format!("nodes[{at}].{path}"),
    };
    let Value::Object(object) = value else {
        return Err(InvalidUnitConfig::at(within(""), "must be an object"));
    };
    // The same reader as on the node: what it would refuse is refused here, with its path.
    let read = Document::read(value.to_string().as_bytes(), limits).map_err(|invalid| {
        let problem = invalid.problems.first();
        match problem {
            Some(problem) => InvalidUnitConfig::at(within(&problem.path), &problem.message),
            None => InvalidUnitConfig::at(within(""), &invalid),
        }
    })?;
    if read.node.is_none() && read.node_type.is_none() {
        let message = "names neither a node nor a type of nodes";
        return Err(InvalidUnitConfig::at(within(""), message));
    }
    Ok(Part {
        node: read.node,
        node_type: read.node_type,
        object: object.clone(),
        config: read.config,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<UnitConfig, InvalidUnitConfig> {
        UnitConfig::read(text.as_bytes(), &Limits::default())
    }

    const DOCUMENT: &str = r#"{
        "formatVersion": "7", "version": "2.0.0",
        "nodes": [
            {"nodeGroupSubject": {"codename": "board"}, "labels": ["any"], "priority": 1, "future": 7},
            {"node": {"codename": "n1"}, "nodeGroupSubject": {"codename": "board"}, "labels": ["own"], "priority": 9}
        ]
    }"#;

    fn part_of(config: &UnitConfig, id: &str, node_type: &str) -> (Value, NodeConfig) {
        let part = config.for_node(&id.parse().unwrap(), &node_type.parse().unwrap());
        (serde_json::from_str(&part.json).unwrap(), part.config)
    }

    #[test]
    fn a_node_gets_its_own_part_else_its_types_else_an_empty_one() {
        let config = read(DOCUMENT).unwrap();
        let (own, parsed) = part_of(&config, "n1", "board");
        assert_eq!((&own["labels"][0], parsed.priority), (&"own".into(), 9));
        let (by_type, _) = part_of(&config, "n2", "board");
        assert_eq!(
            (&by_type["labels"][0], &by_type["future"]),
            (&"any".into(), &7.into())
        );
        assert_eq!(by_type["node"]["codename"], "n2");
        let (empty, parsed) = part_of(&config, "n3", "other");
        assert_eq!(
            (&empty["version"], &empty["labels"]),
            (&"2.0.0".into(), &Value::Null)
        );
        assert_eq!(parsed, NodeConfig::default());
    }

    #[test]
    fn what_a_node_gets_is_what_a_node_takes() {
        let config = read(DOCUMENT).unwrap();
        for id in ["n1", "n2"] {
            let part = config.for_node(&id.parse().unwrap(), &"board".parse().unwrap());
            let document = Document::read(part.json.as_bytes(), &Limits::default()).unwrap();
            assert_eq!(document.version, Some(config.version.clone()));
            assert_eq!(document.config, part.config);
        }
    }

    #[test]
    fn mistakes_are_told_with_their_path() {
        for (text, path) in [
            ("[]", "document"),
            (r#"{"formatVersion":"7"}"#, "version"),
            (r#"{"version":"one","formatVersion":"7"}"#, "version"),
            (r#"{"version":"1.0.0"}"#, "formatVersion"),
            (
                r#"{"version":"1.0.0","formatVersion":"7","nodes":{}}"#,
                "nodes",
            ),
            (
                r#"{"version":"1.0.0","formatVersion":"7","nodes":[3]}"#,
                "nodes[0]",
            ),
            (
                r#"{"version":"1.0.0","formatVersion":"7","nodes":[{"priority":1}]}"#,
                "nodes[0]",
            ),
            (
                r#"{"version":"1.0.0","formatVersion":"7","nodes":[{"node":{"codename":"a"},"nodeGroupSubject":{"codename":"b"},"priority":-1}]}"#,
                "nodes[0].priority",
            ),
            (
                r#"{"version":"1.0.0","formatVersion":"7","nodes":[
                    {"node":{"codename":"a"},"nodeGroupSubject":{"codename":"b"},"priority":1},
                    {"node":{"codename":"a"},"nodeGroupSubject":{"codename":"c"},"priority":1}]}"#,
                "nodes[1]",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.path, path, "{error}");
        }
        let limits = Limits {
            file_bytes: 8,
            ..Limits::default()
        };
        let long = UnitConfig::read(DOCUMENT.as_bytes(), &limits).unwrap_err();
        assert_eq!(long.path, "document");
    }
}
