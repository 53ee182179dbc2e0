//! Whether a unit makes sense as a whole.

use crate::config::{
    CommandPhase, Restart, ServiceConfig, ServiceType, SocketConfig, UnitConfig, UnitKind,
};
use crate::name::{UnitName, UnitType};
use crate::timespan::TimeSpan;
use crate::value::network::{Listen, ListenAddress, ListenKind};

/// What makes a unit unusable although each of its settings is fine.
///
/// # Errors
/// The reason, for people.
pub fn verify(unit: &UnitConfig) -> Result<(), String> {
    verify_policies(unit)?;
    match &unit.kind {
        UnitKind::Service(service) => verify_service(unit, service),
        UnitKind::Socket(socket) => {
            if socket.listen.is_empty() {
                return Err("the socket listens on nothing (a Listen...= is missing)".to_owned());
            }
            if socket.accept && socket.service.is_some() {
                return Err(
                    "Accept=yes starts one service per connection, Service= cannot be used"
                        .to_owned(),
                );
            }
            if socket.accept && socket.max_connections == 0 {
                return Err("MaxConnections=0 with Accept=yes would never accept".to_owned());
            }
            if socket.accept && !socket.can_accept() {
                return Err("Accept=yes needs sockets that have connections".to_owned());
            }
            if !socket.symlinks.0.is_empty() && nodes(socket) != 1 {
                return Err("Symlinks= needs exactly one socket or FIFO with a path".to_owned());
            }
            Ok(())
        }
        UnitKind::Mount(mount) => {
            verify_where(
                unit,
                mount.r#where.as_ref().map(|path| &*path.0),
                UnitType::Mount,
            )?;
            if mount.what.is_none() {
                return Err("What= is missing".to_owned());
            }
            Ok(())
        }
        UnitKind::Automount(automount) => verify_where(
            unit,
            automount.r#where.as_ref().map(|path| &*path.0),
            UnitType::Automount,
        ),
        UnitKind::Swap(swap) => {
            let Some(what) = &swap.what else {
                return Err("What= is missing".to_owned());
            };
            verify_path(unit, &what.0, UnitType::Swap, "What")
        }
        UnitKind::Timer(timer) => {
            if timer.timers.is_empty() && !timer.on_clock_change && !timer.on_timezone_change {
                return Err("the timer never elapses (an On...= is missing)".to_owned());
            }
            Ok(())
        }
        UnitKind::Path(path) => {
            if path.paths.is_empty() {
                return Err("the path unit watches nothing (a Path...= is missing)".to_owned());
            }
            Ok(())
        }
        UnitKind::Slice => {
            if unit.name.is_valid_slice() {
                Ok(())
            } else {
                Err("the name is not a path in the tree of slices".to_owned())
            }
        }
        UnitKind::Scope(_) => Err("scopes are made at run time, they have no files".to_owned()),
        UnitKind::Target | UnitKind::Device => Ok(()),
    }
}

/// How many files a socket unit makes that a link could point to.
fn nodes(socket: &SocketConfig) -> usize {
    let makes_node = |listen: &&Listen| {
        matches!(listen.address, ListenAddress::Path(_))
            && matches!(
                listen.kind,
                ListenKind::Stream
                    | ListenKind::Datagram
                    | ListenKind::SequentialPacket
                    | ListenKind::Fifo
            )
    };
    socket.listen.iter().filter(makes_node).count()
}

/// Images are mounted as they are: one that has to be checked must not be taken for one that was.
fn verify_policies(unit: &UnitConfig) -> Result<(), String> {
    if unit.exec.sandbox.best_effort {
        return Ok(());
    }
    let images = &unit.exec.images;
    let policies = [
        (
            "RootImagePolicy",
            &images.root_image_policy,
            images.root_image.is_some(),
        ),
        (
            "ExtensionImagePolicy",
            &images.extension_image_policy,
            !images.extension_images.is_empty(),
        ),
        (
            "MountImagePolicy",
            &images.mount_image_policy,
            !images.mount_images.is_empty(),
        ),
    ];
    for (name, policy, has_images) in policies {
        if let Some(demand) = policy.demand().filter(|_| has_images) {
            return Err(format!(
                "{name}= wants {demand:?}, and images are neither checked nor decrypted"
            ));
        }
    }
    Ok(())
}

fn verify_service(unit: &UnitConfig, service: &ServiceConfig) -> Result<(), String> {
    let fail = |reason: &str| Err(reason.to_owned());
    let kind = service.service_type();
    let starts = service.commands(CommandPhase::Start).count();
    let has_stop = service.commands(CommandPhase::Stop).next().is_some();
    let has_success_action = unit.reactions.success_action != crate::config::EmergencyAction::None;
    if starts == 0 && !has_stop && !has_success_action {
        return fail("the service has no ExecStart=, ExecStop= or SuccessAction=");
    }
    if starts == 0 && kind != ServiceType::Oneshot {
        return fail("only Type=oneshot can do without ExecStart=");
    }
    if starts == 0 && !service.remain_after_exit && !has_success_action {
        return fail("without ExecStart= the service needs RemainAfterExit=yes");
    }
    if starts > 1 && kind != ServiceType::Oneshot {
        return fail("only Type=oneshot can have more than one ExecStart=");
    }
    if kind == ServiceType::Oneshot
        && matches!(service.restart, Restart::Always | Restart::OnSuccess)
    {
        return fail("Type=oneshot cannot have Restart=always or on-success");
    }
    if kind == ServiceType::Oneshot && service.exit_type == crate::config::ExitType::Cgroup {
        return fail("Type=oneshot cannot have ExitType=cgroup");
    }
    if kind == ServiceType::Oneshot && !service.exits.restart_force.is_empty() {
        return fail("Type=oneshot cannot have RestartForceExitStatus=");
    }
    if kind == ServiceType::Dbus && service.bus_name.is_none() {
        return fail("Type=dbus needs a BusName=");
    }
    if service.exit_type == crate::config::ExitType::Cgroup && kind == ServiceType::Forking {
        return fail("Type=forking cannot have ExitType=cgroup");
    }
    if service.runtime_max == TimeSpan::ZERO && kind == ServiceType::Oneshot {
        return fail("RuntimeMaxSec= has no effect on Type=oneshot");
    }
    if kind == ServiceType::Forking && unit.exec.sandbox.private_pids {
        return fail(
            "Type=forking cannot have PrivatePIDs=yes: its main process would be in another namespace; use Type=notify or exec",
        );
    }
    if unit.exec.labels.pam_name.is_some()
        && !matches!(
            unit.kill.mode,
            crate::config::KillMode::ControlGroup | crate::config::KillMode::Mixed
        )
    {
        return fail("PAMName= needs KillMode=control-group or mixed");
    }
    Ok(())
}

fn verify_where(unit: &UnitConfig, path: Option<&str>, kind: UnitType) -> Result<(), String> {
    match path {
        // Without Where= the name says where.
        None => unit
            .name
            .to_path()
            .map(|_| ())
            .map_err(|error| format!("the name is not a path: {error}")),
        Some(path) => verify_path(unit, path, kind, "Where"),
    }
}

fn verify_path(unit: &UnitConfig, path: &str, kind: UnitType, key: &str) -> Result<(), String> {
    match UnitName::from_path(path, kind) {
        Ok(expected) if expected == unit.name => Ok(()),
        Ok(expected) => Err(format!(
            "{key}={path} does not fit the unit's name, which must be {expected}"
        )),
        Err(error) => Err(format!("{key}={path} cannot be named: {error}")),
    }
}
