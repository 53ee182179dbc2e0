//! What was done, on disk: a file for each attachment.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attachment::Attachment;
use crate::list::NetworkList;

/// No entry of ours is longer: a list, an attachment and one answer.
const MAX_BYTES: u64 = 2 * 1024 * 1024;
const ENDING: &str = ".json";

/// What was done for one attachment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) list: NetworkList,
    pub(crate) attachment: Attachment,
    /// Of the last plugin that has succeeded.
    pub(crate) result: Option<Value>,
    /// Whether all plugins have.
    pub(crate) complete: bool,
}

#[derive(Serialize, Deserialize)]
struct Document {
    list: Value,
    attachment: Attachment,
    result: Option<Value>,
    complete: bool,
}

/// Why an entry cannot be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A file or folder.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was to be done.
        operation: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that no runner has written.
    #[error("{} is not what a runner writes", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn file_error<'a>(
    operation: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> CacheError + 'a {
    move |source| CacheError::File {
        operation,
        path: path.to_owned(),
        source,
    }
}

fn path_of(folder: &Path, attachment: &Attachment) -> PathBuf {
    let (container, interface) = (attachment.container(), attachment.interface());
    folder.join(format!("{container}@{interface}{ENDING}"))
}

/// The file by which plugins get their configuration, and by which it is known that they work.
pub(crate) fn input_file(folder: &Path, attachment: &Attachment) -> PathBuf {
    path_of(folder, attachment).with_extension("input")
}

/// Replaces an entry, so that a reader sees the old or the new one.
pub(crate) fn put(folder: &Path, entry: &Entry) -> Result<(), CacheError> {
    fs::create_dir_all(folder).map_err(file_error("make", folder))?;
    let path = path_of(folder, &entry.attachment);
    let document = Document {
        list: entry.list.to_value(),
        attachment: entry.attachment.clone(),
        result: entry.result.clone(),
        complete: entry.complete,
    };
    let bytes = serde_json::to_vec(&document).map_err(|error| CacheError::Content {
        path: path.clone(),
        source: error.into(),
    })?;
    muster_durable::write(&path, &bytes, 0o600).map_err(file_error("replace", &path))
}

pub(crate) fn get(folder: &Path, attachment: &Attachment) -> Result<Option<Entry>, CacheError> {
    read(&path_of(folder, attachment))
}

fn read(path: &Path) -> Result<Option<Entry>, CacheError> {
    let mut bytes = Vec::new();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error("open", path)(error)),
    };
    (file.take(MAX_BYTES).read_to_end(&mut bytes)).map_err(file_error("read", path))?;
    let decode = || -> Result<Entry, Box<dyn std::error::Error + Send + Sync>> {
        let document: Document = serde_json::from_slice(&bytes)?;
        Ok(Entry {
            list: NetworkList::from_value(document.list)?,
            attachment: document.attachment,
            result: document.result,
            complete: document.complete,
        })
    };
    decode().map(Some).map_err(|source| CacheError::Content {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn forget(folder: &Path, attachment: &Attachment) -> Result<(), CacheError> {
    let entry = path_of(folder, attachment);
    let input = input_file(folder, attachment);
    // The entry goes last: as long as it is there, all is tried again.
    for path in [muster_durable::temporary(&entry), input, entry.clone()] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.map_err(file_error("remove", &path))?,
        }
    }
    match muster_durable::sync_folder_of(&entry) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced.map_err(file_error("flush", folder)),
    }
}

/// All attachments that something was begun for. Files that are none are left out, and said.
pub(crate) fn all(folder: &Path) -> Result<Vec<Attachment>, CacheError> {
    let files = match fs::read_dir(folder) {
        Ok(files) => files,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(file_error("list", folder)(error)),
    };
    let mut found = Vec::new();
    for file in files {
        let path = file.map_err(file_error("list", folder))?.path();
        if !path.to_str().is_some_and(|name| name.ends_with(ENDING)) {
            continue;
        }
        match read(&path) {
            Ok(entry) => found.extend(entry.map(|it| it.attachment)),
            Err(error) => {
                tracing::warn!(file = %path.display(), error = %error, "not a kept result of plugins");
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::list::PluginConfig;

    #[test]
    fn an_entry_is_kept_replaced_found_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("not/yet");
        let attachment = Attachment::new("c1", "/run/n", "eth0").unwrap();
        let attachment = attachment
            .arg("K", "v")
            .unwrap()
            .capability("ips", json!(["10.0.0.1/8"]));
        let plugins = vec![PluginConfig::new("loopback").unwrap()];
        let mut entry = Entry {
            list: NetworkList::new("n", plugins).unwrap(),
            attachment: attachment.clone(),
            result: None,
            complete: false,
        };
        assert_eq!(get(&folder, &attachment).unwrap(), None);
        assert!(input_file(&folder, &attachment).ends_with("c1@eth0.input"));
        assert_eq!(all(&folder).unwrap(), []);
        put(&folder, &entry).unwrap();
        entry.result = Some(json!({"a": 1}));
        entry.complete = true;
        put(&folder, &entry).unwrap();
        assert_eq!(get(&folder, &attachment).unwrap(), Some(entry));
        fs::write(folder.join("stray@eth0.json"), "{").unwrap();
        assert_eq!(all(&folder).unwrap(), std::slice::from_ref(&attachment));
        let stray = Attachment::new("stray", "/n", "eth0").unwrap();
        assert!(matches!(
            get(&folder, &stray),
            Err(CacheError::Content { .. })
        ));
        // What a death in the middle of writing leaves goes as well.
        fs::write(folder.join("c1@eth0.json.new"), "{").unwrap();
        fs::write(folder.join("c1@eth0.input"), "{").unwrap();
        forget(&folder, &attachment).unwrap();
        forget(&folder, &attachment).unwrap();
        assert_eq!(all(&folder).unwrap(), []);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        forget(Path::new("/no/such/folder"), &attachment).unwrap();
    }
}
