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
    let name = command.name.as_deref().or(tag(&command.reference));
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

/// The tag in `host:5000/name:tag@digest`.
fn tag(reference: &str) -> Option<&str> {
    let (name, _digest) = reference.split_once('@').unwrap_or((reference, ""));
    let (_, tag) = name.rsplit_once(':')?;
    Some(tag).filter(|tag| !tag.is_empty() && !tag.contains('/'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_after_its_tag() {
        assert_eq!(tag("registry/web:1.2"), Some("1.2"));
        assert_eq!(tag("registry:5000/web:1.2@sha256:ab"), Some("1.2"));
        assert_eq!(tag("web:1.2@sha256:ab"), Some("1.2"));
        for untagged in [
            "web",
            "registry:5000/web",
            "registry:5000/web@sha256:ab",
            "web:",
        ] {
            assert_eq!(tag(untagged), None, "{untagged}");
        }
    }
}
