//! Where secrets come from.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::Secret;
use crate::helper::calls;
use crate::helper::outcome::{During, SetupError};
use crate::sandbox::{Credential, CredentialSource, Sandbox};
use crate::step::Step;

/// All secrets of a unit together, as with systemd.
const MAX_TOTAL: usize = 1 << 20;
/// Secrets of a unit, and entries of a folder that are to become some.
const MAX_FILES: usize = 1024;
/// How deep folders may be nested.
const MAX_DEPTH: usize = 16;
const MAX_NAME: usize = 255;

/// Where the system's secrets are, after those that the manager names.
const SYSTEM: [&str; 2] = [
    "/run/credentials/@system",
    "/run/muster/credentials/@system",
];
/// Where an administrator puts secrets for units, looked through after those of the system.
const STORES: [&str; 4] = [
    "/etc/credstore",
    "/run/credstore",
    "/usr/local/lib/credstore",
    "/usr/lib/credstore",
];

/// Reads every secret of the sandbox. What comes first has the name.
pub(super) fn gather(sandbox: &Sandbox) -> Result<Vec<Secret>, SetupError> {
    let mut gathered = Gathered::default();
    let (given, set): (Vec<_>, Vec<_>) = sandbox
        .credentials
        .iter()
        .partition(|credential| !matches!(credential.source, CredentialSource::Data(_)));
    for credential in given {
        let has_default = set.iter().any(|default| default.name == credential.name);
        load(credential, sandbox, has_default, &mut gathered)?;
    }
    for credential in set {
        if let CredentialSource::Data(data) = &credential.source {
            gathered.add(&credential.name, data.clone())?;
        }
    }
    let secrets = gathered.secrets.into_iter();
    Ok(secrets.map(|(name, data)| Secret { name, data }).collect())
}

#[derive(Default)]
struct Gathered {
    secrets: BTreeMap<String, Vec<u8>>,
    total: usize,
}

impl Gathered {
    fn add(&mut self, name: &str, data: Vec<u8>) -> Result<(), SetupError> {
        if !is_name(name) {
            let detail = format!("{name:?} cannot be the name of a credential");
            return Err(SetupError::new(Step::Credentials, Errno::INVAL, detail));
        }
        if self.secrets.contains_key(name) {
            return Ok(());
        }
        self.total += data.len();
        if self.total > MAX_TOTAL || self.secrets.len() >= MAX_FILES {
            let detail = format!("the credential {name} is more than a unit may have together");
            return Err(SetupError::new(Step::Credentials, Errno::TOOBIG, detail));
        }
        self.secrets.insert(name.to_owned(), data);
        Ok(())
    }

    fn room(&self) -> usize {
        MAX_TOTAL.saturating_sub(self.total)
    }
}

/// Whether a name can be that of a file in the folder.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name != "."
        && name != ".."
        && !name.chars().any(|c| c == '/' || c.is_control())
}

fn load(
    credential: &Credential,
    sandbox: &Sandbox,
    has_default: bool,
    gathered: &mut Gathered,
) -> Result<(), SetupError> {
    let name = &*credential.name;
    match &credential.source {
        CredentialSource::Data(_) => Ok(()),
        CredentialSource::Path(path) => {
            let path = Path::new(&**path);
            let read = read_path(path, name, &sandbox.unit, gathered);
            match read {
                Err(error) if has_default && is_missing(&error) => Ok(()),
                read => read,
            }
        }
        CredentialSource::System(source) => {
            if !is_name(source) {
                let detail = format!("{source:?} cannot be the name of a credential");
                return Err(SetupError::new(Step::Credentials, Errno::INVAL, detail));
            }
            for folder in system_folders(sandbox).chain(STORES) {
                let path = Path::new(folder).join(&**source);
                match read_path(&path, name, &sandbox.unit, gathered) {
                    Err(error) if is_missing(&error) => {}
                    read => return read,
                }
            }
            // The system may or may not have been given it; a unit has to cope, as with systemd.
            Ok(())
        }
        CredentialSource::Matching => import_all(name, None, sandbox, gathered),
        CredentialSource::Renamed(start) => import_all(name, Some(start), sandbox, gathered),
    }
}

fn import_all(
    pattern: &str,
    start: Option<&str>,
    sandbox: &Sandbox,
    gathered: &mut Gathered,
) -> Result<(), SetupError> {
    for folder in system_folders(sandbox).chain(STORES) {
        import(Path::new(folder), (pattern, start), &sandbox.unit, gathered)?;
    }
    Ok(())
}

fn system_folders(sandbox: &Sandbox) -> impl Iterator<Item = &str> {
    let named = sandbox.credential_stores.iter().map(|folder| &**folder);
    named.chain(SYSTEM)
}

fn is_missing(error: &SetupError) -> bool {
    let code = error.source.raw_os_error();
    matches!(code, Some(libc::ENOENT | libc::ENOTDIR))
}

fn import(
    folder: &Path,
    (pattern, start): (&str, Option<&str>),
    unit: &str,
    gathered: &mut Gathered,
) -> Result<(), SetupError> {
    let Ok(wanted) = CString::new(pattern) else {
        return Ok(());
    };
    let fits = |name: &str| CString::new(name).is_ok_and(|name| calls::matches(&wanted, &name));
    let names = match list(folder, fits) {
        Err(error) if is_missing(&error) => return Ok(()),
        listed => listed?,
    };
    for (name, path) in names {
        if path.is_file() {
            let name = start.map_or_else(|| name.clone(), |start| renamed(&name, pattern, start));
            read_path(&path, &name, unit, gathered)?;
        }
    }
    Ok(())
}

/// Another name: what the pattern fixes of the old one is replaced, and what it leaves open is kept.
fn renamed(name: &str, pattern: &str, start: &str) -> String {
    let fixed = pattern.find(['*', '?', '[', '\\']);
    let open = name.get(fixed.unwrap_or(pattern.len())..);
    format!("{start}{}", open.unwrap_or(""))
}

/// Those entries of a folder that fit, in order of their names.
fn list(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<Vec<(String, PathBuf)>, SetupError> {
    let cannot = || format!("cannot list {} for credentials", folder.display());
    let entries = std::fs::read_dir(folder).during(Step::Credentials, cannot)?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.during(Step::Credentials, cannot)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !fits(&name) {
            continue;
        }
        // Without those that come later in no particular order, nobody would know what is missing.
        if names.len() == MAX_FILES {
            let detail = format!(
                "{} holds more than the {MAX_FILES} credentials that a unit may have",
                folder.display()
            );
            return Err(SetupError::new(Step::Credentials, Errno::TOOBIG, detail));
        }
        names.push((name, entry.path()));
    }
    names.sort();
    Ok(names)
}

fn read_path(
    path: &Path,
    name: &str,
    unit: &str,
    gathered: &mut Gathered,
) -> Result<(), SetupError> {
    let cannot = || format!("cannot read the credential {name} from {}", path.display());
    let kind = std::fs::metadata(path).during(Step::Credentials, cannot)?;
    let kind = kind.file_type();
    if kind.is_dir() {
        return read_folder(path, name, gathered, 0);
    }
    let data = if kind.is_socket() {
        ask_socket(path, name, unit, gathered.room())
    } else {
        read_file(path, gathered.room())
    };
    let data = data.during(Step::Credentials, cannot)?;
    gathered.add(name, data)
}

/// A folder stands for all its files; a file's name is that of the credential and its own, with `_` between.
fn read_folder(
    folder: &Path,
    prefix: &str,
    gathered: &mut Gathered,
    depth: usize,
) -> Result<(), SetupError> {
    if depth >= MAX_DEPTH {
        let detail = format!("folders below {} are nested too deep", folder.display());
        return Err(SetupError::new(Step::Credentials, Errno::LOOP, detail));
    }
    for (file, path) in list(folder, |_| true)? {
        let name = format!("{prefix}_{file}");
        let cannot = || format!("cannot read the credential {name} from {}", path.display());
        let kind = path.symlink_metadata().during(Step::Credentials, cannot)?;
        if kind.is_dir() {
            read_folder(&path, &name, gathered, depth + 1)?;
        } else if kind.is_file() {
            let data = read_file(&path, gathered.room()).during(Step::Credentials, cannot)?;
            gathered.add(&name, data)?;
        }
    }
    Ok(())
}

/// Reads at most one byte more than there is room for, so that too much is seen as too much.
fn read_file(path: &Path, room: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::File::options()
        .read(true)
        // A queue that nobody writes to would hold the start up.
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    read_all(file, room)
}

fn read_all(from: impl Read, room: usize) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    let most = u64::try_from(room).unwrap_or(u64::MAX).saturating_add(1);
    from.take(most).read_to_end(&mut data)?;
    Ok(data)
}

/// Asks a service. It learns from our own address, which is random but for its end, which unit asks for what.
fn ask_socket(path: &Path, name: &str, unit: &str, room: usize) -> io::Result<Vec<u8>> {
    let flags = SocketFlags::CLOEXEC;
    let stream = SocketType::STREAM;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, stream, flags, None)?;
    let number = rustix::process::getpid().as_raw_nonzero();
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let time = time.map_or(0, |time| time.as_nanos());
    let own = format!("{number:x}{time:x}/unit/{unit}/{name}");
    rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(own.as_bytes())?)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    read_all(std::fs::File::from(socket), room)
}

#[cfg(test)]
mod tests;
