//! `libpam`, loaded at run time: a machine without it needs no other build.

#![expect(unsafe_code, reason = "a C library is loaded and called")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr::NonNull;

const SUCCESS: c_int = 0;
const CONVERSATION_ERROR: c_int = 19;
const TERMINAL: c_int = 3;
const ESTABLISH: c_int = 2;
const DELETE: c_int = 4;
/// Nobody reads what a module would like to say.
const SILENT: c_int = 0x8000;

type Start = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const Conversation,
    *mut *mut c_void,
) -> c_int;
type WithNumber = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type SetItem = unsafe extern "C" fn(*mut c_void, c_int, *const c_void) -> c_int;
type PutEnv = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;
type EnvList = unsafe extern "C" fn(*mut c_void) -> *mut *mut c_char;
type Explain = unsafe extern "C" fn(*mut c_void, c_int) -> *const c_char;

/// The library's structure of how a module asks.
#[repr(C)]
struct Conversation {
    ask: unsafe extern "C" fn(c_int, *mut *const c_void, *mut *mut c_void, *mut c_void) -> c_int,
    data: *mut c_void,
}

/// Nobody is there to answer.
unsafe extern "C" fn no_answer(
    _count: c_int,
    _questions: *mut *const c_void,
    _answers: *mut *mut c_void,
    _data: *mut c_void,
) -> c_int {
    CONVERSATION_ERROR
}

/// What the library says when it refuses.
#[derive(Debug)]
pub(super) struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The functions of the library.
#[derive(Clone, Copy)]
pub(super) struct Library {
    start: Start,
    end: WithNumber,
    set_item: SetItem,
    put_env: PutEnv,
    env_list: EnvList,
    check_account: WithNumber,
    set_credentials: WithNumber,
    open_session: WithNumber,
    close_session: WithNumber,
    explain: Explain,
}

impl Library {
    /// Loads it, for as long as the process runs.
    pub(super) fn load() -> Option<Self> {
        // SAFETY: the name of a library whose start-up code is that of the system's own.
        let library = unsafe { libc::dlopen(c"libpam.so.0".as_ptr(), libc::RTLD_NOW) };
        let library = NonNull::new(library)?;
        let find = |name: &CStr| {
            // SAFETY: a library that was just loaded, and a text that ends in zero.
            NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
        };
        macro_rules! function {
            ($name:literal, $kind:ty) => {{
                let address = find($name)?;
                // SAFETY: the library's interface says that the function of this name is of this type.
                unsafe { std::mem::transmute::<*mut c_void, $kind>(address.as_ptr()) }
            }};
        }
        Some(Self {
            start: function!(c"pam_start", Start),
            end: function!(c"pam_end", WithNumber),
            set_item: function!(c"pam_set_item", SetItem),
            put_env: function!(c"pam_putenv", PutEnv),
            env_list: function!(c"pam_getenvlist", EnvList),
            check_account: function!(c"pam_acct_mgmt", WithNumber),
            set_credentials: function!(c"pam_setcred", WithNumber),
            open_session: function!(c"pam_open_session", WithNumber),
            close_session: function!(c"pam_close_session", WithNumber),
            explain: function!(c"pam_strerror", Explain),
        })
    }

    /// Begins to deal with a service, for a user.
    pub(super) fn start(self, service: &str, user: &str) -> Result<Handle, Refusal> {
        let (service, user) = (text(service)?, text(user)?);
        let conversation = Box::new(Conversation {
            ask: no_answer,
            data: std::ptr::null_mut(),
        });
        let mut raw = std::ptr::null_mut();
        // SAFETY: two texts that end in zero, a structure that the library copies, and a place for the handle.
        let code = unsafe {
            (self.start)(
                service.as_ptr(),
                user.as_ptr(),
                &raw const *conversation,
                &raw mut raw,
            )
        };
        match NonNull::new(raw) {
            Some(raw) if code == SUCCESS => Ok(Handle {
                library: self,
                raw,
                last: SUCCESS,
                is_open: false,
                _conversation: conversation,
            }),
            _ => Err(Refusal(format!("PAM cannot start (code {code})"))),
        }
    }
}

/// One dealing with PAM. It ends when it is dropped, and with it a session that is open.
pub(super) struct Handle {
    library: Library,
    raw: NonNull<c_void>,
    last: c_int,
    is_open: bool,
    _conversation: Box<Conversation>,
}

impl Handle {
    fn check(&mut self, code: c_int) -> Result<(), Refusal> {
        self.last = code;
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: the handle is valid until it is ended; the text is the library's own and ends in zero, or is null.
        let said = unsafe {
            let said = (self.library.explain)(self.raw.as_ptr(), code);
            (!said.is_null()).then(|| CStr::from_ptr(said).to_string_lossy().into_owned())
        };
        Err(Refusal(said.unwrap_or_else(|| format!("code {code}"))))
    }

    pub(super) fn set_terminal(&mut self, path: &str) -> Result<(), Refusal> {
        let path = text(path)?;
        // SAFETY: a valid handle, and a text that ends in zero, which the library copies.
        let code =
            unsafe { (self.library.set_item)(self.raw.as_ptr(), TERMINAL, path.as_ptr().cast()) };
        self.check(code)
    }

    pub(super) fn set_variable(&mut self, variable: &str) -> Result<(), Refusal> {
        let variable = text(variable)?;
        // SAFETY: a valid handle, and a text that ends in zero, which the library copies.
        let code = unsafe { (self.library.put_env)(self.raw.as_ptr(), variable.as_ptr()) };
        self.check(code)
    }

    /// Opens the session, if the account may be used.
    pub(super) fn open(&mut self) -> Result<(), Refusal> {
        let (library, raw) = (self.library, self.raw.as_ptr());
        // SAFETY: a valid handle.
        let code = unsafe { (library.check_account)(raw, SILENT) };
        self.check(code)?;
        // Modules without credentials may refuse this, which means nothing.
        // SAFETY: a valid handle.
        unsafe { (library.set_credentials)(raw, ESTABLISH | SILENT) };
        // SAFETY: a valid handle.
        let code = unsafe { (library.open_session)(raw, SILENT) };
        self.check(code)?;
        self.is_open = true;
        Ok(())
    }

    /// The variables that the session has by now.
    pub(super) fn variables(&self) -> Vec<Box<str>> {
        let mut variables = Vec::new();
        // SAFETY: a valid handle.
        let list = unsafe { (self.library.env_list)(self.raw.as_ptr()) };
        if list.is_null() {
            return variables;
        }
        let mut at = list;
        loop {
            // SAFETY: the list ends in null, and that end was not passed yet.
            let text = unsafe { *at };
            if text.is_null() {
                break;
            }
            // SAFETY: each entry is a text that ends in zero, and ours to free.
            unsafe {
                let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
                variables.push(owned.into());
                libc::free(text.cast());
                at = at.add(1);
            }
        }
        // SAFETY: the list itself is ours to free too.
        unsafe { libc::free(list.cast()) };
        variables
    }

    /// Closes the session and ends the dealing.
    pub(super) fn close(self) {
        drop(self);
    }

    /// Leaves the session to another process, which has the same handle.
    pub(super) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let (library, raw) = (self.library, self.raw.as_ptr());
        // SAFETY: a valid handle, which is not used again after its end.
        unsafe {
            if self.is_open {
                (library.set_credentials)(raw, DELETE | SILENT);
                self.last = (library.close_session)(raw, SILENT);
            }
            (library.end)(raw, self.last);
        }
    }
}

fn text(text: &str) -> Result<CString, Refusal> {
    CString::new(text).map_err(|_| Refusal("a text holds a zero byte".to_owned()))
}
