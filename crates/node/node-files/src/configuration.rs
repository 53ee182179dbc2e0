//! What the daemons of a node are told.

use std::net::SocketAddrV4;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{Duty, Networks, NodeFiles};

impl NodeFiles {
    fn dir(&self, name: &str) -> PathBuf {
        self.place.dir.join(name)
    }

    fn at(&self, port: u16) -> String {
        SocketAddrV4::new(self.address, port).to_string()
    }

    /// Certificates that the node needs.
    fn roles(&self) -> &'static [&'static str] {
        match self.is_main() {
            true => &["iam", "sm", "cm"],
            false => &["iam", "sm"],
        }
    }

    pub(crate) fn identity_manager(&self) -> Value {
        let module = |role: &&str| {
            json!({
                "id": role,
                "plugin": "file",
                "extendedKeyUsage": ["serverAuth", "clientAuth"],
                "params": {"storagePath": self.dir("keys").join(role)},
            })
        };
        let modules: Vec<Value> = self.roles().iter().map(module).collect();
        let mut config = json!({
            "publicServerUrl": self.at(self.iam_public),
            "protectedServerUrl": self.at(self.iam_protected),
            "localSocket": self.place.iam_socket(),
            "workingDir": self.dir("iam"),
            "caCert": self.unit.root_certificate,
            "certRevocationLists": self.unit.revocation_lists,
            "nodeInfo": {
                "nodeIdPath": self.dir("node-id"),
                "provisioningStatePath": self.place.provisioning_state(),
                "nodeName": self.name,
                "nodeType": self.name,
            },
            "identifier": {"plugin": "file", "params": {
                "systemIdPath": self.dir("system-id"),
                "unitModelPath": self.dir("model"),
                "subjectsPath": self.dir("subjects"),
            }},
            "certModules": modules,
        });
        if let Some(dmips) = self.max_dmips {
            config["nodeInfo"]["maxDmips"] = dmips.into();
        }
        if !self.is_main() {
            config["mainIamPublicServerUrl"] = self.unit.iam_public.as_str().into();
            config["mainIamProtectedServerUrl"] = self.unit.iam_protected.as_str().into();
        }
        config
    }

    pub(crate) fn service_manager(&self) -> Value {
        let mut config = json!({
            "cmServerUrl": self.unit.cm,
            "iamPublicServerUrl": self.at(self.iam_public),
            "iamProtectedServerUrl": self.at(self.iam_protected),
            "caCert": self.unit.root_certificate,
            "certRevocationLists": self.unit.revocation_lists,
            "workingDir": self.dir("sm"),
            "runtimeDir": self.place.run.join("sm"),
            "storageDir": self.dir("storages"),
            "stateDir": self.dir("states"),
            "initSystem": "core",
            "coreSocket": self.place.manager_socket(),
            "programDir": self.programs,
            "nodeIdPath": self.dir("node-id"),
            "nodeType": self.name,
            "monitoring": {"pollPeriod": "5s", "averageWindow": "30s"},
            "journalDirs": [self.place.journal()],
            "resourcesFile": self.dir("resources.json"),
        });
        if let Some(dmips) = self.max_dmips {
            config["maxDmips"] = dmips.into();
        }
        match &self.networks {
            Networks::Own { subject, uplink } => {
                config["network"] = json!({"mode": "on", "untaggedUplinks": {subject: uplink}});
            }
            Networks::Host => {
                config["network"] = json!({"mode": "host"});
                config["runtimes"] = json!([{"type": "native", "hostNetwork": true}]);
            }
        }
        config
    }

    pub(crate) fn communication_manager(&self) -> Option<Value> {
        let Duty::Main {
            files,
            control_socket,
        } = &self.duty
        else {
            return None;
        };
        let mode = match self.networks {
            Networks::Own { .. } => "on",
            Networks::Host => "off",
        };
        Some(json!({
            "cmServerUrl": self.unit.cm,
            "fileServerUrl": files,
            "iamPublicServerUrl": self.unit.iam_public,
            "iamProtectedServerUrl": self.unit.iam_protected,
            "caCert": self.unit.root_certificate,
            "certRevocationLists": self.unit.revocation_lists,
            "workingDir": self.dir("cm"),
            "storageDir": self.dir("storages"),
            "stateDir": self.dir("states"),
            "controlSocket": control_socket,
            "networks": {"mode": mode},
        }))
    }
}
