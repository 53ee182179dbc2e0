//! OpenSSH's server in a folder of its own, on a port that the kernel chose.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use muster_executor::ssh::{Endpoint, HostKeys, SshAccess, SshExecutor, SshIdentity};
use muster_executor::testing::scratch;
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A user whom only the server's own view of this machine knows.
pub(crate) const VISITOR: &str = "visitor";
pub(crate) const VISITOR_ID: u32 = 48484;

/// Gives a server its own users and rules of `sudo`, and its own list of processes. What follows becomes the server.
pub(crate) const FOR_VISITORS: &str = r#"set -e
cd "$1"
umask 077
(cat /etc/passwd; echo visitor:x:48484:48484::/:/bin/sh) >passwd
(cat /etc/shadow; echo 'visitor:*:19000:0:99999:7:::') >shadow
chmod 644 passwd
chmod 440 sudoers
mount --bind passwd /etc/passwd
mount --bind shadow /etc/shadow
mount --bind sudoers /etc/sudoers
[ -z "$2" ] || mount -t proc -o "$2" proc /proc
shift 2
exec "$@""#;

/// How a machine lets its users become others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) sudoers: &'static str,
    /// Options of its list of processes.
    pub(crate) proc: &'static str,
}

/// A server, its keys, and a folder for whoever logs in. All of it ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    folder: TempDir,
    process: Child,
    pub(crate) port: u16,
}

/// Makes a key of some kind, without a password.
pub(crate) fn keygen(kind: &str, path: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-b", "2048", "-N", "", "-C", "test", "-f"])
        .arg(path)
        .status();
    assert!(made.unwrap().success());
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with("internal-sftp")
    }

    /// For users who are not root, on a machine with such rules.
    pub(crate) fn start_for_visitors(rules: Rules) -> Self {
        Self::start_as("internal-sftp", Some(rules))
    }

    /// With another program for files.
    pub(crate) fn start_with(sftp: &str) -> Self {
        Self::start_as(sftp, None)
    }

    fn start_as(sftp: &str, rules: Option<Rules>) -> Self {
        let folder = scratch();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        keygen("ed25519", &folder.path().join("host"));
        keygen("rsa", &folder.path().join("host-rsa"));
        keygen("ed25519", &folder.path().join("client"));
        fs::copy(
            folder.path().join("client.pub"),
            folder.path().join("authorized"),
        )
        .unwrap();
        // In the place of the programs that switch the power of this very machine.
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        for name in ["systemctl", "shutdown", "poweroff", "reboot", "halt"] {
            let log = folder.path().join("power.log");
            let script = format!("#!/bin/sh\necho \"$0 $*\" >>'{}'\n", log.display());
            let path = programs.join(name);
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // The server wants it, whoever starts it.
        fs::create_dir_all("/run/sshd").unwrap();
        let (process, port) = Self::spawn(folder.path(), &programs, sftp, rules);
        Self {
            folder,
            process,
            port,
        }
    }

    /// Ports cannot be reserved: one that somebody else takes first is given up.
    fn spawn(folder: &Path, programs: &Path, sftp: &str, rules: Option<Rules>) -> (Child, u16) {
        for _ in 0..10 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let mut process = Self::run(folder, programs, sftp, rules, port);
            let deadline = Instant::now() + PATIENCE;
            while process.try_wait().unwrap().is_none() {
                if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                    return (process, port);
                }
                assert!(Instant::now() < deadline, "the server does not listen");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("no port is free for a server");
    }

    fn run(folder: &Path, programs: &Path, sftp: &str, rules: Option<Rules>, port: u16) -> Child {
        let config = folder.join("sshd_config");
        // A shell that is not the first reads no start-up files of whoever runs the tests.
        let mut file = fs::File::create(&config).unwrap();
        let at = folder.display();
        writeln!(
            file,
            "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nHostKey {at}/host-rsa\nAuthorizedKeysFile {at}/authorized\n\
             PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
             PermitRootLogin prohibit-password\nLogLevel ERROR\nMaxStartups 100\n\
             SetEnv PATH={}:/usr/local/bin:/usr/bin:/bin SHLVL=1\nSubsystem sftp {sftp}",
            programs.display()
        )
        .unwrap();
        let mut command = match rules {
            None => Command::new("/usr/sbin/sshd"),
            Some(Rules { sudoers, proc }) => {
                fs::write(folder.join("sudoers"), format!("{sudoers}\n")).unwrap();
                let mut command = Command::new("unshare");
                command
                    .args(["--mount", "sh", "-c", FOR_VISITORS, "sh"])
                    .arg(folder)
                    .args([proc, "/usr/sbin/sshd"]);
                command
            }
        };
        command
            .args(["-D", "-e", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn host_key(&self) -> String {
        fs::read_to_string(self.path("host.pub")).unwrap()
    }

    pub(crate) fn identity(&self) -> SshIdentity {
        let pem = fs::read_to_string(self.path("client")).unwrap();
        SshIdentity::from_openssh(&pem).unwrap()
    }

    pub(crate) fn access(&self) -> SshAccess {
        self.access_by(self.port)
    }

    /// The server as it is reached by another port.
    pub(crate) fn access_by(&self, port: u16) -> SshAccess {
        let endpoint = Endpoint::new("127.0.0.1", port);
        let keys = HostKeys::pinned([self.host_key().as_str()]).unwrap();
        SshAccess::new(endpoint, "root", keys, vec![self.identity()])
    }

    pub(crate) fn executor(&self) -> SshExecutor {
        SshExecutor::new(self.access())
    }

    /// The server as it is reached by another port, for a user who is not root.
    pub(crate) fn visit_by(&self, port: u16) -> SshExecutor {
        SshExecutor::new(SshAccess {
            user: VISITOR.to_owned(),
            ..self.access_by(port)
        })
    }

    /// The processes of the server: itself, and one or two for each connection.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mut all = vec![i32::try_from(self.process.id()).unwrap()];
        let mut next = 0;
        while let Some(&parent) = all.get(next) {
            let children = format!("/proc/{parent}/task/{parent}/children");
            let children = fs::read_to_string(children).unwrap_or_default();
            let children = children.split_whitespace().map(|it| it.parse().unwrap());
            let is_server = |process: &i32| {
                let name = fs::read_to_string(format!("/proc/{process}/comm"));
                name.is_ok_and(|it| it.trim() == "sshd")
            };
            all.extend(children.filter(is_server).collect::<Vec<i32>>());
            next += 1;
        }
        all
    }

    /// Kills the server with all its connections.
    pub(crate) fn kill(&mut self) {
        for process in self.processes() {
            let process = rustix::process::Pid::from_raw(process).unwrap();
            // Some end by the end of others.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.process.try_wait(), Ok(Some(_))) {
            self.kill();
        }
    }
}
