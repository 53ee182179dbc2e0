//! PKCS#11 libraries, which are loaded and initialised once in a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use tracing::debug;

use super::TokenError;
use super::token::{Token, TokenSpec};

/// Tokens whose sessions are kept while nobody uses them, per library.
const MAX_TOKENS: usize = 16;
/// Time between two looks for new tokens, since each costs everybody the sessions.
const RESCAN_PAUSE: Duration = Duration::from_secs(1);

/// By path. PKCS#11 itself is process-wide: two owners who initialise and finalise one library would
/// take each other's sessions away. Nothing is ever unloaded.
static LIBRARIES: Mutex<BTreeMap<PathBuf, Arc<Library>>> = Mutex::new(BTreeMap::new());

/// A loaded library.
#[derive(Debug)]
pub(super) struct Library {
    path: PathBuf,
    context: Pkcs11,
    /// Read while the library is used, written while it is initialised anew: it must not be in use then.
    life: RwLock<Life>,
    /// Everybody who uses a token shares its sessions, and what is known about its PIN.
    tokens: Mutex<Vec<Arc<Token>>>,
}

/// One time from initialisation to the next. Sessions do not outlive it.
#[derive(Debug)]
struct Life {
    number: u64,
    since: Instant,
    /// A process made by `fork` has to initialise the library itself.
    process: u32,
}

/// A library that is in use.
pub(super) struct Entered<'a> {
    context: &'a Pkcs11,
    life: RwLockReadGuard<'a, Life>,
}

impl Entered<'_> {
    pub(super) fn context(&self) -> &Pkcs11 {
        self.context
    }

    /// Sessions of another number are gone, and their handles may be somebody else's.
    pub(super) fn life(&self) -> u64 {
        self.life.number
    }
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
        let life = Life {
            number: 0,
            since: Instant::now(),
            process: std::process::id(),
        };
        let library = Arc::new(Self {
            path: path.to_owned(),
            context,
            life: RwLock::new(life),
            tokens: Mutex::default(),
        });
        libraries.insert(path.to_owned(), Arc::clone(&library));
        Ok(library)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the library into use. Not to be called by who has it in use already.
    pub(super) fn enter(&self) -> Result<Entered<'_>, TokenError> {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        if life.process == std::process::id() {
            let context = &self.context;
            return Ok(Entered { context, life });
        }
        drop(life);
        self.start_life(|life| life.process != std::process::id())?;
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        let context = &self.context;
        Ok(Entered { context, life })
    }

    /// Has the library look for tokens that came since it was initialised: some look only then. Says
    /// whether it did; it does not so soon after the last time.
    pub(super) fn rescan(&self) -> Result<bool, TokenError> {
        self.start_life(|life| life.since.elapsed() >= RESCAN_PAUSE)
    }

    fn start_life(&self, due: impl Fn(&Life) -> bool) -> Result<bool, TokenError> {
        let mut life = self.life.write().unwrap_or_else(PoisonError::into_inner);
        if !due(&life) {
            return Ok(false);
        }
        // In a forked process there may be nothing to finalise.
        if let Err(error) = self.context.clone().finalize() {
            debug!(
                library = %self.path.display(),
                error = &error as &dyn std::error::Error,
                "a PKCS#11 library was not finalised"
            );
        }
        life.number += 1;
        life.since = Instant::now();
        life.process = std::process::id();
        match initialise(&self.context) {
            Ok(()) => Ok(true),
            Err(source) => Err(TokenError::Library {
                library: self.path.clone(),
                source,
            }),
        }
    }

    /// The token of this description, shared with everybody who described it the same way.
    pub(super) fn token(self: &Arc<Self>, spec: TokenSpec) -> Arc<Token> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = tokens.iter().find(|token| *token.spec() == spec) {
            return Arc::clone(token);
        }
        if tokens.len() >= MAX_TOKENS {
            tokens.retain(|token| Arc::strong_count(token) > 1);
        }
        let token = Arc::new(Token::new(Arc::clone(self), spec));
        tokens.push(Arc::clone(&token));
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
