//! What is to be seen of the file system.

use std::path::Path;

use muster_exec::folders::{Folder, Kind};
use muster_mounts::{
    Bind, Folders, Link, Place, ProcOthers, Propagation, ProtectHome, ProtectSystem, Temporary,
    View,
};
use muster_unit_file::config::{
    MountPropagation, ProtectControlGroups as ControlGroups, ProtectHome as Home, ProtectProc,
    ProtectSystem as System,
};
use muster_unit_file::value::path::NamespacePaths;
use muster_units::effective;

use super::{Of, images};
use crate::context::{Facts, private_tmp};

/// Where a process in another root finds out what the machine runs: the first of these that there is.
const RELEASES: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
const HOSTS_RELEASE: &str = "/run/host/os-release";
/// What hides others' private folders: it is empty, and nobody writes there.
const NOTHING: &str = "ro,mode=0755";

pub(super) fn of(of: Of<'_>, facts: &Facts<'_>) -> View {
    let exec = &of.config.exec;
    let stated = &exec.sandbox;
    let root = images::root(&exec.images);
    let has_root = root.is_some();
    // What is guarded has to be there.
    let guards = stated.protect_kernel_tunables
        || stated.protect_control_groups != ControlGroups::No
        || stated.protect_proc != ProtectProc::Default
        || super::only_processes(of.config);
    let has_own_network = stated.private_network || stated.network_namespace_path.is_some();
    let mut view = View {
        root,
        read_write: places(&stated.read_write_paths),
        read_only: places(&stated.read_only_paths),
        inaccessible: places(&stated.inaccessible_paths),
        exec: places(&stated.exec_paths),
        no_exec: places(&stated.no_exec_paths),
        binds: stated
            .bind_mounts
            .0
            .iter()
            .map(|mount| Bind {
                source: mount.source.clone(),
                destination: mount.destination.clone(),
                read_only: mount.read_only,
                recursive: mount.recursive,
                optional: mount.optional,
            })
            .collect(),
        temporary: stated
            .temporary_file_systems
            .iter()
            .map(|text| {
                let (path, options) = text.split_once(':').unwrap_or((text, ""));
                temporary(path, options)
            })
            .collect(),
        images: images::mounted(&exec.images),
        extensions: images::extensions(&exec.images),
        private_tmp: effective::private_tmp(exec).then(|| private_folders(of, facts)),
        private_devices: stated.private_devices,
        protect_system: match effective::protect_system(exec) {
            System::No => ProtectSystem::No,
            System::Yes => ProtectSystem::Yes,
            System::Full => ProtectSystem::Full,
            System::Strict => ProtectSystem::Strict,
        },
        protect_home: match effective::protect_home(exec) {
            Home::No => ProtectHome::No,
            Home::Yes => ProtectHome::Yes,
            Home::ReadOnly => ProtectHome::ReadOnly,
            Home::Tmpfs => ProtectHome::Tmpfs,
        },
        protect_kernel_tunables: stated.protect_kernel_tunables,
        protect_kernel_modules: stated.protect_kernel_modules,
        protect_kernel_logs: stated.protect_kernel_logs,
        protect_control_groups: matches!(
            stated.protect_control_groups,
            ControlGroups::Yes | ControlGroups::Strict
        ),
        own_groups: stated.protect_control_groups.is_own(),
        others_processes: match stated.protect_proc {
            ProtectProc::Default => ProcOthers::Default,
            ProtectProc::NoAccess => ProcOthers::NoAccess,
            ProtectProc::Invisible => ProcOthers::Invisible,
            ProtectProc::Ptraceable => ProcOthers::Ptraceable,
        },
        only_processes: super::only_processes(of.config),
        own_processes: stated.private_pids,
        // Without another root they are there anyway.
        kernel_file_systems: has_root && (exec.images.mount_api_vfs != Some(false) || guards),
        own_network: has_own_network && stated.private_mounts != Some(false),
        propagation: stated.mount_flags.map(|flags| match flags {
            MountPropagation::Shared => Propagation::Shared,
            MountPropagation::Slave => Propagation::Slave,
            MountPropagation::Private => Propagation::Private,
        }),
        ..View::default()
    };
    // Travelling both ways is how mounts are anyway.
    let travels = matches!(view.propagation, None | Some(Propagation::Shared));
    let mount_queues = stated.private_ipc || stated.ipc_namespace_path.is_some();
    let hides = of.folders.iter().any(|folder| folder.private.is_some());
    let asks = view
        != View {
            propagation: view.propagation,
            ..View::default()
        };
    if !asks && travels && !mount_queues && !hides && stated.private_mounts != Some(true) {
        return View::default();
    }
    view.own_mounts = true;
    view.own_queues = mount_queues;
    for folder in of.folders {
        add_folder(&mut view, folder, has_root);
    }
    // In what is mounted at /run there is a place for that, but nothing is made in what the unit puts there.
    let has_place = view.kernel_file_systems && !puts_something_at(&view, HOSTS_RELEASE);
    let releases = RELEASES.iter().filter(|_| has_place);
    view.binds.extend(releases.map(|source| Bind {
        source: (*source).into(),
        destination: HOSTS_RELEASE.into(),
        read_only: true,
        recursive: false,
        optional: true,
    }));
    // What a service is told to write into stays writable, whatever else of the kernel's files does not.
    if let Some(file) = muster_cgroup::pressure_file(facts.pressure) {
        view.read_write.push(Place {
            path: file.into(),
            optional: true,
            in_root: has_root,
        });
    }
    // Whoever may notify has to find the socket, also in a root where nobody put it.
    if let Some(socket) = facts.notify_socket.filter(|_| has_root) {
        view.binds.push(Bind {
            source: socket.into(),
            destination: socket.into(),
            read_only: true,
            recursive: false,
            optional: false,
        });
    }
    view
}

/// Whether a path is in something that the unit mounts.
fn puts_something_at(view: &View, path: &str) -> bool {
    let binds = view.binds.iter().map(|bind| &bind.destination);
    let images = view.images.iter().map(|image| &image.destination);
    binds
        .chain(images)
        .any(|place| Path::new(path).starts_with(&**place))
}

fn private_folders(of: Of<'_>, facts: &Facts<'_>) -> Folders {
    let host = &facts.host.specifiers;
    let own = || private_tmp::name(host, of.config.name.as_str(), facts.invocation);
    let name = facts.joined.tmp.map_or_else(own, str::to_owned);
    private_tmp::folders(host, &name)
}

fn places(paths: &NamespacePaths) -> Vec<Place> {
    let place = |text: &str| {
        let (optional, text) = stripped(text, '-');
        let (in_root, path) = stripped(text, '+');
        Place {
            path: path.into(),
            optional,
            in_root,
        }
    };
    paths.0.iter().map(place).collect()
}

pub(super) fn stripped(text: &str, mark: char) -> (bool, &str) {
    text.strip_prefix(mark)
        .map_or((false, text), |rest| (true, rest))
}

fn temporary(path: &str, options: &str) -> Temporary {
    Temporary {
        path: path.into(),
        options: options.into(),
    }
}

/// A folder of the unit's own is writable, visible in another root, and alone among the private ones.
fn add_folder(view: &mut View, folder: &Folder, has_root: bool) {
    let bind = |destination: &str| Bind {
        source: folder.path.clone(),
        destination: destination.into(),
        read_only: false,
        recursive: true,
        optional: false,
    };
    match &folder.private {
        Some(private) if has_root => view.binds.push(bind(&private.public)),
        Some(private) => {
            if !view
                .temporary
                .iter()
                .any(|known| known.path == private.root)
            {
                view.temporary.push(temporary(&private.root, NOTHING));
            }
            view.binds.push(bind(&folder.path));
        }
        None if has_root => view.binds.push(bind(&folder.path)),
        None => {}
    }
    view.own_links.extend(folder.links().map(|link| Link {
        path: link.into(),
        folder: folder.path.clone(),
    }));
    if folder.kind != Kind::Configuration {
        let seen = match &folder.private {
            Some(private) if has_root => &private.public,
            _ => &folder.path,
        };
        view.own_folders.push(seen.clone());
    }
}
