//! Gathering the layers and reading the raw structure out of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::de;
use crate::merge::merge;
use crate::overlay;
use crate::parse::{Format, Limits, parse};
use crate::problem::{ConfigError, Problem, Problems};
use crate::tree::{Node, Origin, Source, Table, Value};

/// Turns a raw structure into one that cannot be invalid.
pub trait Validate {
    /// What only a valid configuration becomes.
    type Valid;

    /// Checks everything and reports each fault under its key path; `None` after a report.
    fn validate(self, problems: &mut Problems<'_>) -> Option<Self::Valid>;
}

/// One key that some layer has set, for `--show-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key path, in the structure's own spelling.
    pub key: String,
    /// The value on one line: shortened, and redacted where the key holds a secret.
    pub value: String,
    /// The layer that won.
    pub origin: Origin,
}

#[derive(Debug)]
enum MainFile {
    Required(PathBuf),
    Optional(PathBuf),
}

/// Gathers the layers of a program's configuration; see the [crate] for their order.
pub struct Load<Raw> {
    program: String,
    file: Option<(MainFile, Option<Format>)>,
    drop_ins: bool,
    documents: Vec<(String, Format, Vec<u8>)>,
    /// What the variables' names begin with, and the variables.
    environment: Option<(String, Vec<(OsString, OsString)>)>,
    flags: Vec<String>,
    limits: Limits,
    raw: PhantomData<fn() -> Raw>,
}

impl<Raw> fmt::Debug for Load<Raw> {
    /// Without documents, variables and flags: they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load")
            .field("program", &self.program)
            .field("file", &self.file)
            .field("drop_ins", &self.drop_ins)
            .finish_non_exhaustive()
    }
}

impl<Raw: DeserializeOwned> Load<Raw> {
    /// The configuration of `program`, so far without any layer but the defaults.
    pub fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            file: None,
            drop_ins: false,
            documents: Vec::new(),
            environment: None,
            flags: Vec::new(),
            limits: Limits::default(),
            raw: PhantomData,
        }
    }

    /// The main file, which must exist; its extension says its format.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some((MainFile::Required(path.into()), None));
        self
    }

    /// The main file at its usual place: it may be missing.
    #[must_use]
    pub fn optional_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some((MainFile::Optional(path.into()), None));
        self
    }

    /// The main file's format, whatever its extension.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        if let Some((_, chosen)) = &mut self.file {
            *chosen = Some(format);
        }
        self
    }

    /// Also the files of the folder `<main file>.d`, by file name.
    #[must_use]
    pub fn drop_ins(mut self) -> Self {
        self.drop_ins = true;
        self
    }

    /// A document that is at hand already, called `name` in messages. Documents lie over the
    /// files and under the environment, in the order given.
    #[must_use]
    pub fn document(mut self, name: &str, format: Format, bytes: impl Into<Vec<u8>>) -> Self {
        self.documents.push((name.to_owned(), format, bytes.into()));
        self
    }

    /// This process's environment variables `<prefix>__SECTION__KEY`.
    #[must_use]
    pub fn env_prefix(self, prefix: &str) -> Self {
        self.env_from(prefix, std::env::vars_os())
    }

    /// The same from given variables.
    #[must_use]
    pub fn env_from(
        mut self,
        prefix: &str,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Self {
        let start = format!("{prefix}__");
        let ours = |name: &OsString| name.as_encoded_bytes().starts_with(start.as_bytes());
        let variables = variables
            .into_iter()
            .filter(|(name, _)| ours(name))
            .collect();
        self.environment = Some((start, variables));
        self
    }

    /// Flags `key.path=value`, later ones over earlier ones.
    #[must_use]
    pub fn set<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.flags.extend(flags.into_iter().map(Into::into));
        self
    }

    /// Other limits than the default ones.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads all layers and the raw structure.
    ///
    /// # Errors
    /// A file that cannot be read, or everything that is wrong with what was read.
    pub fn load(self) -> Result<Loaded<Raw>, ConfigError> {
        let (tree, mut problems) = self.gather()?;
        if problems.is_empty() {
            match de::read(&tree) {
                Ok(de::Read { value, settings }) => {
                    return Ok(Loaded {
                        program: self.program,
                        raw: value,
                        settings,
                    });
                }
                Err(found) => problems = found,
            }
        }
        Err(ConfigError::Invalid {
            program: self.program,
            problems,
        })
    }

    /// All layers merged, and what is wrong with their syntax.
    fn gather(&self) -> Result<(Node, Vec<Problem>), ConfigError> {
        let mut documents: Vec<(Arc<Source>, Option<Format>, Vec<u8>)> = Vec::new();
        let mut problems = Vec::new();
        if let Some((file, format)) = &self.file {
            let (MainFile::Required(path) | MainFile::Optional(path)) = file;
            let optional = matches!(file, MainFile::Optional(_));
            if let Some(bytes) = self.read_file(path, optional)? {
                let source = Arc::new(Source::File(path.clone()));
                documents.push((source, format.or_else(|| Format::of(path)), bytes));
            }
            for path in self.list_drop_ins(path, &mut problems)? {
                let bytes = self.read_file(&path, false)?.unwrap_or_default();
                let format = Format::of(&path);
                documents.push((Arc::new(Source::File(path)), format, bytes));
            }
        }
        for (name, format, bytes) in &self.documents {
            let source = Arc::new(Source::File(PathBuf::from(name)));
            documents.push((source, Some(*format), bytes.clone()));
        }

        let program = Arc::new(Source::Program(self.program.clone()));
        let mut tree: Option<Node> = None;
        let mut lay = |layer: Node| {
            tree = Some(match tree.take() {
                Some(lower) => merge(lower, layer),
                None => layer,
            });
        };
        for (source, format, bytes) in documents {
            let parsed = format.map_or_else(
                || Err(vec![unknown_format(&source)]),
                |format| parse(&source, format, &bytes, &self.limits),
            );
            match parsed {
                Ok(layer) => lay(layer),
                Err(found) => problems.extend(found),
            }
        }
        let bottom = Node {
            value: Value::Table(Table::default()),
            origin: Origin::whole(&program),
        };
        let mut tree = tree.unwrap_or(bottom);
        if let Some((start, variables)) = &self.environment {
            match overlay::from_environment(start, variables, &self.limits) {
                Ok(layer) => tree = merge(tree, layer),
                Err(found) => problems.extend(found),
            }
        }
        let (tree, found) = overlay::lay_flags(tree, &self.flags, &self.limits);
        problems.extend(found);
        Ok((tree, problems))
    }

    fn read_file(&self, path: &Path, optional: bool) -> Result<Option<Vec<u8>>, ConfigError> {
        match read_bounded(path, self.limits.file_bytes) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if optional && error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ConfigError::ReadFile {
                path: path.to_owned(),
                source,
            }),
        }
    }

    fn list_drop_ins(
        &self,
        main: &Path,
        problems: &mut Vec<Problem>,
    ) -> Result<Vec<PathBuf>, ConfigError> {
        if !self.drop_ins {
            return Ok(Vec::new());
        }
        let mut folder = main.as_os_str().to_owned();
        folder.push(".d");
        let folder = PathBuf::from(folder);
        let failed = |source| ConfigError::ListDropIns {
            path: folder.clone(),
            source,
        };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed(source)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let hidden = path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
            if hidden || Format::of(&path).is_none() {
                continue;
            }
            if paths.len() == self.limits.drop_ins {
                let message = format!(
                    "holds more than {} files, the most that is read",
                    self.limits.drop_ins
                );
                let origin = Origin::whole(&Arc::new(Source::File(folder)));
                problems.push(Problem {
                    origin,
                    key: String::new(),
                    message,
                });
                return Ok(Vec::new());
            }
            paths.push(path);
        }
        paths.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
        Ok(paths)
    }
}

fn unknown_format(source: &Arc<Source>) -> Problem {
    Problem {
        origin: Origin::whole(source),
        key: String::new(),
        message: "the extension says no format (use .json, .cfg, .toml, .yaml or .yml)".to_owned(),
    }
}

/// Reads one byte more than the limit, so that the parser can refuse what is too large.
fn read_bounded(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    // Opening a FIFO would wait for its writer for ever.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A raw configuration and where each of its keys came from.
#[derive(Debug)]
pub struct Loaded<Raw> {
    program: String,
    raw: Raw,
    settings: BTreeMap<String, Setting>,
}

impl<Raw> Loaded<Raw> {
    /// The raw structure.
    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    /// Gives up where keys came from.
    pub fn into_raw(self) -> Raw {
        self.raw
    }

    /// Every key that some layer has set, by key path. A key that is not listed has its default.
    pub fn explain(&self) -> impl Iterator<Item = &Setting> {
        self.settings.values()
    }
}

impl<Raw: Validate> Loaded<Raw> {
    /// Turns the raw structure into its valid form.
    ///
    /// # Errors
    /// Everything that validation reported.
    pub fn validate(self) -> Result<Raw::Valid, ConfigError> {
        let mut problems = Problems::new(&self.program, &self.settings);
        let valid = self.raw.validate(&mut problems);
        let mut found = problems.into_found();
        match valid {
            Some(valid) if found.is_empty() => Ok(valid),
            _ => {
                if found.is_empty() {
                    found.push(Problem {
                        origin: Origin::whole(&Arc::new(Source::Program(self.program.clone()))),
                        key: String::new(),
                        message: "was refused without a reason".to_owned(),
                    });
                }
                Err(ConfigError::Invalid {
                    program: self.program,
                    problems: found,
                })
            }
        }
    }
}
