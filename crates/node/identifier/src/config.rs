//! The configuration of identifiers: `identifier { plugin, params }`.

mod params;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use serde_json::Value;

use params::Params;

const SYSTEM_ID_SIGNAL: &str = "Attribute.Vehicle.VehicleIdentification.VIN";
const UNIT_MODEL_SIGNAL: &str = "Attribute.Aos.UnitModel";
const SUBJECTS_SIGNAL: &str = "Attribute.Aos.Subjects";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a configuration names no identifier. Lists everything that is wrong, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct IdentifierConfigError {
    problems: Vec<String>,
}

impl fmt::Display for IdentifierConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl IdentifierConfigError {
    /// What is wrong, each with its key.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// Which plugin, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentifierConfig {
    /// Text files.
    File(FileConfig),
    /// A vehicle's signal server.
    Vis(VisConfig),
}

/// Parameters of the plugin `file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileConfig {
    /// `systemIDPath`: the file with the system id.
    pub system_id: PathBuf,
    /// `unitModelPath`: the file with `model;version`.
    pub unit_model: Option<PathBuf>,
    /// `subjectsPath`: the file with subjects, one per line.
    pub subjects: Option<PathBuf>,
}

/// How the VIS server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VisTransport {
    /// `wss://`, with a certificate for the server's name of one of these CAs.
    Tls {
        /// `caCertFile`.
        ca: PathBuf,
    },
    /// `ws://`, by `"insecure": true`.
    Insecure,
}

/// Parameters of the plugin `vis`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisConfig {
    /// `visServer`: `wss://host:port/path`.
    pub server: Uri,
    /// With TLS or without.
    pub transport: VisTransport,
    /// `systemIdSignal`: where the system id is; the vehicle's VIN unless configured.
    pub system_id_signal: String,
    /// `unitModelSignal`: where `model;version` is.
    pub unit_model_signal: String,
    /// `subjectsSignal`: where the subjects are.
    pub subjects_signal: String,
    /// `webSocketTimeout`: how long connecting, an answer, and the answer to a ping may take.
    pub timeout: Duration,
    /// The first pause after a connection was lost; it doubles up to the second.
    pub pauses: (Duration, Duration),
    /// Silence after which the server is asked whether it is still there.
    pub ping_after: Duration,
}

impl IdentifierConfig {
    /// Reads `plugin` and `params` of the configuration's section `identifier`. Keys are matched
    /// without regard to upper and lower case.
    ///
    /// # Errors
    /// When the plugin is not known, a key is missing, has a wrong value or is not known.
    pub fn parse(plugin: &str, params: &Value) -> Result<Self, IdentifierConfigError> {
        let mut params = Params::new(params);
        let config = match plugin.to_ascii_lowercase().as_str() {
            "file" | "fileidentifier" => file(&mut params).map(Self::File),
            "vis" | "visidentifier" => vis(&mut params).map(Self::Vis),
            _ => {
                let plugin: String = plugin.chars().take(64).collect();
                return Err(IdentifierConfigError {
                    problems: vec![format!(
                        "identifier.plugin: {plugin:?} is not known; there are file and vis"
                    )],
                });
            }
        };
        match (config, params.finish()) {
            (Some(config), problems) if problems.is_empty() => Ok(config),
            (_, problems) => Err(IdentifierConfigError { problems }),
        }
    }
}

fn file(params: &mut Params) -> Option<FileConfig> {
    let system_id = params.required("systemIDPath");
    let unit_model = params.text("unitModelPath");
    let subjects = params.text("subjectsPath");
    Some(FileConfig {
        system_id: system_id?.into(),
        unit_model: unit_model.map(PathBuf::from),
        subjects: subjects.map(PathBuf::from),
    })
}

fn vis(params: &mut Params) -> Option<VisConfig> {
    let server = params.required("visServer");
    let ca = params.text("caCertFile");
    let insecure = params.flag("insecure");
    let timeout = params.duration("webSocketTimeout");
    let mut signal = |key, default: &str| params.text(key).unwrap_or_else(|| default.to_owned());
    let system_id_signal = signal("systemIdSignal", SYSTEM_ID_SIGNAL);
    let unit_model_signal = signal("unitModelSignal", UNIT_MODEL_SIGNAL);
    let subjects_signal = signal("subjectsSignal", SUBJECTS_SIGNAL);
    let server = match address(&server?) {
        Ok(server) => server,
        Err(reason) => {
            params.refuse("visServer", &reason);
            return None;
        }
    };
    let transport = match (server.scheme_str(), ca, insecure) {
        (Some("wss"), Some(ca), false) => VisTransport::Tls { ca: ca.into() },
        (Some("wss"), None, _) => {
            params.refuse("caCertFile", "is needed for wss://");
            return None;
        }
        (Some("wss"), Some(_), true) => {
            params.refuse("insecure", "is for ws://, and visServer is wss://");
            return None;
        }
        (_, _, true) => VisTransport::Insecure,
        (_, _, false) => {
            params.refuse(
                "visServer",
                "ws:// is not protected; use wss://, or set insecure to true",
            );
            return None;
        }
    };
    Some(VisConfig {
        server,
        transport,
        system_id_signal,
        unit_model_signal,
        subjects_signal,
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
        pauses: (Duration::from_secs(1), Duration::from_secs(30)),
        ping_after: Duration::from_secs(30),
    })
}

fn address(text: &str) -> Result<Uri, String> {
    let wanted = || "is not of the form wss://host:port/path".to_owned();
    let uri: Uri = text.parse().map_err(|_| wanted())?;
    let host = uri.host().unwrap_or_default();
    // A name and password in an address would end up in logs.
    let named = uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'));
    match uri.scheme_str() {
        Some("ws" | "wss") if !host.is_empty() && !named => Ok(uri),
        _ => Err(wanted()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(plugin: &str, params: &Value) -> Vec<String> {
        let error = IdentifierConfig::parse(plugin, params).expect_err("it is wrong");
        error.problems().to_vec()
    }

    #[test]
    fn files_under_both_names_and_any_case() {
        let expected = IdentifierConfig::File(FileConfig {
            system_id: "/etc/system-id".into(),
            unit_model: Some("/etc/model".into()),
            subjects: None,
        });
        for (plugin, key) in [("file", "systemIDPath"), ("FileIdentifier", "SYSTEMIDPATH")] {
            let params = json!({ key: "/etc/system-id", "unitModelPath": "/etc/model", "subjectsPath": null });
            assert_eq!(
                IdentifierConfig::parse(plugin, &params),
                Ok(expected.clone())
            );
        }
    }

    #[test]
    fn a_signal_server_with_defaults() {
        let params = json!({ "visServer": "wss://ivi:443", "caCertFile": "/etc/ca.pem" });
        let Ok(IdentifierConfig::Vis(vis)) = IdentifierConfig::parse("visidentifier", &params)
        else {
            panic!("not a signal server");
        };
        assert_eq!(
            vis.transport,
            VisTransport::Tls {
                ca: "/etc/ca.pem".into()
            }
        );
        assert_eq!(
            vis.system_id_signal,
            "Attribute.Vehicle.VehicleIdentification.VIN"
        );
        assert_eq!(vis.subjects_signal, "Attribute.Aos.Subjects");
        assert_eq!(vis.timeout, Duration::from_secs(10));
        let params = json!({
            "visServer": "ws://127.0.0.1:8088/vis", "insecure": true, "webSocketTimeout": "2m",
            "systemIdSignal": "Attribute.Serial",
        });
        let Ok(IdentifierConfig::Vis(vis)) = IdentifierConfig::parse("vis", &params) else {
            panic!("not a signal server");
        };
        assert_eq!(vis.transport, VisTransport::Insecure);
        assert_eq!(vis.timeout, Duration::from_secs(120));
        assert_eq!(vis.system_id_signal, "Attribute.Serial");
    }

    #[test]
    fn everything_that_is_wrong_is_named() {
        assert_eq!(
            problems("fle", &json!({})),
            ["identifier.plugin: \"fle\" is not known; there are file and vis"]
        );
        assert_eq!(
            problems("file", &json!({ "subjectsPath": 7, "systemId": "x" })),
            [
                "identifier.params.systemIDPath: is missing",
                "identifier.params.subjectsPath: expected text",
                "identifier.params.systemid: is not known",
            ]
        );
        assert_eq!(
            problems("file", &json!([])),
            [
                "identifier.params: expected a table",
                "identifier.params.systemIDPath: is missing"
            ]
        );
        for (params, problem) in [
            (
                json!({ "visServer": "ivi:443" }),
                "visServer: is not of the form wss://host:port/path",
            ),
            (
                json!({ "visServer": "wss://a:b@ivi" }),
                "visServer: is not of the form wss://host:port/path",
            ),
            (
                json!({ "visServer": "wss://ivi" }),
                "caCertFile: is needed for wss://",
            ),
            (
                json!({ "visServer": "ws://ivi" }),
                "visServer: ws:// is not protected; use wss://, or set insecure to true",
            ),
            (
                json!({ "visServer": "wss://ivi", "caCertFile": "a", "insecure": true }),
                "insecure: is for ws://, and visServer is wss://",
            ),
            (
                json!({ "visServer": "ws://ivi", "insecure": true, "webSocketTimeout": "soon" }),
                "webSocketTimeout: expected a duration such as 10s",
            ),
            (
                json!({ "visServer": "ws://ivi", "insecure": true, "webSocketTimeout": "0s" }),
                "webSocketTimeout: expected a duration such as 10s",
            ),
        ] {
            assert_eq!(
                problems("vis", &params),
                [format!("identifier.params.{problem}")]
            );
        }
    }
}
