//! Listening sockets: opened for socket units, kept by `muster-init`, handed to services.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_activation::sockets::{self, Owner};
use muster_cgroup::Mode;
use muster_engine::dep::DepKind;
use muster_engine::event::LoadState;
use muster_engine::ids::{InvocationId, UnitId};
use muster_engine::protocol::{ExecKind, Input, Severity, SocketError};
use muster_engine::types::{Machine, SocketState};
use muster_exec::Network;
use muster_exec::accounts::AccountError;
use muster_unit_file::config::{SocketConfig, UnitKind};
use muster_unit_file::name::UnitName;
use muster_unit_file::value::network::{Listen, ListenAddress};

use super::super::namespaces::Kind;
use super::chain;
use crate::core::Core;
use crate::platform::{NotOpened, SocketPlace, Token};
use crate::recover::Kept;

/// What `muster-init` keeps listening sockets under: `sock:UNIT:N`.
const PREFIX: &str = "sock:";
const ESRCH: i32 = 3;
const EIO: i32 = 5;

/// Listening sockets of all units.
#[derive(Debug, Default)]
pub(super) struct SocketTable {
    open: HashMap<UnitId, Listening>,
    /// Kept for units whose state was lost, until they ask for their sockets.
    kept: HashMap<UnitId, Vec<OwnedFd>>,
}

/// The sockets of one unit.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) unit: UnitName,
    pub(super) sockets: Vec<OwnedFd>,
    /// What a service knows them by.
    name: Box<str>,
    /// `Accept=`: connections are handed over, not the sockets.
    pub(super) accept: bool,
    /// `MaxConnectionsPerSource=`
    pub(super) per_source: u32,
    /// Who is started with them.
    services: Vec<UnitId>,
}

impl SocketTable {
    /// The sockets of a unit, if they are open.
    pub(super) fn of(&self, unit: UnitId) -> Option<&Listening> {
        self.open.get(&unit)
    }

    /// The sockets that a service is started with, by the names of the units that they are of.
    pub(super) fn passed_to(&self, service: UnitId) -> Vec<(BorrowedFd<'_>, &str)> {
        let mut units: Vec<&Listening> = self
            .open
            .values()
            .filter(|listening| !listening.accept && listening.services.contains(&service))
            .collect();
        units.sort_unstable_by(|one, other| one.unit.cmp(&other.unit));
        units
            .into_iter()
            .flat_map(|listening| {
                let name = &*listening.name;
                listening.sockets.iter().map(move |fd| (fd.as_fd(), name))
            })
            .collect()
    }
}

fn key(unit: &UnitName, index: usize) -> String {
    format!("{PREFIX}{unit}:{index}")
}

/// Whether a socket is one of a network's: those with a path are whoever's the file system is.
fn is_in_a_network(listen: &Listen) -> bool {
    !matches!(listen.address, ListenAddress::Path(_))
}

impl Core {
    fn socket_config(&mut self, unit: UnitId) -> Option<(UnitName, SocketConfig)> {
        let name = self.name_of(unit)?;
        match &self.units.config(&name).kind {
            UnitKind::Socket(socket) => Some((name, SocketConfig::clone(socket))),
            _ => None,
        }
    }

    pub(super) fn open_sockets(&mut self, unit: UnitId) {
        let error = self.try_open_sockets(unit).err();
        self.tell(unit, Input::SocketsOpened { error });
    }

    fn try_open_sockets(&mut self, unit: UnitId) -> Result<(), SocketError> {
        let refused = SocketError {
            index: 0,
            errno: ESRCH,
        };
        let (name, config) = self.socket_config(unit).ok_or_else(|| refused.clone())?;
        let owner = self.socket_owner(&config).map_err(|error| {
            self.say(Severity::Error, Some(unit), &chain(&error));
            refused
        })?;
        let mut kept = self.activation.sockets.kept.remove(&unit);
        if let Some(open) = self.activation.sockets.open.remove(&unit) {
            kept.get_or_insert_default().extend(open.sockets);
        }
        let mut kept = kept.unwrap_or_default();
        for fd in &kept {
            self.platform.unwatch(fd.as_fd());
        }
        let before = kept.len();
        let group = self.group_of_sockets(unit, &name, &config)?;
        let settings = self.units.config(&name);
        let is_bound = config.listen.iter().any(is_in_a_network);
        let is_kept = self.namespaces.pair(unit, Kind::Network).is_some();
        if is_bound {
            self.prepare_namespaces(unit, &settings)
                .map_err(|error| NotOpened {
                    index: 0,
                    errno: error.errno,
                    message: format!("Its sockets must not be opened: {}", error.step),
                })
                .map_err(|error| self.not_opened(unit, &error))?;
        }
        let network = match &settings.exec.sandbox.network_namespace_path {
            Some(path) => Some(Network::Of(&path.0)),
            None => {
                let pair = self.namespaces.pair(unit, Kind::Network);
                pair.map(Network::Kept)
            }
        };
        let network = network.filter(|_| is_bound);
        if !is_kept && matches!(network, Some(Network::Kept(_))) {
            // They are in the network of a run that nobody remembers.
            kept.clear();
        }
        let place = SocketPlace {
            cgroup: group.as_deref(),
            network,
        };
        let opened = self.platform.open_sockets(place, &config, owner, kept);
        let opened = opened.map_err(|error| self.not_opened(unit, &error))?;
        for warning in &opened.warnings {
            self.say(Severity::Warning, Some(unit), warning);
        }
        for (index, fd) in opened.sockets.iter().enumerate() {
            match fd.try_clone() {
                Ok(copy) => self.platform.keep(key(&name, index), copy),
                Err(error) => {
                    let message = format!("Its socket {index} cannot be kept: {error}.");
                    self.say(Severity::Error, Some(unit), &message);
                }
            }
        }
        for index in opened.sockets.len()..before {
            self.platform.release(&key(&name, index));
        }
        self.listen(unit, name, &config, opened.sockets);
        Ok(())
    }

    fn not_opened(&mut self, unit: UnitId, error: &NotOpened) -> SocketError {
        self.say(Severity::Error, Some(unit), &error.message);
        SocketError {
            index: error.index,
            errno: error.errno,
        }
    }

    /// The group that sockets are opened in so that its filters hold for them, if it or a slice above has any. Such a group has its
    /// filters when this returns; where it must not do without and cannot have them, nothing is opened.
    fn group_of_sockets(
        &mut self,
        unit: UnitId,
        name: &UnitName,
        socket: &SocketConfig,
    ) -> Result<Option<Box<str>>, SocketError> {
        let is_ip = |listen: &Listen| {
            matches!(
                listen.address,
                ListenAddress::Ip { .. } | ListenAddress::Port(_)
            )
        };
        let config = self.units.config(name);
        if !socket.listen.iter().any(is_ip) || !self.filters_sockets(unit, &config) {
            return Ok(None);
        }
        let refused = |error: io::Error| NotOpened {
            index: 0,
            errno: error.raw_os_error().unwrap_or(EIO),
            message: format!("Cannot make its group: {error}"),
        };
        let made = self.prepare_group(unit, &config).map_err(refused);
        made.map_err(|error| self.not_opened(unit, &error))?;
        if let Some(lacking) = self.lacks_filter(unit, ExecKind::StartPre) {
            let error = NotOpened {
                index: 0,
                errno: lacking.errno,
                message: format!("Its sockets must not be opened: {}", lacking.step),
            };
            return Err(self.not_opened(unit, &error));
        }
        // Elsewhere groups have no filters.
        let mode = self.platform.offer().mode;
        let has_filters = matches!(mode, Mode::Unified | Mode::Hybrid);
        Ok(has_filters.then(|| self.cgroup_of(unit)))
    }

    fn listen(
        &mut self,
        unit: UnitId,
        name: UnitName,
        config: &SocketConfig,
        sockets: Vec<OwnedFd>,
    ) {
        let services = self
            .engine
            .get(unit)
            .map(|record| record.deps(DepKind::Triggers).collect())
            .unwrap_or_default();
        let fallback = || name.as_str().into();
        let listening = Listening {
            sockets,
            name: config.file_descriptor_name.clone().unwrap_or_else(fallback),
            accept: config.accept,
            per_source: config.max_connections_per_source,
            services,
            unit: name,
        };
        self.activation.sockets.open.insert(unit, listening);
    }

    fn socket_owner(&mut self, config: &SocketConfig) -> Result<Owner, AccountError> {
        if config.socket_user.is_none() && config.socket_group.is_none() {
            return Ok(Owner::default());
        }
        let accounts = self.machine.accounts()?;
        let user = config.socket_user.as_ref();
        let user = user.map(|name| accounts.user(&name.0)).transpose()?;
        let group = config.socket_group.as_ref();
        let group = group.map(|name| accounts.group(&name.0)).transpose()?;
        Ok(Owner {
            uid: user.as_ref().map(|user| user.uid),
            gid: group.or(user.map(|user| user.gid)),
        })
    }

    pub(super) fn close_sockets(&mut self, unit: UnitId) {
        if let Some(listening) = self.activation.sockets.open.remove(&unit) {
            for (index, fd) in listening.sockets.iter().enumerate() {
                self.platform.unwatch(fd.as_fd());
                self.platform.release(&key(&listening.unit, index));
            }
            // The same names may be kept again in the next moment, and must not be released after that.
            let _ = self.platform.flush();
        }
        let Some((_, config)) = self.socket_config(unit) else {
            return;
        };
        for error in sockets::remove_files(&config) {
            self.say(Severity::Warning, Some(unit), &chain(&error));
        }
    }

    pub(super) fn watch_sockets(&mut self, unit: UnitId, on: bool) {
        let Some(listening) = self.activation.sockets.open.get(&unit) else {
            return;
        };
        let mut failed = None;
        for (index, fd) in listening.sockets.iter().enumerate() {
            if !on {
                self.platform.unwatch(fd.as_fd());
                continue;
            }
            let token = Token::Listen(unit, u8::try_from(index).unwrap_or(u8::MAX));
            if let Err(error) = self.platform.watch(fd.as_fd(), token, false) {
                failed = Some(format!("Its socket {index} cannot be waited for: {error}."));
            }
        }
        if let Some(message) = failed {
            self.say(Severity::Error, Some(unit), &message);
        }
    }

    pub(super) fn flush_sockets(&mut self, unit: UnitId) {
        if let Some(listening) = self.activation.sockets.open.get(&unit) {
            sockets::flush(&listening.sockets);
        }
    }

    /// Something waits at a socket.
    pub(super) fn socket_ready(&mut self, unit: UnitId, index: u8) {
        match self.activation.sockets.open.get(&unit) {
            None => {}
            Some(listening) if listening.accept => self.accept_connections(unit, index),
            Some(_) => self.tell(unit, Input::Incoming),
        }
    }

    /// Takes back what `muster-init` kept. Units that listen go on; those whose state was lost are started again, with
    /// the same sockets.
    pub(super) fn restore_sockets(&mut self, kept: &mut Kept) {
        let mut by_unit: HashMap<String, Vec<(usize, OwnedFd)>> = HashMap::new();
        for (key, fd) in kept.take_all(PREFIX) {
            // A unit's name may have colons.
            let parts = key
                .strip_prefix(PREFIX)
                .and_then(|key| key.rsplit_once(':'));
            match parts.and_then(|(unit, index)| Some((unit, index.parse().ok()?))) {
                Some((unit, index)) => by_unit
                    .entry(unit.to_owned())
                    .or_default()
                    .push((index, fd)),
                None => self.platform.release(&key),
            }
        }
        let mut lost = Vec::new();
        for (name, mut sockets) in by_unit {
            sockets.sort_unstable_by_key(|(index, _)| *index);
            let sockets: Vec<OwnedFd> = sockets.into_iter().map(|(_, fd)| fd).collect();
            self.ensure_loaded(&name);
            let Some(unit) = self.engine.find(&name) else {
                self.platform.release(&format!("{PREFIX}{name}:"));
                continue;
            };
            let record = self.engine.unit(unit);
            let state = match &record.machine {
                Machine::Socket(socket) => socket.state,
                _ => SocketState::Dead,
            };
            // It has sockets, and yet this state knows of no run of it: the state is a new one.
            let was_forgotten =
                record.load == LoadState::Loaded && record.invocation == InvocationId::default();
            use SocketState::*;
            match state {
                StartPost | Listening | Running | StopPre | StopPreSigterm | StopPreSigkill => {
                    if let Some((name, config)) = self.socket_config(unit) {
                        self.listen(unit, name, &config, sockets);
                        self.watch_sockets(unit, state == Listening);
                    }
                }
                // It is about to ask for them.
                StartPre | StartChown => drop(self.activation.sockets.kept.insert(unit, sockets)),
                Dead if was_forgotten => {
                    self.activation.sockets.kept.insert(unit, sockets);
                    lost.push(name);
                }
                _ => self.platform.release(&format!("{PREFIX}{name}:")),
            }
        }
        self.reopen_sockets(lost);
    }
}
