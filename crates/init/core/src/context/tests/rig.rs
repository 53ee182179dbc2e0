//! A machine of files and accounts that exist only here, and units that are a few lines of text.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use muster_engine::ids::InvocationId;
use muster_engine::protocol::{ExecKind, SpawnError};
use muster_exec::ExecContext;
use muster_exec::accounts::{AccountError, Accounts};
use muster_exec::folders::{Folder, FolderError};
use muster_mounts::Folders;
use muster_unit_file::config::{CommandPhase, UnitConfig, UnitKind};
use muster_unit_file::fs::MemoryFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::HostFacts;
use muster_units::Host;

use crate::context::machine::Machine;
use crate::context::{Built, Facts, Joined, build};

/// Folders with this mode cannot be made.
pub(super) const READ_ONLY: u16 = 0o700;
/// Folders with this mode are full of files that belong to somebody else.
const FULL: u16 = 0o777;
/// The number of every dynamic user.
pub(super) const DYNAMIC: u32 = 62_000;

const PASSWD: &str = "root:x:0:0::/root:/bin/bash\n\
    web:x:33:34::/var/www:/usr/sbin/nologin\njo:x:1000:1000::/home/jo:/bin/zsh\n";
const GROUP: &str = "root:x:0:\nweb:x:34:\nssl:x:40:web\naudio:x:41:jo\n";

pub(super) struct Fake {
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) programs: BTreeSet<String>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) data: RefCell<Vec<u8>>,
    pub(super) has_name_services: bool,
    /// Where nobody may answer.
    pub(super) distant: Option<&'static str>,
    accounts: Accounts,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            programs: BTreeSet::new(),
            variables: BTreeMap::new(),
            data: RefCell::default(),
            has_name_services: false,
            distant: None,
            accounts: Accounts::from_texts(PASSWD, GROUP),
        }
    }
}

impl Fake {
    fn is_distant(&self, path: &str) -> bool {
        self.distant.is_some_and(|place| path.starts_with(place))
    }

    /// Whoever goes there would never come back.
    #[track_caller]
    fn must_not_wait_at(&self, path: &str) {
        assert!(!self.is_distant(path), "{path} was gone to");
    }
}

impl Machine for Fake {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.must_not_wait_at(path);
        let found = self.files.get(path).cloned();
        found.ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn matching(&mut self, pattern: &str) -> Option<Vec<String>> {
        let fits = |path: &&String| muster_unit_file::install::glob(pattern, path);
        let found: Vec<String> = self.files.keys().filter(fits).cloned().collect();
        let waits = self.is_distant(pattern) || found.iter().any(|path| self.is_distant(path));
        (!waits).then_some(found)
    }

    fn is_program(&self, path: &str) -> bool {
        self.must_not_wait_at(path);
        self.programs.contains(path)
    }

    fn may_wait_at(&mut self, path: &str) -> bool {
        self.is_distant(path)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn accounts(&mut self) -> Result<&Accounts, AccountError> {
        Ok(&self.accounts)
    }

    fn has_name_services(&self) -> bool {
        self.has_name_services
    }

    fn dynamic_user(&mut self, name: &str, _: &[Folder]) -> io::Result<u32> {
        match name {
            "full" => Err(io::ErrorKind::QuotaExceeded.into()),
            _ => Ok(DYNAMIC),
        }
    }

    fn number_of(&mut self, user: &str) -> Option<u32> {
        Some(self.accounts.user(user).ok()?.uid)
    }

    fn dynamic_users(&mut self) -> Vec<(Box<str>, u32)> {
        Vec::new()
    }

    fn keep_dynamic_users(&mut self, _: &BTreeSet<String>) {}

    fn make_private_tmp(&mut self, _: &Folders) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(30))
    }

    fn data(&self, bytes: &[u8]) -> io::Result<OwnedFd> {
        *self.data.borrow_mut() = bytes.to_vec();
        Ok(std::fs::File::open("/dev/null")?.into())
    }

    fn make_folder(&mut self, folder: &Folder) -> Result<bool, FolderError> {
        self.must_not_wait_at(&folder.path);
        match folder.mode {
            READ_ONLY => Err(FolderError {
                detail: format!("cannot make the folder {}", folder.path).into(),
                errno: rustix::io::Errno::ROFS,
            }),
            mode => Ok(mode != FULL),
        }
    }

    fn put_away(&mut self, folder: &Folder, tag: &str) -> Result<Option<String>, FolderError> {
        self.must_not_wait_at(&folder.path);
        Ok(Some(format!("{}-{tag}", folder.path)))
    }
}

/// A service with these lines in `[Service]`.
pub(super) fn unit(lines: &str) -> UnitConfig {
    let mut fs = MemoryFs::new();
    fs.write("/u/x.service", format!("[Service]\n{lines}\n"));
    let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
    let loaded = loader.load(&UnitName::new("x.service").unwrap());
    assert!(matches!(loaded.config.kind, UnitKind::Service(_)));
    loaded.config
}

/// What is known of a first start of a plain service.
fn facts<'a>() -> Facts<'a> {
    static HOST: LazyLock<Host> = LazyLock::new(Host::default);
    static ENVIRONMENT: LazyLock<BTreeMap<Box<str>, Box<str>>> =
        LazyLock::new(|| [("LANG".into(), "C".into())].into());
    Facts {
        host: &HOST,
        environment: &ENVIRONMENT,
        invocation: InvocationId(7),
        main_pid: None,
        notify_socket: None,
        watchdog: None,
        passed: &[],
        sockets: 0,
        descriptors: 1,
        log: Some(0),
        log_identity: None,
        connection: None,
        stdio: None,
        ended: None,
        remote: None,
        trigger: &[],
        joined: Joined::default(),
        pressure: &[],
    }
}

/// The first command of a phase, built.
pub(super) fn built_by<'a>(
    fake: &mut Fake,
    lines: &str,
    (phase, kind): (CommandPhase, ExecKind),
    change: impl FnOnce(&mut Facts<'a>),
) -> Result<Built, SpawnError> {
    let config = unit(lines);
    let UnitKind::Service(service) = &config.kind else {
        panic!("not a service")
    };
    let command = service.commands(phase).next().unwrap();
    let mut facts = facts();
    change(&mut facts);
    build(&config, command, kind, &facts, fake)
}

pub(super) const START: (CommandPhase, ExecKind) = (CommandPhase::Start, ExecKind::Start);

/// The context of `ExecStart=/bin/x` with more lines.
pub(super) fn context(lines: &str) -> ExecContext {
    let lines = format!("ExecStart=/bin/x\n{lines}");
    built_by(&mut Fake::default(), &lines, START, |_| {})
        .unwrap()
        .context
}

pub(super) fn failure(lines: &str) -> SpawnError {
    let lines = format!("ExecStart=/bin/x\n{lines}");
    built_by(&mut Fake::default(), &lines, START, |_| {}).unwrap_err()
}

/// A variable's value.
pub(super) fn variable<'c>(context: &'c ExecContext, name: &str) -> Option<&'c str> {
    let found = context
        .environment
        .iter()
        .filter_map(|text| text.split_once('='));
    let mut found = found
        .filter(|(known, _)| *known == name)
        .map(|(_, value)| value);
    let value = found.next();
    assert_eq!(found.next(), None, "{name} is there twice");
    value
}
