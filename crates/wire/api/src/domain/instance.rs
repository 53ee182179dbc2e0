//! What a node is asked to run.

use crate::servicemanager::v5 as wire;

use super::alert_rules::AlertRules;
use super::digest::Digest;
use super::env_var::EnvVar;
use super::error::{ConvertError, each, optional, optional_text, optional_to_text, required, text};
use super::id::{Gid, OwnerId, RuntimeId, Uid};
use super::ident::InstanceIdent;
use super::network::NetworkParameters;
use super::path::DataPath;

/// Everything a node needs to run one instance.
///
/// An instance is restarted when its new `InstanceInfo` is not equal to the one it runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceInfo {
    /// Which instance.
    pub instance: InstanceIdent,
    /// Of the item.
    pub version: String,
    /// The item's image manifest.
    pub manifest_digest: Digest,
    /// Who provides the item.
    pub owner_id: Option<OwnerId>,
    /// Which of the node's runtimes runs it.
    pub runtime_id: RuntimeId,
    /// The user it runs as.
    pub uid: Uid,
    /// The group it runs as.
    pub gid: Gid,
    /// Higher starts earlier.
    pub priority: u64,
    /// Where it keeps files, if it keeps any.
    pub storage_path: Option<DataPath>,
    /// Where it keeps state, if it keeps any.
    pub state_path: Option<DataPath>,
    /// Set on top of what the image sets.
    pub env_vars: Vec<EnvVar>,
    /// Without, it has no network.
    pub network: Option<NetworkParameters>,
    /// Absent on the wire when there are no rules.
    pub alert_rules: AlertRules,
}

impl TryFrom<wire::InstanceInfo> for InstanceInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::InstanceInfo) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "InstanceInfo";
        let alert_rules = wire
            .monitoring_parameters
            .and_then(|parameters| parameters.alert_rules);
        let alert_rules = optional("MonitoringParameters", "alert_rules", alert_rules)
            .map_err(|error| error.within(MESSAGE, "monitoring_parameters"))?;
        Ok(Self {
            instance: required(MESSAGE, "instance", wire.instance)?,
            version: wire.version,
            manifest_digest: text(MESSAGE, "manifest_digest", &wire.manifest_digest)?,
            owner_id: optional_text(MESSAGE, "owner_id", &wire.owner_id)?,
            runtime_id: text(MESSAGE, "runtime_id", &wire.runtime_id)?,
            uid: Uid::new(wire.uid).map_err(|error| error.at(MESSAGE, "uid"))?,
            gid: Gid::new(wire.gid).map_err(|error| error.at(MESSAGE, "gid"))?,
            priority: wire.priority,
            storage_path: optional_text(MESSAGE, "storage_path", &wire.storage_path)?,
            state_path: optional_text(MESSAGE, "state_path", &wire.state_path)?,
            env_vars: each(MESSAGE, "env_vars", wire.env_vars)?,
            network: optional(MESSAGE, "network_parameters", wire.network_parameters)?,
            alert_rules: alert_rules.unwrap_or_default(),
        })
    }
}

impl From<InstanceInfo> for wire::InstanceInfo {
    fn from(info: InstanceInfo) -> Self {
        let has_rules = info.alert_rules != AlertRules::default();
        let monitoring_parameters = has_rules.then(|| wire::MonitoringParameters {
            alert_rules: Some(info.alert_rules.into()),
        });
        Self {
            instance: Some(info.instance.into()),
            version: info.version,
            manifest_digest: info.manifest_digest.to_string(),
            owner_id: optional_to_text(info.owner_id),
            runtime_id: info.runtime_id.into(),
            uid: info.uid.as_raw(),
            gid: info.gid.as_raw(),
            priority: info.priority,
            storage_path: optional_to_text(info.storage_path),
            state_path: optional_to_text(info.state_path),
            env_vars: info.env_vars.into_iter().map(Into::into).collect(),
            network_parameters: info.network.map(Into::into),
            monitoring_parameters,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{instance_info, round_trip};

    fn refusal(change: impl FnOnce(&mut wire::InstanceInfo)) -> String {
        let mut info = wire::InstanceInfo {
            instance: Some(crate::common::v2::InstanceIdent {
                item_id: "item".into(),
                subject_id: "subject".into(),
                ..Default::default()
            }),
            manifest_digest: Digest::from_sha256([7; 32]).to_string(),
            runtime_id: "runtime".into(),
            ..Default::default()
        };
        assert!(
            InstanceInfo::try_from(info.clone()).is_ok(),
            "valid before the change"
        );
        change(&mut info);
        InstanceInfo::try_from(info).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        assert_eq!(
            refusal(|info| info.instance = None),
            "InstanceInfo.instance: missing"
        );
        assert_eq!(
            refusal(|info| info.instance.as_mut().unwrap().item_id = "../x".into()),
            "InstanceInfo.instance.item_id: \"../x\" holds the forbidden character '/'"
        );
        assert_eq!(
            refusal(|info| info.manifest_digest.clear()),
            "InstanceInfo.manifest_digest: missing"
        );
        assert_eq!(
            refusal(|info| info.runtime_id.clear()),
            "InstanceInfo.runtime_id: missing"
        );
        assert_eq!(
            refusal(|info| info.uid = u32::MAX),
            "InstanceInfo.uid: \"4294967295\" is not below 4294967295"
        );
        assert_eq!(
            refusal(|info| info.storage_path = "a/../../etc".into()),
            "InstanceInfo.storage_path: \"a/../../etc\" is not a path without \"..\""
        );
        assert_eq!(
            refusal(|info| info.env_vars = vec![Default::default()]),
            "InstanceInfo.env_vars[0].name: missing"
        );
    }

    #[test]
    fn a_threshold_that_is_no_number_is_named_through_all_levels() {
        let cpu = wire::AlertRulePercents {
            min_threshold: f64::NAN,
            ..Default::default()
        };
        let rules = wire::AlertRules {
            cpu: Some(cpu),
            ..Default::default()
        };
        let parameters = wire::MonitoringParameters {
            alert_rules: Some(rules),
        };
        assert_eq!(
            refusal(|info| info.monitoring_parameters = Some(parameters)),
            "InstanceInfo.monitoring_parameters.alert_rules.cpu.min_threshold: \
             \"NaN\" is not between 0 and 100"
        );
    }

    proptest! {
        #[test]
        fn survives_the_wire(info in instance_info()) {
            round_trip::<wire::InstanceInfo, _>(&info)?;
        }
    }
}
