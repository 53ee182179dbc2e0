//! Accounts that only the system's name services know.

#![expect(
    unsafe_code,
    reason = "the C library's functions for accounts take addresses"
)]

use std::ffi::{CStr, CString, c_char, c_int};

use rustix::io::Errno;

use super::outcome::SetupError;
use crate::context::Identity;
use crate::sandbox::Names;
use crate::step::Step;

/// Room for the texts of one account; doubled until it is enough.
const FIRST_ROOM: usize = 1 << 12;
const LAST_ROOM: usize = 1 << 22;
/// The kernel takes no more groups per process.
const MAX_GROUPS: usize = 65_536;

/// An account as it was found.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) name: CString,
    pub(super) home: String,
    pub(super) shell: String,
    uid: u32,
    gid: u32,
}

/// Looks the names up.
pub(super) fn look_up(names: &Names) -> Result<(Identity, Option<Account>), SetupError> {
    let account = names.user.as_deref().map(find_user).transpose()?;
    let own_gid = rustix::process::getgid().as_raw();
    let gid = match &names.group {
        Some(name) => find_group(name)?,
        None => account.as_ref().map_or(own_gid, |account| account.gid),
    };
    let mut groups = match &account {
        Some(account) => groups_of(&account.name, gid)?,
        None => Vec::new(),
    };
    for name in &names.groups {
        let gid = find_group(name)?;
        if !groups.contains(&gid) && groups.len() < MAX_GROUPS {
            groups.push(gid);
        }
    }
    let own_uid = rustix::process::getuid().as_raw();
    let uid = account.as_ref().map_or(own_uid, |account| account.uid);
    Ok((Identity { uid, gid, groups }, account))
}

/// Refuses a user that is only lent, by a name that is somebody else's: whoever looks the name up must find the one who has it.
pub(super) fn check_lent(name: &str, uid: u32) -> Result<(), SetupError> {
    match search(name)? {
        Some(known) if known.uid != uid => {
            let detail = format!(
                "cannot lend the user {name:?} as number {uid}: it is number {} already",
                known.uid
            );
            Err(SetupError::new(Step::User, Errno::EXIST, detail))
        }
        _ => Ok(()),
    }
}

fn find_user(name: &str) -> Result<Account, SetupError> {
    search(name)?.ok_or_else(|| unknown_user(name, Errno::SRCH))
}

fn unknown_user(name: &str, errno: Errno) -> SetupError {
    SetupError::new(Step::User, errno, format!("cannot find the user {name:?}"))
}

fn search(name: &str) -> Result<Option<Account>, SetupError> {
    let failed = |errno| unknown_user(name, errno);
    let text = CString::new(name).map_err(|_| failed(Errno::INVAL))?;
    let found = with_room(|room| {
        // SAFETY: a structure of plain numbers and addresses, for which zero is a value.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let number = name.parse::<u32>();
        let entry_address = &raw mut entry;
        let (address, length) = (room.as_mut_ptr(), room.len());
        // SAFETY: a text that ends in zero, and room of the length that is said.
        let code = unsafe {
            match number {
                Ok(uid) => libc::getpwuid_r(uid, entry_address, address, length, &raw mut found),
                Err(_) => libc::getpwnam_r(
                    text.as_ptr(),
                    entry_address,
                    address,
                    length,
                    &raw mut found,
                ),
            }
        };
        let account = (code == 0 && !found.is_null()).then(|| {
            // SAFETY: the entry was filled: its texts are null, or in the room and end in zero.
            let [name, home, shell] = unsafe {
                let texts = [entry.pw_name, entry.pw_dir, entry.pw_shell];
                texts.map(|text| owned(text))
            };
            Account {
                name,
                home: home.to_string_lossy().into_owned(),
                shell: shell.to_string_lossy().into_owned(),
                uid: entry.pw_uid,
                gid: entry.pw_gid,
            }
        });
        (code, account)
    });
    found.map_err(failed)
}

fn find_group(name: &str) -> Result<u32, SetupError> {
    if let Ok(gid) = name.parse() {
        return Ok(gid);
    }
    let unknown = |errno| {
        let detail = format!("cannot find the group {name:?}");
        SetupError::new(Step::Group, errno, detail)
    };
    let text = CString::new(name).map_err(|_| unknown(Errno::INVAL))?;
    let found = with_room(|room| {
        // SAFETY: a structure of plain numbers and addresses, for which zero is a value.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: a text that ends in zero, and room of the length that is said.
        let code = unsafe {
            libc::getgrnam_r(
                text.as_ptr(),
                &raw mut entry,
                room.as_mut_ptr(),
                room.len(),
                &raw mut found,
            )
        };
        (
            code,
            (code == 0 && !found.is_null()).then_some(entry.gr_gid),
        )
    });
    found.map_err(unknown)?.ok_or_else(|| unknown(Errno::SRCH))
}

/// Every group that a user is in, the given one first.
fn groups_of(user: &CStr, main: u32) -> Result<Vec<u32>, SetupError> {
    let mut groups: Vec<u32> = vec![0; 64];
    loop {
        let mut count = c_int::try_from(groups.len()).unwrap_or(c_int::MAX);
        // SAFETY: a text that ends in zero, and room for as many groups as is said.
        let found =
            unsafe { libc::getgrouplist(user.as_ptr(), main, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if found >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        if groups.len() >= MAX_GROUPS {
            let detail = format!("{} is in too many groups", user.to_string_lossy());
            return Err(SetupError::new(Step::Group, Errno::TOOBIG, detail));
        }
        groups.resize(count.max(groups.len() * 2).min(MAX_GROUPS), 0);
    }
}

/// Asks with more and more room for texts, until it is enough. Nothing is found by names that nobody knows.
fn with_room<T>(
    mut ask: impl FnMut(&mut [c_char]) -> (c_int, Option<T>),
) -> Result<Option<T>, Errno> {
    let mut size = FIRST_ROOM;
    loop {
        let mut room: Vec<c_char> = vec![0; size];
        match ask(&mut room) {
            (0, found) => return Ok(found),
            (libc::ERANGE, _) if size < LAST_ROOM => size *= 2,
            (libc::EINTR, _) => {}
            // What the services say of a name that they do not know differs.
            (libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, _) => return Ok(None),
            (code, _) => return Err(Errno::from_raw_os_error(code)),
        }
    }
}

/// A text of the C library's.
///
/// # Safety
/// The address is null, or that of a text that ends in zero.
unsafe fn owned(text: *const c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_owned()
}
