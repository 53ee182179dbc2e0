//! One connection to a bus.

use std::time::Duration;

use zbus::blocking::fdo::DBusProxy;
use zbus::blocking::{Connection, MessageIterator, connection};
use zbus::fdo::NameOwnerChanged;
use zbus::message::Type;
use zbus::names::{BusName, UniqueName};
use zbus::proxy::CacheProperties;
use zbus::{MatchRule, fdo};

use crate::watches::Owner;

/// A bus that does not answer within this time counts as lost.
pub const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Messages that may wait to be looked at. When there are more, the bus has to wait, and with it the answers to our own
/// questions; these then take too long, and the connection is made anew.
const MOST_WAITING: usize = 1024;

/// Why a bus cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// There is none.
    #[error("no bus at {address}")]
    Connect {
        /// Where it should be.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<zbus::Error>,
    },
    /// It did not take an interest in a name.
    #[error("cannot watch {name} on the bus at {address}")]
    Watch {
        /// The name.
        name: String,
        /// Where the bus is.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<fdo::Error>,
    },
    /// It did not say who owns a name.
    #[error("cannot ask the bus at {address} for the owner of {name}")]
    Ask {
        /// The name.
        name: String,
        /// Where the bus is.
        address: String,
        /// What went wrong.
        #[source]
        source: Box<fdo::Error>,
    },
    /// The connection has ended.
    #[error("the bus at {address} has gone")]
    Gone {
        /// Where it was.
        address: String,
    },
}

/// A connection to a bus.
#[derive(Debug)]
pub struct Bus {
    address: String,
    proxy: DBusProxy<'static>,
    connection: Connection,
}

/// A name has another owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The name.
    pub name: String,
    /// The unique name of the new owner's connection.
    pub connection: Option<String>,
}

impl Bus {
    /// Connects.
    pub fn connect(address: &str) -> Result<Self, BusError> {
        let connect = || {
            let connection = connection::Builder::address(address)?
                .method_timeout(ANSWER_TIME)
                .max_queued(MOST_WAITING)
                .build()?;
            let proxy = DBusProxy::builder(&connection)
                .cache_properties(CacheProperties::No)
                .build()?;
            Ok((connection, proxy))
        };
        let (connection, proxy) = connect().map_err(|source: zbus::Error| BusError::Connect {
            address: address.to_owned(),
            source: source.into(),
        })?;
        Ok(Self {
            address: address.to_owned(),
            proxy,
            connection,
        })
    }

    /// The changes, until the connection ends. To be called before anything is watched, and read by another thread.
    pub fn changes(&self) -> impl Iterator<Item = Change> + Send + use<> {
        MessageIterator::from(&self.connection)
            .map_while(Result::ok)
            .filter_map(|message| {
                let changed = NameOwnerChanged::from_message(message)?;
                let arguments = changed.args().ok()?;
                Some(Change {
                    name: arguments.name.to_string(),
                    connection: arguments.new_owner.as_ref().map(UniqueName::to_string),
                })
            })
    }

    /// Takes an interest in a name, and says who owns it now.
    pub fn watch(&self, name: &str) -> Result<Option<Owner>, BusError> {
        let subscribed = rule(name).and_then(|rule| self.proxy.add_match_rule(rule));
        subscribed.map_err(|source| BusError::Watch {
            name: name.to_owned(),
            address: self.address.clone(),
            source: source.into(),
        })?;
        match self.ask_owner(name) {
            Ok(connection) => Ok(Some(self.owner(connection))),
            Err(fdo::Error::NameHasNoOwner(_)) => Ok(None),
            Err(source) => Err(BusError::Ask {
                name: name.to_owned(),
                address: self.address.clone(),
                source: source.into(),
            }),
        }
    }

    /// Loses the interest in a name. If that fails the connection is about to end, and it is lost with it.
    pub fn unwatch(&self, name: &str) {
        let _ = rule(name).and_then(|rule| self.proxy.remove_match_rule(rule));
    }

    /// A connection with its process. One that has just ended has none any more.
    pub fn owner(&self, connection: String) -> Owner {
        let pid = BusName::try_from(connection.as_str())
            .ok()
            .and_then(|name| self.proxy.get_connection_unix_process_id(name).ok());
        Owner { connection, pid }
    }

    /// Ends the connection, and with it the changes, even if the bus is still there.
    pub fn close(self) {
        // It may have ended before.
        let _ = self.connection.close();
    }

    /// The error for a connection that has ended.
    pub fn gone(&self) -> BusError {
        BusError::Gone {
            address: self.address.clone(),
        }
    }

    fn ask_owner(&self, name: &str) -> fdo::Result<String> {
        let name = BusName::try_from(name).map_err(zbus::Error::from)?;
        Ok(self.proxy.get_name_owner(name)?.to_string())
    }
}

/// Changes of the owner of one name.
fn rule(name: &str) -> fdo::Result<MatchRule<'_>> {
    let rule = MatchRule::builder()
        .msg_type(Type::Signal)
        .sender("org.freedesktop.DBus")?
        .interface("org.freedesktop.DBus")?
        .member("NameOwnerChanged")?
        .add_arg(name)?
        .build();
    Ok(rule)
}
