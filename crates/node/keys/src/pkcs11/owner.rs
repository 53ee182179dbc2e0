//! Making a token, and taking one over.
//!
//! Nothing here destroys what a token holds: a token that exists gets a new user PIN at most.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use cryptoki::error::{Error, RvError};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use tracing::{info, warn};

use super::TokenError;
use super::library::Entered;
use super::pin::Pin;
use super::token::Token;
use crate::config::TokenConfig;
use crate::faults::{PIN_RECORDED, TOKEN_MADE, TOKEN_OWNED};

/// One at a time: types share tokens, and two who both find none would make two.
static TAKING: Mutex<()> = Mutex::new(());

/// Makes sure that the token exists and that the PIN in the PIN file opens it.
///
/// ```text
/// PIN file written -> token initialised -> user PIN set -> logged in
/// ```
///
/// Each step is skipped when it is done already, so this goes on where a process died.
pub(super) fn take(token: &Token, config: &TokenConfig, password: &str) -> Result<(), TokenError> {
    let _turn = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
    token.forget_refused_pin();
    let found = token.find_slot(&token.library().enter()?)?;
    let found = match found {
        // It may have come since the library was loaded; a second one of its name would be no good.
        None if token.library().rescan()? => token.find_slot(&token.library().enter()?)?,
        found => found,
    };
    let (slot, info) = match found {
        Some((slot, info)) => {
            if info.user_pin_initialized() && opens(token, slot)? {
                return Ok(());
            }
            warn!(token = %token.spec(), "the PIN file does not open the token, its PIN is set anew");
            (slot, info)
        }
        None => make(token, config, password)?,
    };
    let pin = user_pin(config, &info)?;
    set_user_pin(
        token,
        slot,
        &administrator_pin(config, &info, password)?,
        &pin,
    )?;
    muster_fault::hit(TOKEN_OWNED);
    token.give_up_sessions();
    token.forget_refused_pin();
    token.with("be opened with", &"its new PIN", |_| Ok(()))?;
    info!(token = %token.spec(), pin_file = %config.pin_file.display(), "the token has an owner");
    Ok(())
}

fn make(
    token: &Token,
    config: &TokenConfig,
    password: &str,
) -> Result<(Slot, TokenInfo), TokenError> {
    let library = token.library().enter()?;
    let Some((slot, info)) = token.find_free_slot(&library)? else {
        let token = token.name();
        return Err(TokenError::NoFreeSlot { token });
    };
    user_pin(config, &info)?;
    let administrator = administrator_pin(config, &info, password)?;
    muster_fault::hit(PIN_RECORDED);
    library
        .context()
        .init_token(slot, &administrator.to_auth(), &config.label)
        .map_err(|source| failed(token, "be initialised in", "its slot", source))?;
    muster_fault::hit(TOKEN_MADE);
    // A library may give the new token another slot.
    token
        .find_slot(&library)?
        .ok_or_else(|| TokenError::NoToken {
            token: token.name(),
        })
}

/// Whether the PIN in the file opens the token. A missing or refused PIN is an answer, not an error.
fn opens(token: &Token, slot: Slot) -> Result<bool, TokenError> {
    // Who is logged in already would not notice that the PIN is no longer good.
    log_out(
        token,
        &public_session(token, &token.library().enter()?, slot)?,
    )?;
    match token.with("be opened with", &"its PIN", |_| Ok(())) {
        Ok(()) => Ok(true),
        Err(TokenError::PinFile { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Ok(false)
        }
        Err(TokenError::Login {
            source:
                Error::Pkcs11(RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLocked, _),
            ..
        }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The PIN in the PIN file, which is written if there is none. An operator may have put one there.
fn user_pin(config: &TokenConfig, info: &TokenInfo) -> Result<Pin, TokenError> {
    recorded_pin(&config.pin_file, config.pin_owner, info)
}

/// The administrator's PIN: the password, or else one that was made up and is kept beside the PIN file.
fn administrator_pin(
    config: &TokenConfig,
    info: &TokenInfo,
    password: &str,
) -> Result<Pin, TokenError> {
    if !password.is_empty() {
        return Ok(Pin::new(password));
    }
    let mut path = config.pin_file.clone().into_os_string();
    path.push(".so");
    recorded_pin(&PathBuf::from(path), (None, None), info)
}

fn recorded_pin(
    path: &std::path::Path,
    owner: (Option<u32>, Option<u32>),
    info: &TokenInfo,
) -> Result<Pin, TokenError> {
    if let Some(pin) = Pin::read(path)? {
        return Ok(pin);
    }
    let pin = Pin::random(info.max_pin_length())?;
    pin.write(path, owner)?;
    Ok(pin)
}

fn set_user_pin(
    token: &Token,
    slot: Slot,
    administrator: &Pin,
    pin: &Pin,
) -> Result<(), TokenError> {
    let library = token.library().enter()?;
    let session = public_session(token, &library, slot)?;
    log_out(token, &session)?;
    session
        .login(UserType::So, Some(&administrator.to_auth()))
        .map_err(|source| TokenError::Administer {
            token: token.name(),
            source,
        })?;
    let set = session.init_pin(&pin.to_auth());
    // Closing the last session logs out, but others may have some open.
    let left = session.logout();
    set.and(left)
        .map_err(|source| failed(token, "set", "the user PIN", source))
}

/// A session outside the pool, closed when it is dropped.
fn public_session(token: &Token, library: &Entered<'_>, slot: Slot) -> Result<Session, TokenError> {
    let session = library.context().open_rw_session(slot);
    session.map_err(|source| failed(token, "open", "a session", source))
}

/// Login is a matter of the whole process: a user who is logged in keeps the administrator out. Sessions
/// of others notice and log in again.
fn log_out(token: &Token, session: &Session) -> Result<(), TokenError> {
    match session.logout() {
        Ok(()) | Err(Error::Pkcs11(RvError::UserNotLoggedIn, _)) => Ok(()),
        Err(source) => Err(failed(token, "log out", "its user", source)),
    }
}

fn failed(token: &Token, doing: &'static str, object: &str, source: Error) -> TokenError {
    TokenError::Operation {
        token: token.name(),
        doing,
        object: object.to_owned(),
        source,
    }
}
