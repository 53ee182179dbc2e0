//! What of a view is in images or extended: mounted before anything is planned, since planning looks into it.

use std::os::fd::OwnedFd;

use muster_mounts::{Extension, Hierarchy, MountImage, View};
use rustix::fd::AsFd;
use rustix::io::Errno;

use super::extensions::{extended, layer};
use super::image::Opened;
use super::staging::Staging;
use super::trees::Trees;
use super::{ViewError, refused};

/// Mounts images and lays extensions over folders, and gives the place where all that is, if there is any. What cannot be
/// had is never left out: the program would run on other files.
pub(super) fn mount(view: &View, trees: &mut Trees) -> Result<Option<Staging>, ViewError> {
    let extends = view.extensions.first().map(Extension::directive);
    let mounts = (!view.images.is_empty()).then_some("MountImages");
    let Some(directive) = mounts.or(extends) else {
        return Ok(None);
    };
    let mut staging = Staging::open().map_err(|errno| {
        let detail = format!("{directive}: cannot make a place for images");
        refused(errno, detail)
    })?;
    for image in &view.images {
        trees.add_image(mount_one(image, &mut staging)?);
    }
    let mut layers = Vec::new();
    for extension in &view.extensions {
        layers.extend(layer(extension, trees.root(), &mut staging)?);
    }
    let directive = extends.unwrap_or(directive);
    for hierarchy in Hierarchy::ALL {
        let folder = extended(hierarchy, &layers, trees.root(), &mut staging);
        let folder = folder.map_err(|errno| {
            let at = hierarchy.folder();
            refused(
                errno,
                format!("{directive}: cannot lay extensions over {at}"),
            )
        });
        if let Some(folder) = folder? {
            trees.add_extended(hierarchy, folder);
        }
    }
    Ok(Some(staging))
}

/// The root of an image at its place, or nothing if it may be absent and is.
fn mount_one(image: &MountImage, staging: &mut Staging) -> Result<Option<OwnedFd>, ViewError> {
    let directive = "MountImages";
    let opened = match Opened::open(directive, &image.image, false) {
        Err(error) if image.optional && error.errno == Errno::NOENT => return Ok(None),
        opened => opened?,
    };
    let mounted = opened.mount()?;
    let place = staging.attach(mounted.root.as_fd());
    let place = place.and_then(|name| staging.open_place(&name));
    let place = place.map_err(|errno| {
        let detail = format!("{directive}: cannot attach {}", image.image.path);
        refused(errno, detail)
    })?;
    mounted.complete(place.as_fd())?;
    Ok(Some(place))
}
