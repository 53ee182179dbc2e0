//! `push` and `pull`.

use std::io::Read as _;
use std::path::Path;

use muster_image::build;
use muster_image::{Login, RegistryImage, RegistrySource};

use super::{Done, ImageCommandError};
use crate::cli::image as cli;
use crate::console::Console;
use crate::error::CommandError;

/// Nobody's password is longer.
const MAX_PASSWORD: u64 = 64 << 10;

pub(super) fn push(command: &cli::Push, console: &mut Console) -> Result<(), CommandError> {
    let layout = super::open(&command.image)?;
    let digest = layout
        .image(command.image.name.as_deref())
        .map_err(ImageCommandError::Layout)?;
    let target = connect(&command.reference, &command.access, console)?;
    runtime()?
        .block_on(target.push(&layout, digest))
        .map_err(ImageCommandError::Registry)?;
    console.answer(&Done {
        digest: digest.to_string(),
        result: command.reference.clone(),
    })?;
    Ok(())
}

pub(super) fn pull(command: &cli::Pull, console: &mut Console) -> Result<(), CommandError> {
    let source = connect(&command.reference, &command.access, console)?;
    let (_, tag) = command.reference.rsplit_once(':').unwrap_or_default();
    let tag = Some(tag).filter(|tag| !tag.is_empty() && !tag.contains('/'));
    let name = command.name.as_deref().or(tag);
    let digest = runtime()?.block_on(async {
        let digest = source
            .resolve()
            .await
            .map_err(ImageCommandError::Registry)?;
        let as_archive = super::is_archive(&command.result);
        build::pull(&source, digest, name, &command.result, as_archive)
            .await
            .map_err(ImageCommandError::Pull)?;
        Ok::<_, ImageCommandError>(digest)
    })?;
    console.answer(&Done {
        digest: digest.to_string(),
        result: command.result.display().to_string(),
    })?;
    Ok(())
}

fn runtime() -> Result<tokio::runtime::Runtime, ImageCommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ImageCommandError::Runtime)
}

fn connect(
    reference: &str,
    access: &cli::Access,
    console: &mut Console,
) -> Result<RegistrySource, ImageCommandError> {
    let image: RegistryImage = reference.parse().map_err(ImageCommandError::Registry)?;
    let login = match (&access.user, &access.password_file) {
        (Some(user), Some(file)) => Some(Login {
            user: user.clone(),
            password: read_password(file)?,
        }),
        _ => None,
    };
    let roots = access.ca.iter().map(|path| super::read(path));
    let roots = roots.collect::<Result<Vec<_>, _>>()?;
    if access.insecure {
        console
            .note("muster: warning: the connection to the registry is not protected (--insecure)");
    }
    RegistrySource::new(&image, login, roots, access.insecure).map_err(ImageCommandError::Registry)
}

/// The first line of a file or of standard input.
fn read_password(path: &Path) -> Result<String, ImageCommandError> {
    let failed = |source| ImageCommandError::File {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin()
            .take(MAX_PASSWORD)
            .read_to_string(&mut text)
            .map_err(failed)?;
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_PASSWORD)
            .read_to_string(&mut text)
            .map_err(failed)?;
    }
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
