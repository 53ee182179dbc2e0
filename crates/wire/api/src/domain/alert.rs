//! What an operator should know.

use std::fmt;
use std::str::FromStr;

use crate::servicemanager::v5 as wire;
use crate::servicemanager::v5::alert::AlertItem;

use super::enums::AlertStatus;
use super::error::{ConvertError, InvalidValue, Problem, required, text};
use super::id::PartitionName;
use super::ident::InstanceIdent;
use super::time::Timestamp;

/// What passed a threshold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaParameter {
    /// Processors, in DMIPS.
    Cpu,
    /// Memory, in bytes.
    Ram,
    /// Bytes received.
    Download,
    /// Bytes sent.
    Upload,
    /// A partition, in bytes.
    Partition(PartitionName),
}

impl QuotaParameter {
    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Ram => "ram",
            Self::Download => "download",
            Self::Upload => "upload",
            Self::Partition(name) => name.as_str(),
        }
    }
}

impl FromStr for QuotaParameter {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "ram" => Ok(Self::Ram),
            "download" => Ok(Self::Download),
            "upload" => Ok(Self::Upload),
            name => PartitionName::new(name).map(Self::Partition),
        }
    }
}

impl fmt::Display for QuotaParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that an operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// When it happened.
    pub timestamp: Timestamp,
    /// What happened.
    pub kind: AlertKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlertKind {
    /// The node passed a threshold of its alert rules.
    SystemQuota {
        /// Which.
        parameter: QuotaParameter,
        /// Its value then.
        value: u64,
        /// Which way.
        status: AlertStatus,
    },
    /// An instance passed a threshold of its alert rules.
    InstanceQuota {
        /// Which instance.
        instance: InstanceIdent,
        /// Which threshold.
        parameter: QuotaParameter,
        /// Its value then.
        value: u64,
        /// Which way.
        status: AlertStatus,
    },
    /// An instance could not get a resource it asked for.
    ResourceAllocate {
        /// Which instance.
        instance: InstanceIdent,
        /// Name of the resource.
        resource: String,
        /// Why.
        message: String,
    },
    /// The node's log holds an error.
    System {
        /// The log entry.
        message: String,
    },
    /// A manager itself logged an error.
    Core {
        /// Name of the manager. Not a closed list: an alert is not lost over an unknown name.
        component: String,
        /// The log entry.
        message: String,
    },
    /// An instance logged an error.
    Instance {
        /// Which instance.
        instance: InstanceIdent,
        /// Version of its item.
        version: String,
        /// The log entry.
        message: String,
    },
}

impl TryFrom<wire::SystemQuotaAlert> for AlertKind {
    type Error = ConvertError;

    fn try_from(wire: wire::SystemQuotaAlert) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "SystemQuotaAlert";
        Ok(Self::SystemQuota {
            parameter: text(MESSAGE, "parameter", &wire.parameter)?,
            value: wire.value,
            status: text(MESSAGE, "status", &wire.status)?,
        })
    }
}

impl TryFrom<wire::InstanceQuotaAlert> for AlertKind {
    type Error = ConvertError;

    fn try_from(wire: wire::InstanceQuotaAlert) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "InstanceQuotaAlert";
        Ok(Self::InstanceQuota {
            instance: required(MESSAGE, "instance", wire.instance)?,
            parameter: text(MESSAGE, "parameter", &wire.parameter)?,
            value: wire.value,
            status: text(MESSAGE, "status", &wire.status)?,
        })
    }
}

impl TryFrom<wire::ResourceAllocateAlert> for AlertKind {
    type Error = ConvertError;

    fn try_from(wire: wire::ResourceAllocateAlert) -> Result<Self, ConvertError> {
        let instance = required("ResourceAllocateAlert", "instance", wire.instance)?;
        Ok(Self::ResourceAllocate {
            instance,
            resource: wire.resource,
            message: wire.message,
        })
    }
}

impl TryFrom<wire::InstanceAlert> for AlertKind {
    type Error = ConvertError;

    fn try_from(wire: wire::InstanceAlert) -> Result<Self, ConvertError> {
        let instance = required("InstanceAlert", "instance", wire.instance)?;
        Ok(Self::Instance {
            instance,
            version: wire.service_version,
            message: wire.message,
        })
    }
}

impl TryFrom<wire::Alert> for Alert {
    type Error = ConvertError;

    fn try_from(wire: wire::Alert) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "Alert";
        let item = wire
            .alert_item
            .ok_or_else(|| ConvertError::new(MESSAGE, "AlertItem", Problem::Missing))?;
        let kind = match item {
            AlertItem::SystemQuotaAlert(alert) => {
                required(MESSAGE, "system_quota_alert", Some(alert))?
            }
            AlertItem::InstanceQuotaAlert(alert) => {
                required(MESSAGE, "instance_quota_alert", Some(alert))?
            }
            AlertItem::ResourceAllocateAlert(alert) => {
                required(MESSAGE, "resource_allocate_alert", Some(alert))?
            }
            AlertItem::SystemAlert(alert) => AlertKind::System {
                message: alert.message,
            },
            AlertItem::CoreAlert(alert) => AlertKind::Core {
                component: alert.core_component,
                message: alert.message,
            },
            AlertItem::InstanceAlert(alert) => required(MESSAGE, "instance_alert", Some(alert))?,
        };
        Ok(Self {
            timestamp: required(MESSAGE, "timestamp", wire.timestamp)?,
            kind,
        })
    }
}

impl From<AlertKind> for AlertItem {
    fn from(kind: AlertKind) -> Self {
        match kind {
            AlertKind::SystemQuota {
                parameter,
                value,
                status,
            } => {
                let (parameter, status) = (parameter.to_string(), status.to_string());
                Self::SystemQuotaAlert(wire::SystemQuotaAlert {
                    parameter,
                    value,
                    status,
                })
            }
            AlertKind::InstanceQuota {
                instance,
                parameter,
                value,
                status,
            } => Self::InstanceQuotaAlert(wire::InstanceQuotaAlert {
                instance: Some(instance.into()),
                parameter: parameter.to_string(),
                value,
                status: status.to_string(),
            }),
            AlertKind::ResourceAllocate {
                instance,
                resource,
                message,
            } => {
                let instance = Some(instance.into());
                Self::ResourceAllocateAlert(wire::ResourceAllocateAlert {
                    instance,
                    resource,
                    message,
                })
            }
            AlertKind::System { message } => Self::SystemAlert(wire::SystemAlert { message }),
            AlertKind::Core { component, message } => Self::CoreAlert(wire::CoreAlert {
                core_component: component,
                message,
            }),
            AlertKind::Instance {
                instance,
                version,
                message,
            } => Self::InstanceAlert(wire::InstanceAlert {
                instance: Some(instance.into()),
                service_version: version,
                message,
            }),
        }
    }
}

impl From<Alert> for wire::Alert {
    fn from(alert: Alert) -> Self {
        Self {
            timestamp: Some(alert.timestamp.into()),
            alert_item: Some(alert.kind.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{alert, round_trip};

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        let refusal = |item: Option<AlertItem>| {
            let wire = wire::Alert {
                timestamp: Some(Default::default()),
                alert_item: item,
            };
            Alert::try_from(wire).unwrap_err().to_string()
        };
        assert_eq!(refusal(None), "Alert.AlertItem: missing");
        assert_eq!(
            refusal(Some(AlertItem::InstanceAlert(Default::default()))),
            "Alert.instance_alert.instance: missing"
        );
        let quota = wire::SystemQuotaAlert {
            parameter: "cpu".into(),
            status: "rising".into(),
            ..Default::default()
        };
        assert_eq!(
            refusal(Some(AlertItem::SystemQuotaAlert(quota))),
            "Alert.system_quota_alert.status: \"rising\" is none of raise continue fall"
        );
    }

    proptest! {
        #[test]
        fn survives_the_wire(alert in alert()) {
            round_trip::<wire::Alert, _>(&alert)?;
        }
    }
}
