//! Users and groups from `/etc/passwd` and `/etc/group`.
//!
//! [`Accounts`] holds both files as text and answers from it. Lines that are not of the form are skipped, as the C library
//! does. [`Accounts::refresh`] reads a file again only when it was replaced or changed, which costs two `stat` calls.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The largest file that is read.
const MAX_FILE: u64 = 16 << 20;
/// The kernel takes no more groups per process.
const MAX_GROUPS: usize = 65_536;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: Box<str>,
    /// Number.
    pub uid: u32,
    /// Number of the main group.
    pub gid: u32,
    /// Home folder, where there is one that means something.
    pub home: Option<Box<str>>,
    /// Shell, where it is one that can be used.
    pub shell: Option<Box<str>>,
}

/// An account is not known, or the files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// No such user.
    #[error("there is no user {name:?} in /etc/passwd")]
    NoUser {
        /// The name or number.
        name: Box<str>,
    },
    /// No such group.
    #[error("there is no group {name:?} in /etc/group")]
    NoGroup {
        /// The name or number.
        name: Box<str>,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The machine's users and groups.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    passwd: Table,
    group: Table,
}

#[derive(Clone, Debug, Default)]
struct Table {
    path: Option<PathBuf>,
    text: String,
    /// Inode, size and time of change of what was read.
    version: Option<(u64, u64, i64, i64)>,
}

impl Accounts {
    /// Takes the texts of both files.
    #[must_use]
    pub fn from_texts(passwd: &str, group: &str) -> Self {
        let table = |text: &str| Table {
            text: text.to_owned(),
            ..Table::default()
        };
        Self {
            passwd: table(passwd),
            group: table(group),
        }
    }

    /// The accounts of a machine whose files are in this folder, usually `/etc`. Nothing is read before
    /// [`Accounts::refresh`].
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        let table = |name: &str| Table {
            path: Some(folder.join(name)),
            ..Table::default()
        };
        Self {
            passwd: table("passwd"),
            group: table("group"),
        }
    }

    /// Reads what changed since the last time. A file that is missing has no accounts.
    ///
    /// # Errors
    /// A file is there and cannot be read; what was known before stays.
    pub fn refresh(&mut self) -> Result<(), AccountError> {
        self.passwd.refresh()?;
        self.group.refresh()
    }

    /// A user by name or number.
    ///
    /// # Errors
    /// There is none.
    pub fn user(&self, name: &str) -> Result<User, AccountError> {
        let users = || self.passwd.text.lines().filter_map(parse_user);
        let number = number(name);
        let found = users()
            .find(|user| &*user.name == name)
            .or_else(|| users().find(|user| Some(user.uid) == number));
        // The superuser exists whatever the files say.
        let found = found.or_else(|| (name == "root" || number == Some(0)).then(superuser));
        found.ok_or_else(|| AccountError::NoUser { name: name.into() })
    }

    /// The number of a group by name or number.
    ///
    /// # Errors
    /// There is none.
    pub fn group(&self, name: &str) -> Result<u32, AccountError> {
        let groups = || self.group.text.lines().filter_map(parse_group);
        let number = number(name);
        let found = groups()
            .find(|group| group.name == name)
            .map(|group| group.gid)
            .or(number)
            .or_else(|| (name == "root").then_some(0));
        found.ok_or_else(|| AccountError::NoGroup { name: name.into() })
    }

    /// Whether a group has this number.
    #[must_use]
    pub fn has_group(&self, gid: u32) -> bool {
        let mut groups = self.group.text.lines().filter_map(parse_group);
        groups.any(|group| group.gid == gid)
    }

    /// Every group that a user is in: the one given, and those that list him.
    #[must_use]
    pub fn groups_of(&self, user: &str, main: u32) -> Vec<u32> {
        let listed = self.group.text.lines().filter_map(parse_group);
        let listed = listed.filter(|group| group.members.split(',').any(|member| member == user));
        let mut groups = vec![main];
        for gid in listed.map(|group| group.gid) {
            if !groups.contains(&gid) && groups.len() < MAX_GROUPS {
                groups.push(gid);
            }
        }
        groups
    }
}

impl Table {
    fn refresh(&mut self) -> Result<(), AccountError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let failed = |source| AccountError::Read {
            path: path.clone(),
            source,
        };
        let stat = match std::fs::metadata(path) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.text.clear();
                self.version = None;
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        let version = Some((stat.ino(), stat.size(), stat.mtime(), stat.mtime_nsec()));
        if version == self.version {
            return Ok(());
        }
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_FILE + 1).read_to_end(&mut bytes);
        read.map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(failed(io::Error::from(io::ErrorKind::FileTooLarge)));
        }
        // Full names may be in any encoding; no other field may.
        self.text = String::from_utf8_lossy(&bytes).into_owned();
        self.version = version;
        Ok(())
    }
}

fn number(name: &str) -> Option<u32> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    // All bits set, in 32 or 16 of them, means "nobody in particular" to system calls.
    let number = name.parse().ok().filter(|_| digits);
    number.filter(|number| !matches!(number, &u32::MAX | 0xffff))
}

fn superuser() -> User {
    User {
        name: "root".into(),
        uid: 0,
        gid: 0,
        home: Some("/root".into()),
        shell: Some("/bin/sh".into()),
    }
}

/// `name:password:uid:gid:full name:home:shell`
fn parse_user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?;
    let shell = fields.next().unwrap_or("");
    Some(User {
        name: name.into(),
        uid,
        gid,
        home: is_home(home).then(|| home.into()),
        shell: is_shell(shell).then(|| shell.into()),
    })
}

/// Whether a folder is somebody's own.
pub(crate) fn is_home(path: &str) -> bool {
    path.starts_with('/') && path != "/"
}

/// Whether a person could log in with it.
pub(crate) fn is_shell(path: &str) -> bool {
    let program = path.rsplit('/').next();
    path.starts_with('/') && !matches!(program, Some("nologin" | "false" | "true" | ""))
}

struct Group<'t> {
    name: &'t str,
    gid: u32,
    members: &'t str,
}

/// `name:password:gid:members`
fn parse_group(line: &str) -> Option<Group<'_>> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let gid = fields.nth(1)?.parse().ok()?;
    Some(Group {
        name,
        gid,
        members: fields.next().unwrap_or(""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
        # comment\nbroken:x:y:1::/:\n\
        web:x:33:34:Web, Site:/var/www:/usr/sbin/nologin\n\
        twin:x:33:50::/:/bin/sh\n12:x:500:500::/home/twelve:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nweb:x:34:\nssl:x:40:web,mail\nlog:x:41:mail,web\nbad:x:z:web\n";

    fn accounts() -> Accounts {
        Accounts::from_texts(PASSWD, GROUP)
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        let web = accounts().user("web").unwrap();
        assert_eq!((web.uid, web.gid), (33, 34));
        assert_eq!((web.home.as_deref(), web.shell), (Some("/var/www"), None));
        assert_eq!(&*accounts().user("33").unwrap().name, "web");
        assert_eq!(accounts().user("twin").unwrap().home, None);
        assert_eq!(accounts().user("12").unwrap().uid, 500);
        for name in ["nobody-here", "77", "broken", "", "65535", "+33", "-1"] {
            assert!(accounts().user(name).is_err(), "{name}");
        }
    }

    #[test]
    fn root_needs_no_file() {
        let empty = Accounts::default();
        assert_eq!(empty.user("root").unwrap().uid, 0);
        assert_eq!(empty.user("0").unwrap().home.as_deref(), Some("/root"));
        assert_eq!(empty.group("root").unwrap(), 0);
    }

    #[test]
    fn groups_are_found_by_name_number_and_member() {
        assert_eq!(accounts().group("ssl").unwrap(), 40);
        assert_eq!(accounts().group("4711").unwrap(), 4711);
        assert!(accounts().group("nothing").is_err());
        assert_eq!(accounts().groups_of("web", 34), [34, 40, 41]);
        assert_eq!(accounts().groups_of("web", 40), [40, 41]);
        assert_eq!(accounts().groups_of("we", 1), [1]);
    }

    #[test]
    fn a_changed_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut accounts = Accounts::in_folder(folder.path());
        accounts.refresh().unwrap();
        assert!(accounts.user("web").is_err());
        std::fs::write(folder.path().join("passwd"), PASSWD).unwrap();
        accounts.refresh().unwrap();
        assert!(accounts.user("web").is_ok());
        std::fs::remove_file(folder.path().join("passwd")).unwrap();
        accounts.refresh().unwrap();
        assert!(accounts.user("web").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_taken_without_panic(passwd in "([a-z:0-9\n]{0,40})", group in "([a-z:,0-9\n]{0,40})", name in ".{0,8}") {
            let accounts = Accounts::from_texts(&passwd, &group);
            let _ = (accounts.user(&name), accounts.group(&name));
            let groups = accounts.groups_of(&name, 7);
            prop_assert_eq!(groups[0], 7);
        }
    }
}
