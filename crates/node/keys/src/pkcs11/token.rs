//! One token: which one it is, and its sessions.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cryptoki::error::{Error, RvError};
use cryptoki::session::{Session, SessionState, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use tracing::debug;

use super::TokenError;
use super::library::{Entered, Library};
use super::pin::{Pin, PinOrigin};
use crate::config::{TokenConfig, TokenPlace};
use crate::url::Pkcs11Uri;

/// Most sessions at a time. Signing is the token's work: more sessions than it has processors gain
/// nothing, and small tokens have few.
const MAX_SESSIONS: usize = 4;
/// How long a caller waits for a session.
const SESSION_WAIT: Duration = Duration::from_secs(30);

/// Which token is meant, and how it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TokenSpec {
    pub(super) label: Option<String>,
    pub(super) place: TokenPlace,
    manufacturer: Option<String>,
    model: Option<String>,
    pub(super) pin: PinOrigin,
}

impl TokenSpec {
    pub(super) fn of_config(config: &TokenConfig) -> Self {
        Self {
            label: Some(config.label.clone()),
            place: config.place.clone(),
            pin: PinOrigin::File(config.pin_file.clone()),
            ..Self::default()
        }
    }

    pub(super) fn of_uri(uri: &Pkcs11Uri) -> Self {
        Self {
            label: uri.token.clone(),
            place: match (&uri.serial, uri.slot_id) {
                (Some(serial), _) => TokenPlace::Serial(serial.clone()),
                (None, Some(id)) => TokenPlace::SlotId(id),
                (None, None) => TokenPlace::AnySlot,
            },
            manufacturer: uri.manufacturer.clone(),
            model: uri.model.clone(),
            pin: PinOrigin::new(uri.pin.as_ref()),
        }
    }

    fn is_label(&self, info: &TokenInfo) -> bool {
        let same = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        same(&self.label, info.label())
            && same(&self.manufacturer, info.manufacturer_id())
            && same(&self.model, info.model())
    }

    fn is_place(&self, index: usize, slot: Slot, info: &TokenInfo) -> bool {
        match &self.place {
            TokenPlace::AnySlot => true,
            TokenPlace::Serial(serial) => info.serial_number() == serial,
            TokenPlace::SlotId(id) => slot.id() == *id,
            TokenPlace::SlotIndex(wanted) => index == *wanted,
        }
    }
}

/// The token in words, for errors.
impl fmt::Display for TokenSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "token {label:?}")?,
            None => f.write_str("token")?,
        }
        match &self.place {
            TokenPlace::AnySlot => Ok(()),
            TokenPlace::Serial(serial) => write!(f, " with serial number {serial:?}"),
            TokenPlace::SlotId(id) => write!(f, " in slot {id}"),
            TokenPlace::SlotIndex(index) => write!(f, " in slot number {index}"),
        }
    }
}

/// A token that is in use.
#[derive(Debug)]
pub(super) struct Token {
    library: Arc<Library>,
    spec: TokenSpec,
    pool: Mutex<Pool>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<Session>,
    /// Sessions that are handed out.
    out: usize,
    /// Counts the times that all sessions were given up; one of an older generation is not kept.
    generation: u64,
    /// The library's life that the sessions belong to.
    life: u64,
    refused: Option<Pin>,
}

/// A session that is handed out.
struct Lease<'a> {
    token: &'a Token,
    library: &'a Entered<'a>,
    session: Option<Session>,
    generation: u64,
}

impl Token {
    pub(super) fn new(library: Arc<Library>, spec: TokenSpec) -> Self {
        Self {
            library,
            spec,
            pool: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    pub(super) fn spec(&self) -> &TokenSpec {
        &self.spec
    }

    pub(super) fn library(&self) -> &Library {
        &self.library
    }

    /// The token in words.
    pub(super) fn name(&self) -> String {
        self.spec.to_string()
    }

    /// Runs something with a session that is logged in. When the token turns out to have been away,
    /// it is run once more with a new session, so it must bear being repeated.
    ///
    /// `doing` and `object` are for the error.
    pub(super) fn with<T>(
        &self,
        doing: &'static str,
        object: &dyn fmt::Display,
        work: impl Fn(&Session) -> Result<T, Error>,
    ) -> Result<T, TokenError> {
        let mut first = true;
        loop {
            let failed = match self.attempt(doing, object, &work) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let again = first
                && match failed {
                    TokenError::NoToken { .. } => self.library.rescan()?,
                    _ => is_stale(&failed),
                };
            if !again {
                return Err(failed);
            }
            debug!(token = %self.spec, "the sessions of a token are no longer good, trying new ones");
            self.give_up_sessions();
            first = false;
        }
    }

    fn attempt<T>(
        &self,
        doing: &'static str,
        object: &dyn fmt::Display,
        work: impl Fn(&Session) -> Result<T, Error>,
    ) -> Result<T, TokenError> {
        let library = self.library.enter()?;
        let lease = self.lease(&library)?;
        work(lease.session()).map_err(|source| TokenError::Operation {
            token: self.name(),
            doing,
            object: object.to_string(),
            source,
        })
    }

    /// The token's slot; none when the token is not there.
    pub(super) fn find_slot(
        &self,
        library: &Entered<'_>,
    ) -> Result<Option<(Slot, TokenInfo)>, TokenError> {
        let mut found = self.slots(library, |index, slot, info| {
            info.token_initialized()
                && self.spec.is_label(info)
                && self.spec.is_place(index, slot, info)
        })?;
        match found.len() {
            0 | 1 => Ok(found.pop()),
            found => Err(TokenError::Ambiguous {
                token: self.name(),
                found,
            }),
        }
    }

    /// A slot in which the token can be made.
    pub(super) fn find_free_slot(
        &self,
        library: &Entered<'_>,
    ) -> Result<Option<(Slot, TokenInfo)>, TokenError> {
        let found = self.slots(library, |index, slot, info| {
            !info.token_initialized() && self.spec.is_place(index, slot, info)
        })?;
        Ok(found.into_iter().next())
    }

    fn slots(
        &self,
        library: &Entered<'_>,
        wanted: impl Fn(usize, Slot, &TokenInfo) -> bool,
    ) -> Result<Vec<(Slot, TokenInfo)>, TokenError> {
        let context = library.context();
        let slots = context
            .get_all_slots()
            .map_err(|source| TokenError::Slots {
                library: self.library.path().to_owned(),
                source,
            })?;
        let mut found = Vec::new();
        for (index, slot) in slots.into_iter().enumerate() {
            // A slot without a token, or with one that was just pulled out, is not the one.
            if let Ok(info) = context.get_token_info(slot)
                && wanted(index, slot, &info)
            {
                found.push((slot, info));
            }
        }
        Ok(found)
    }

    /// Closes all sessions, also those that are still in use once they come back.
    pub(super) fn give_up_sessions(&self) {
        let Ok(library) = self.library.enter() else {
            return;
        };
        let mut pool = self.lock(&library);
        pool.generation += 1;
        for session in pool.idle.drain(..) {
            close(session);
        }
    }

    /// Lets a PIN be tried that was refused before.
    pub(super) fn forget_refused_pin(&self) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.refused = None;
    }

    fn lease<'a>(&'a self, library: &'a Entered<'a>) -> Result<Lease<'a>, TokenError> {
        let busy = |pool: &mut Pool| pool.idle.is_empty() && pool.out >= MAX_SESSIONS;
        let (mut pool, timeout) = self
            .returned
            .wait_timeout_while(self.lock(library), SESSION_WAIT, busy)
            .unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return Err(TokenError::Busy { token: self.name() });
        }
        let mut lease = Lease {
            token: self,
            library,
            session: pool.idle.pop(),
            generation: pool.generation,
        };
        pool.out += 1;
        drop(pool);
        let session = match lease.session.take() {
            Some(session) => session,
            None => self.open(library)?,
        };
        // Held by the lease from here on, so that it goes back to the pool also when the login fails.
        self.log_in(library, lease.session.insert(session))?;
        Ok(lease)
    }

    fn open(&self, library: &Entered<'_>) -> Result<Session, TokenError> {
        let Some((slot, _)) = self.find_slot(library)? else {
            return Err(TokenError::NoToken { token: self.name() });
        };
        // Closed by hand: the handle of a session from an earlier life may be another session's now.
        let session = library.context().open_rw_session_no_drop(slot);
        session.map_err(|source| TokenError::Operation {
            token: self.name(),
            doing: "open",
            object: "a session".to_owned(),
            source,
        })
    }

    fn log_in(&self, library: &Entered<'_>, session: &Session) -> Result<(), TokenError> {
        let failed = |source| TokenError::Login {
            token: self.name(),
            source,
        };
        let info = session.get_session_info().map_err(failed)?;
        if matches!(
            info.session_state(),
            SessionState::RwUser | SessionState::RoUser
        ) {
            return Ok(());
        }
        let pin = self.spec.pin.pin(&self.name())?;
        // Held while logging in: of two callers with a bad PIN only one costs the token a try.
        let mut pool = self.lock(library);
        if pool.refused.as_ref() == Some(&pin) {
            return Err(TokenError::PinRefusedBefore { token: self.name() });
        }
        match session.login(UserType::User, Some(&pin.to_auth())) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
            Err(source) => {
                if let Error::Pkcs11(RvError::PinIncorrect | RvError::PinInvalid, _) = source {
                    pool.refused = Some(pin);
                }
                Err(failed(source))
            }
        }
    }

    fn lock(&self, library: &Entered<'_>) -> MutexGuard<'_, Pool> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.life != library.life() {
            // They ended with the library's last life. Forgotten, not closed.
            pool.life = library.life();
            pool.idle.clear();
            pool.out = 0;
            pool.generation += 1;
        }
        pool
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.give_up_sessions();
    }
}

impl Lease<'_> {
    fn session(&self) -> &Session {
        self.session
            .as_ref()
            .expect("a lease that was handed out has its session")
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut pool = self.token.lock(self.library);
        pool.out = pool.out.saturating_sub(1);
        match self.session.take() {
            Some(session) if pool.generation == self.generation => pool.idle.push(session),
            Some(session) => close(session),
            None => {}
        }
        drop(pool);
        self.token.returned.notify_one();
    }
}

fn close(session: Session) {
    if let Err(error) = session.close() {
        debug!(
            error = &error as &dyn std::error::Error,
            "a session of a token was already closed"
        );
    }
}

/// Whether an error means that the session, and not what was done with it, is at fault.
fn is_stale(error: &TokenError) -> bool {
    let (TokenError::Operation { source, .. } | TokenError::Login { source, .. }) = error else {
        return false;
    };
    let Error::Pkcs11(code, _) = source else {
        return false;
    };
    matches!(
        code,
        RvError::SessionHandleInvalid
            | RvError::SessionClosed
            | RvError::DeviceRemoved
            | RvError::DeviceError
            | RvError::TokenNotPresent
            | RvError::TokenNotRecognized
            | RvError::UserNotLoggedIn
            | RvError::UserAnotherAlreadyLoggedIn
            | RvError::ObjectHandleInvalid
            | RvError::KeyHandleInvalid
            | RvError::OperationActive
            | RvError::SlotIdInvalid
    )
}
