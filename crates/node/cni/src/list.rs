//! A network: the plugins that make it up.

use serde_json::{Map, Value};

use crate::attachment::is_name;

/// The most that a list may be long: a stranger's file cannot fill the memory.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_PLUGINS: usize = 32;
/// Versions whose results are shaped alike.
const VERSIONS: [&str; 2] = ["1.0.0", "0.4.0"];

/// The plugins of a network, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkList {
    version: String,
    name: String,
    disable_check: bool,
    plugins: Vec<PluginConfig>,
}

/// One plugin and what it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginConfig {
    kind: String,
    settings: Map<String, Value>,
}

/// Why a list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidList {
    /// More than a list should be.
    #[error("the network list has {bytes} bytes, at most {MAX_BYTES} are read")]
    TooLarge {
        /// How long it is.
        bytes: usize,
    },
    /// It is no JSON.
    #[error("the network list is no JSON")]
    Json(#[source] serde_json::Error),
    /// Something is missing or wrong.
    #[error("the network list: {place}: {problem}")]
    Content {
        /// Where.
        place: String,
        /// What.
        problem: String,
    },
}

fn wrong(place: impl Into<String>, problem: impl Into<String>) -> InvalidList {
    InvalidList::Content {
        place: place.into(),
        problem: problem.into(),
    }
}

impl PluginConfig {
    /// A plugin by its program's name, which is no path.
    pub fn new(kind: &str) -> Result<Self, InvalidList> {
        if !is_name(kind) {
            let excerpt: String = kind.chars().take(80).collect();
            return Err(wrong("type", format!("{excerpt:?} is no plugin's name")));
        }
        Ok(Self {
            kind: kind.to_owned(),
            settings: Map::new(),
        })
    }

    /// Adds a setting.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.settings.insert(key.to_owned(), value.into());
        self
    }

    /// The program's name.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What it is told, beside what every plugin is told.
    pub fn settings(&self) -> &Map<String, Value> {
        &self.settings
    }

    fn read(place: &str, value: Value) -> Result<Self, InvalidList> {
        let Value::Object(mut settings) = value else {
            return Err(wrong(place, "not an object"));
        };
        let Some(Value::String(kind)) = settings.remove("type") else {
            return Err(wrong(format!("{place}.type"), "not a text"));
        };
        let plugin =
            Self::new(&kind).map_err(|_| wrong(format!("{place}.type"), "no plugin's name"))?;
        if settings
            .get("capabilities")
            .is_some_and(|it| !it.is_object())
        {
            return Err(wrong(format!("{place}.capabilities"), "not an object"));
        }
        Ok(Self { settings, ..plugin })
    }
}

impl NetworkList {
    /// A list of CNI 1.0.0.
    pub fn new(name: &str, plugins: Vec<PluginConfig>) -> Result<Self, InvalidList> {
        Self::checked(VERSIONS[0].to_owned(), name.to_owned(), false, plugins)
    }

    fn checked(
        version: String,
        name: String,
        disable_check: bool,
        plugins: Vec<PluginConfig>,
    ) -> Result<Self, InvalidList> {
        if !VERSIONS.contains(&version.as_str()) {
            return Err(wrong(
                "cniVersion",
                format!("none of {}", VERSIONS.join(" ")),
            ));
        }
        if !is_name(&name) || name.len() > 128 {
            return Err(wrong("name", "not the name of a network"));
        }
        if plugins.is_empty() || plugins.len() > MAX_PLUGINS {
            return Err(wrong("plugins", format!("not between 1 and {MAX_PLUGINS}")));
        }
        Ok(Self {
            version,
            name,
            disable_check,
            plugins,
        })
    }

    /// Reads a list as it stands in a `.conflist` file.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidList> {
        if bytes.len() > MAX_BYTES {
            return Err(InvalidList::TooLarge { bytes: bytes.len() });
        }
        Self::from_value(serde_json::from_slice(bytes).map_err(InvalidList::Json)?)
    }

    /// Reads a list.
    pub fn from_value(value: Value) -> Result<Self, InvalidList> {
        let Value::Object(mut fields) = value else {
            return Err(wrong("the whole", "not an object"));
        };
        let mut text = |key: &str| match fields.remove(key) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(wrong(key, "not a text")),
        };
        let (version, name) = (text("cniVersion")?, text("name")?);
        let disable_check = match fields.remove("disableCheck") {
            None => false,
            Some(Value::Bool(given)) => given,
            Some(_) => return Err(wrong("disableCheck", "neither true nor false")),
        };
        let Some(Value::Array(plugins)) = fields.remove("plugins") else {
            return Err(wrong("plugins", "not a list"));
        };
        if plugins.len() > MAX_PLUGINS {
            return Err(wrong("plugins", format!("more than {MAX_PLUGINS}")));
        }
        let plugins = plugins.into_iter().enumerate();
        let plugins =
            plugins.map(|(index, it)| PluginConfig::read(&format!("plugins[{index}]"), it));
        Self::checked(
            version,
            name,
            disable_check,
            plugins.collect::<Result<_, _>>()?,
        )
    }

    /// The list as a document, from which [`NetworkList::from_value`] makes the same again.
    pub fn to_value(&self) -> Value {
        let plugins = self.plugins.iter().map(|plugin| {
            let mut fields = plugin.settings.clone();
            fields.insert("type".into(), plugin.kind.clone().into());
            Value::Object(fields)
        });
        let mut fields = Map::new();
        fields.insert("cniVersion".into(), self.version.clone().into());
        fields.insert("name".into(), self.name.clone().into());
        if self.disable_check {
            fields.insert("disableCheck".into(), true.into());
        }
        fields.insert("plugins".into(), plugins.collect());
        Value::Object(fields)
    }

    /// The version that plugins are spoken to in.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The network's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plugins, in the order of ADD.
    pub fn plugins(&self) -> &[PluginConfig] {
        &self.plugins
    }

    pub(crate) fn has_check(&self) -> bool {
        !self.disable_check
    }

    /// What one plugin reads from its standard input.
    pub(crate) fn input(
        &self,
        plugin: &PluginConfig,
        capabilities: &Map<String, Value>,
        previous: Option<&Value>,
    ) -> Value {
        let mut fields = plugin.settings.clone();
        fields.insert("cniVersion".into(), self.version.clone().into());
        fields.insert("name".into(), self.name.clone().into());
        fields.insert("type".into(), plugin.kind.clone().into());
        let declared = plugin
            .settings
            .get("capabilities")
            .and_then(Value::as_object);
        let wanted = |name: &String| {
            declared.is_some_and(|it| it.get(name).and_then(Value::as_bool) == Some(true))
        };
        let given: Map<String, Value> = (capabilities.iter())
            .filter(|(name, _)| wanted(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !given.is_empty() {
            fields.insert("runtimeConfig".into(), Value::Object(given));
        }
        if let Some(previous) = previous {
            fields.insert("prevResult".into(), previous.clone());
        }
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_read_and_says_what_is_wrong() {
        let list = json!({"cniVersion": "1.0.0", "name": "n", "disableCheck": true, "plugins": [
            {"type": "bridge", "bridge": "br0"}, {"type": "portmap", "capabilities": {"portMappings": true}}]});
        let read = NetworkList::from_value(list.clone()).unwrap();
        assert_eq!(read.plugins()[1].kind(), "portmap");
        assert_eq!(read.to_value(), list);
        assert!(!read.has_check());
        let says = |text: &str| NetworkList::parse(text.as_bytes()).unwrap_err().to_string();
        for (text, problem) in [
            ("{", "the network list is no JSON"),
            ("[]", "the network list: the whole: not an object"),
            (
                r#"{"cniVersion": "1.0.0"}"#,
                "the network list: name: not a text",
            ),
            (
                r#"{"cniVersion": "0.2.0", "name": "n", "plugins": [{"type": "a"}]}"#,
                "the network list: cniVersion: none of 1.0.0 0.4.0",
            ),
            (
                r#"{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "../sh"}]}"#,
                "the network list: plugins[0].type: no plugin's name",
            ),
            (
                r#"{"cniVersion": "1.0.0", "name": "n", "plugins": []}"#,
                "the network list: plugins: not between 1 and 32",
            ),
            (
                r#"{"cniVersion": "1.0.0", "name": "a b", "plugins": [{"type": "a"}]}"#,
                "the network list: name: not the name of a network",
            ),
        ] {
            assert_eq!(says(text), problem);
        }
        let huge = vec![b' '; MAX_BYTES + 1];
        assert!(matches!(
            NetworkList::parse(&huge),
            Err(InvalidList::TooLarge { .. })
        ));
    }

    #[test]
    fn a_plugin_gets_only_the_capabilities_that_it_declares() {
        let plugin = PluginConfig::new("portmap").unwrap();
        let plugin = plugin.with(
            "capabilities",
            json!({"portMappings": true, "bandwidth": false}),
        );
        let list = NetworkList::new("n", vec![plugin]).unwrap();
        let given = json!({"portMappings": [1], "bandwidth": {}, "ips": []});
        let input = list.input(
            &list.plugins()[0],
            given.as_object().unwrap(),
            Some(&json!({"ips": []})),
        );
        assert_eq!(input["runtimeConfig"], json!({"portMappings": [1]}));
        assert_eq!(
            (&input["name"], &input["type"]),
            (&json!("n"), &json!("portmap"))
        );
        assert_eq!(input["prevResult"], json!({"ips": []}));
        let bare = list.input(&list.plugins()[0], &Map::new(), None);
        assert!(bare.get("runtimeConfig").is_none() && bare.get("prevResult").is_none());
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = NetworkList::parse(&bytes);
        }
    }
}
