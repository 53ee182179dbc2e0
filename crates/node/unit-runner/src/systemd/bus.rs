//! One connection to systemd, over the system bus. (Its own socket would do without a bus, but what systemd sends there is
//! not what the library takes for a message: senders without unique names.)

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use zbus::message::Type;
use zbus::zvariant::{DynamicType, OwnedObjectPath, OwnedValue};
use zbus::{Connection, MatchRule, MessageStream};

use super::properties;
use crate::error::AskError;
use crate::spec::UnitName;
use crate::state::Observation;

const DESTINATION: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
pub(super) const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const ANSWER_TIME: Duration = Duration::from_secs(25);
/// Messages that may wait to be looked at.
const MOST_WAITING: usize = 1024;
/// What object paths of units begin with.
const UNIT_PATHS: &str = "/org/freedesktop/systemd1/unit/";

pub(super) const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";
pub(super) const UNIT_EXISTS: &str = "org.freedesktop.systemd1.UnitExists";

#[derive(Debug, Clone)]
pub(super) struct Bus {
    connection: Connection,
}

impl Bus {
    pub(super) async fn connect() -> Result<Self, AskError> {
        let builder = zbus::connection::Builder::system().map_err(failed)?;
        let builder = builder.method_timeout(ANSWER_TIME).max_queued(MOST_WAITING);
        let connection = builder.build().await.map_err(failed)?;
        Ok(Self { connection })
    }

    async fn ask<B, R>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        body: &B,
    ) -> Result<R, AskError>
    where
        B: Serialize + DynamicType + Sync,
        R: for<'d> zbus::zvariant::DynamicDeserialize<'d>,
    {
        let destination = Some(DESTINATION);
        let call = self
            .connection
            .call_method(destination, path, Some(interface), method, body);
        let reply = call.await.map_err(failed)?;
        reply.body().deserialize().map_err(failed)
    }

    pub(super) async fn manager<B, R>(&self, method: &str, body: &B) -> Result<R, AskError>
    where
        B: Serialize + DynamicType + Sync,
        R: for<'d> zbus::zvariant::DynamicDeserialize<'d>,
    {
        self.ask(MANAGER_PATH, MANAGER, method, body).await
    }

    /// Signals of systemd from now on.
    pub(super) async fn signals(&self) -> Result<MessageStream, AskError> {
        let rule = MatchRule::builder().msg_type(Type::Signal);
        let rule = rule.sender(DESTINATION).map_err(failed)?;
        let rule = rule.path_namespace(MANAGER_PATH).map_err(failed)?.build();
        MessageStream::for_match_rule(rule, &self.connection, Some(MOST_WAITING))
            .await
            .map_err(failed)
    }

    /// A look at a unit.
    pub(super) async fn observe(&self, unit: &UnitName) -> Result<Option<Observation>, AskError> {
        let found: Result<OwnedObjectPath, _> = self.manager("GetUnit", &(unit.as_str(),)).await;
        let path = match found {
            Ok(path) => path,
            Err(AskError::Refused { name, .. }) if name == NO_SUCH_UNIT => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let mut sheets: [HashMap<String, OwnedValue>; 2] = Default::default();
        for (sheet, interface) in sheets.iter_mut().zip(["Unit", "Service"]) {
            let interface = format!("org.freedesktop.systemd1.{interface}");
            *sheet = match self.ask(&path, PROPERTIES, "GetAll", &(interface,)).await {
                Ok(sheet) => sheet,
                // It went between the two questions.
                Err(AskError::Refused { .. }) => return Ok(None),
                Err(failure) => return Err(failure),
            };
        }
        let [unit, service] = sheets;
        Ok(properties::observation(&unit, &service))
    }
}

/// The unit that an object path stands for, if it is one of those whose names need no escaping but for `-` and `.`.
pub(super) fn unit_of(path: &str) -> Option<UnitName> {
    let escaped = path.strip_prefix(UNIT_PATHS)?;
    let name = escaped.replace("_2d", "-").replace("_2e", ".");
    // A name that begins with a digit has that escaped; ours begin with a letter.
    UnitName::new(name).ok()
}

/// What a failure of the bus means.
pub(super) fn failed(error: zbus::Error) -> AskError {
    match error {
        zbus::Error::MethodError(name, message, _) => AskError::Refused {
            name: name.to_string(),
            message: message.unwrap_or_default(),
        },
        error => AskError::Bus(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_paths_name_units() {
        let path = "/org/freedesktop/systemd1/unit/muster_2dc_2d1_2eservice";
        assert_eq!(unit_of(path).unwrap().as_str(), "muster-c-1.service");
        assert_eq!(
            unit_of("/org/freedesktop/systemd1/unit/dev_2dsda_2edevice"),
            None
        );
        assert_eq!(unit_of("/org/freedesktop/systemd1"), None);
    }
}
