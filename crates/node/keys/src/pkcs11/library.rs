//! PKCS#11 libraries, which are loaded and initialised once in a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};

use super::TokenError;
use super::token::{Token, TokenSpec};

/// By path. PKCS#11 itself is process-wide: two owners who initialise and finalise one library would
/// take each other's sessions away. Nothing is ever unloaded.
static LIBRARIES: Mutex<BTreeMap<PathBuf, Arc<Library>>> = Mutex::new(BTreeMap::new());

/// A loaded library.
#[derive(Debug)]
pub(super) struct Library {
    path: PathBuf,
    context: Pkcs11,
    /// The process that initialised it last: one made by `fork` has to do so itself.
    process: Mutex<u32>,
    /// Tokens in use, so that everybody who uses one shares its sessions.
    tokens: Mutex<Vec<Weak<Token>>>,
}

impl Library {
    /// Loads a library, unless it is.
    pub(super) fn load(path: &Path) -> Result<Arc<Self>, TokenError> {
        let mut libraries = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = libraries.get(path) {
            return Ok(Arc::clone(library));
        }
        let failed = |source| TokenError::Library {
            library: path.to_owned(),
            source,
        };
        let context = Pkcs11::new(path).map_err(failed)?;
        initialise(&context).map_err(failed)?;
        let library = Arc::new(Self {
            path: path.to_owned(),
            context,
            process: Mutex::new(std::process::id()),
            tokens: Mutex::default(),
        });
        libraries.insert(path.to_owned(), Arc::clone(&library));
        Ok(library)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The library's functions, initialised for this process.
    pub(super) fn context(&self) -> Result<&Pkcs11, TokenError> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        if *process != std::process::id() {
            initialise(&self.context).map_err(|source| TokenError::Library {
                library: self.path.clone(),
                source,
            })?;
            *process = std::process::id();
        }
        Ok(&self.context)
    }

    /// The token of this description, shared with everybody who described it the same way.
    pub(super) fn token(self: &Arc<Self>, spec: TokenSpec) -> Arc<Token> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|token| token.strong_count() > 0);
        let mut known = tokens.iter().filter_map(Weak::upgrade);
        if let Some(token) = known.find(|token| *token.spec() == spec) {
            return token;
        }
        let token = Arc::new(Token::new(Arc::clone(self), spec));
        tokens.push(Arc::downgrade(&token));
        token
    }
}

fn initialise(context: &Pkcs11) -> Result<(), Error> {
    let args = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
    match context.initialize(args) {
        // Somebody else in this process uses it, or the parent did before the fork.
        Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => Ok(()),
        other => other,
    }
}
