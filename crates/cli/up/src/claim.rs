//! A folder for a Unit: taken, looked at, and chosen for.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use crate::act::failed;
use crate::error::{FileError, UpError};
use crate::layout::{Layout, MAIN, free_subnet};
use crate::record::{Before, Claim, Lock, Ports, Record, USUAL_PORTS, free_ports, is_unused};
use crate::settings::{Settings, Shape};
use crate::{command, ground, supervisor};

fn make_folder(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(FileError::of("make", path))
}

/// The folder, made if it is missing, with nobody else working on it.
pub(crate) fn folder(layout: &Layout) -> Result<Lock, UpError> {
    loop {
        make_folder(&layout.dir)?;
        match Lock::take(&layout.dir)? {
            Claim::Ours(lock) => return Ok(lock),
            Claim::Taken => {
                let path = layout.dir.clone();
                return Err(UpError::Busy { path });
            }
            // A `down` has just ended.
            Claim::Gone => {}
        }
    }
}

/// A folder that is a Unit's already.
pub(crate) fn known(
    layout: &Layout,
    settings: &Settings,
    record: Record,
) -> Result<Record, UpError> {
    if record.shape() != settings.shape {
        return Err(UpError::OtherUser {
            path: layout.dir.clone(),
            how: match record.shape() {
                Shape::TwoNodes => "as root",
                Shape::OneUser => "without root",
            },
        });
    }
    make_folder(&layout.run)?;
    Ok(record)
}

/// The record of a Unit that is to be made; without one, nothing of it stays.
pub(crate) fn new(layout: &Layout, settings: &Settings, before: Before) -> Result<Record, UpError> {
    if !is_unused(layout)? {
        let path = layout.dir.clone();
        return Err(UpError::Foreign { path });
    }
    let made = before.made_folders.clone();
    let recorded = prepare(layout, settings, before);
    if recorded.is_err() {
        // Whatever is not empty is somebody else's.
        for folder in made.iter().chain([&layout.dir]).chain(&made) {
            let _ = fs::remove_dir(folder);
        }
    }
    recorded
}

fn prepare(layout: &Layout, settings: &Settings, before: Before) -> Result<Record, UpError> {
    let socket = layout.control_socket();
    if UnixStream::connect(&socket).is_ok() {
        return Err(UpError::OtherUnit { socket });
    }
    make_folder(&layout.run)?;
    ground::check(layout, settings.shape)?;
    let free = || free_ports().map_err(FileError::of("find ports for", &layout.dir));
    let record = match settings.shape {
        Shape::TwoNodes => Record {
            subnet: Some(subnet(layout)?),
            ports: USUAL_PORTS,
            before,
        },
        Shape::OneUser => Record {
            subnet: None,
            ports: free()?,
            before,
        },
    };
    record.save(layout)?;
    Ok(record)
}

fn subnet(layout: &Layout) -> Result<u8, UpError> {
    let mut list = Command::new("ip");
    list.args(["-4", "route", "show", "table", "all"]);
    let routes = command::run(list).map_err(failed("list the machine's routes"))?;
    free_subnet(&layout.dir, &routes).ok_or(UpError::NoSubnet)
}

/// Others for a Main Node that does not run, if somebody else has taken its ports.
pub(crate) fn ports(layout: &Layout, record: &mut Record) -> Result<(), UpError> {
    if supervisor::is_up(&layout.node(MAIN)) || record.ports.are_free() {
        return Ok(());
    }
    let web = record.ports.web;
    let others = free_ports().map_err(FileError::of("find ports for", &layout.dir))?;
    // The web service's is in a file that people change.
    record.ports = Ports { web, ..others };
    record.save(layout)?;
    Ok(())
}
