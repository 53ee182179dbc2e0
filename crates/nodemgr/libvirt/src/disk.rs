//! Making a machine's disk.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::error::Trouble;
use crate::plan::Origin;
use crate::tool;

/// An overlay is a few kilobytes, whatever it lies over.
const TIME: Duration = Duration::from_secs(60);

/// Makes a disk over an image, or an empty one, under a name that it has only when it is whole.
pub(crate) async fn make(
    qemu_img: &Path,
    origin: &Origin,
    size_mb: Option<u64>,
    path: &Path,
) -> Result<(), Trouble> {
    if path.exists() {
        return Ok(());
    }
    let unnamed = muster_durable::temporary(path);
    let size = size_mb.map(|size| format!("{size}M"));
    let mut arguments = ["create", "-f", "qcow2"].map(OsStr::new).to_vec();
    if let Origin::Image { path, format } = origin {
        arguments.extend(["-F", format.as_str(), "-b"].map(OsStr::new));
        arguments.push(path.as_os_str());
    }
    arguments.extend([OsStr::new("--"), unnamed.as_os_str()]);
    arguments.extend(size.as_deref().map(OsStr::new));
    let made = tool::run(qemu_img, &arguments, TIME).await;
    made.map_err(Trouble::Disk)?;
    let file = |source| Trouble::File {
        action: "name",
        path: path.to_owned(),
        source,
    };
    let to = path.to_owned();
    let named = tokio::task::spawn_blocking(move || {
        std::fs::File::open(&unnamed)?.sync_all()?;
        std::fs::rename(&unnamed, &to)?;
        muster_durable::sync_folder_of(&to)
    });
    named
        .await
        .map_err(std::io::Error::other)
        .map_err(file)?
        .map_err(file)
}
