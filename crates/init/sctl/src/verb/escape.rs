//! `escape`: texts and paths as parts of unit names.

use muster_unit_file::name::{
    EscapeError, UnitName, UnitNameError, UnitType, escape as escape_text, escape_path, unescape,
    unescape_path,
};
use thiserror::Error;

use super::VerbError;
use crate::cli::Escape;
use crate::console::{Console, Exit};

/// Why a text cannot be escaped or unescaped.
#[derive(Debug, Error)]
pub(crate) enum EscapeVerbError {
    /// Options that exclude each other.
    #[error("{0}")]
    Options(&'static str),
    /// `--suffix=`
    #[error("Invalid unit suffix type \"{text}\".")]
    Suffix {
        /// What was given.
        text: String,
    },
    /// `--template=`
    #[error("Template name {text} is not valid.")]
    Template {
        /// What was given.
        text: String,
    },
    /// A path cannot be escaped.
    #[error("Input '{text}' is not an absolute file system path, failed to escape")]
    Path {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: EscapeError,
    },
    /// A text cannot be unescaped.
    #[error("Failed to unescape string")]
    Unescape {
        /// What is wrong with it.
        #[source]
        source: EscapeError,
    },
    /// The name that would come out is none.
    #[error("Failed to make a unit name of '{text}'")]
    Name {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: UnitNameError,
    },
    /// A unit name was to be taken apart.
    #[error("Failed to extract instance")]
    NotAName {
        /// What is wrong with it.
        #[source]
        source: UnitNameError,
    },
    /// There is nothing after the `@`.
    #[error("Unit {name} is missing the instance name.")]
    NoInstance {
        /// Which.
        name: UnitName,
    },
    /// The instance is of something else.
    #[error("Unit {name} template {found} does not match specified template {expected}.")]
    OtherTemplate {
        /// Which.
        name: UnitName,
        /// What it is of.
        found: UnitName,
        /// What was given.
        expected: UnitName,
    },
}

/// What is done with every text.
enum Work {
    Escape {
        path: bool,
        template: Option<UnitName>,
        suffix: Option<UnitType>,
    },
    Unescape {
        path: bool,
        /// Take the instance, of this template if there is one.
        instance_of: Option<Option<UnitName>>,
    },
    Mangle,
}

impl Work {
    fn new(arguments: &Escape) -> Result<Self, EscapeVerbError> {
        let refuse = |text| Err(EscapeVerbError::Options(text));
        let (template, suffix) = (&arguments.template, &arguments.suffix);
        if template.is_some() && suffix.is_some() {
            return refuse("--suffix= and --template= may not be combined.");
        }
        if (template.is_some() || suffix.is_some()) && arguments.mangle {
            return refuse("--suffix= and --template= are not compatible with --mangle.");
        }
        if suffix.is_some() && arguments.unescape {
            return refuse("--suffix is not compatible with --unescape.");
        }
        if arguments.path && arguments.mangle {
            return refuse("--path may not be combined with --mangle.");
        }
        if arguments.instance && !arguments.unescape {
            return refuse("--instance must be used in conjunction with --unescape.");
        }
        if arguments.instance && template.is_some() {
            return refuse("--instance may not be combined with --template.");
        }
        let suffix = match suffix {
            None => None,
            Some(text) => Some(
                UnitType::from_suffix(text)
                    .ok_or_else(|| EscapeVerbError::Suffix { text: text.clone() })?,
            ),
        };
        let template = match template {
            None => None,
            Some(text) => Some(
                UnitName::new(text)
                    .ok()
                    .filter(UnitName::is_template)
                    .ok_or_else(|| EscapeVerbError::Template { text: text.clone() })?,
            ),
        };
        Ok(if arguments.mangle {
            Self::Mangle
        } else if arguments.unescape {
            Self::Unescape {
                path: arguments.path,
                instance_of: (arguments.instance || template.is_some()).then_some(template),
            }
        } else {
            Self::Escape {
                path: arguments.path,
                template,
                suffix,
            }
        })
    }

    fn apply(&self, text: &str, console: &mut Console) -> Result<String, EscapeVerbError> {
        let name_error = |source| EscapeVerbError::Name {
            text: text.to_owned(),
            source,
        };
        match self {
            Self::Mangle => UnitName::mangle(text, UnitType::Service)
                .map(|name| name.to_string())
                .map_err(name_error),
            Self::Escape {
                path,
                template,
                suffix,
            } => {
                let escaped = if *path {
                    escape_any_path(text, console)?
                } else {
                    escape_text(text)
                };
                match (template, suffix) {
                    (Some(template), _) => template
                        .with_instance(&escaped)
                        .map(|name| name.to_string())
                        .map_err(name_error),
                    (None, Some(suffix)) => Ok(format!("{escaped}.{suffix}")),
                    (None, None) => Ok(escaped),
                }
            }
            Self::Unescape { path, instance_of } => {
                let escaped = match instance_of {
                    None => text.to_owned(),
                    Some(template) => instance(text, template.as_ref())?,
                };
                let unescaped = if *path {
                    unescape_path(&escaped)
                } else {
                    unescape(&escaped)
                };
                unescaped.map_err(|source| EscapeVerbError::Unescape { source })
            }
        }
    }
}

/// Relative paths are taken as well, with a warning.
fn escape_any_path(text: &str, console: &mut Console) -> Result<String, EscapeVerbError> {
    let escaped = escape_path(&format!("/{text}")).map_err(|source| EscapeVerbError::Path {
        text: text.to_owned(),
        source,
    })?;
    if !text.starts_with('/') {
        console.note(format_args!(
            "Input '{text}' is not an absolute file system path, escaping is likely not going to be reversible."
        ));
    }
    Ok(escaped)
}

/// The instance in a unit's name.
fn instance(text: &str, template: Option<&UnitName>) -> Result<String, EscapeVerbError> {
    let name = UnitName::new(text).map_err(|source| EscapeVerbError::NotAName { source })?;
    let instance = name.instance().filter(|instance| !instance.is_empty());
    let (Some(instance), Some(found)) = (instance, name.template()) else {
        return Err(EscapeVerbError::NoInstance { name });
    };
    match template {
        Some(expected) if *expected != found => Err(EscapeVerbError::OtherTemplate {
            expected: expected.clone(),
            found,
            name,
        }),
        _ => Ok(instance.to_owned()),
    }
}

pub(super) fn escape(arguments: &Escape, console: &mut Console) -> Result<Exit, VerbError> {
    let work = Work::new(arguments)?;
    for (n, text) in arguments.texts.iter().enumerate() {
        let done = work.apply(text, console)?;
        console.print(if n > 0 { " " } else { "" })?;
        console.print(&done)?;
    }
    console.line("")?;
    Ok(Exit::Success)
}
