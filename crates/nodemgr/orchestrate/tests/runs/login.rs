//! A machine whose login is not root: OpenSSH's server with a user of its own, who can make nothing in `/`.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use muster_executor::Executor;
use muster_executor::ssh::{Endpoint, HostKeys, SshAccess, SshExecutor, SshIdentity};
use muster_machines::Record;
use muster_orchestrate::{
    End, OneCommand, Reach, ReachError, RunOrder, SOURCES, SyncedFolder, one_command,
};
use tempfile::TempDir;

use crate::rig::{World, in_time, workflow};

/// A number that no user of this machine has.
const USER: u32 = 54_321;

/// A server that knows a user more than this machine does: its own view of the file system has another `/etc/passwd`.
struct Server {
    folder: TempDir,
    process: Child,
    port: u16,
}

fn keygen(path: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
        .arg(path)
        .status();
    assert!(made.unwrap().success());
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let open = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        open(folder.path());
        keygen(&at("host"));
        keygen(&at("client"));
        let home = at("home");
        fs::create_dir(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(USER), Some(USER)).unwrap();
        let passwd = fs::read_to_string("/etc/passwd").unwrap();
        let user = format!("tester:*:{USER}:{USER}::{}:/bin/sh\n", home.display());
        fs::write(at("passwd"), passwd + &user).unwrap();
        // In the place of the real one: it says whom it was asked to become.
        fs::create_dir(at("bin")).unwrap();
        let asked = home.join("asked");
        let sudo = format!(
            "#!/bin/sh\necho \"$1 $2 $3\" >>'{}'\nshift 3\n[ \"$1\" = -- ] && shift\nexec \"$@\"\n",
            asked.display()
        );
        fs::write(at("bin/sudo"), sudo).unwrap();
        open(&at("bin/sudo"));
        // The server wants it, whoever starts it.
        fs::create_dir_all("/run/sshd").unwrap();
        let (process, port) = Self::spawn(folder.path());
        Self {
            folder,
            process,
            port,
        }
    }

    /// Ports cannot be reserved: one that somebody else takes first is given up.
    fn spawn(folder: &Path) -> (Child, u16) {
        for _ in 0..10 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let mut process = Self::run(folder, port);
            let deadline = Instant::now() + Duration::from_secs(60);
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

    fn run(folder: &Path, port: u16) -> Child {
        let at = folder.display();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/client.pub\n\
             PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nLogLevel ERROR\n\
             SetEnv PATH={at}/bin:/usr/local/bin:/usr/bin:/bin SHLVL=1\nSubsystem sftp internal-sftp\n"
        );
        fs::write(folder.join("sshd_config"), config).unwrap();
        let script = r#"mount --bind "$1/passwd" /etc/passwd && exec /usr/sbin/sshd -D -e -f "$1/sshd_config""#;
        Command::new("unshare")
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                script,
                "sh",
            ])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn executor(&self) -> SshExecutor {
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap();
        let endpoint = Endpoint::new("127.0.0.1", self.port);
        let keys = HostKeys::pinned([read("host.pub").as_str()]).unwrap();
        let identity = SshIdentity::from_openssh(&read("client")).unwrap();
        SshExecutor::new(SshAccess::new(endpoint, "tester", keys, vec![identity]))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `unshare` and the shell have become the server; connections end when their client does.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Debug)]
struct There(SshExecutor);

impl Reach for There {
    fn reach<'a>(&'a self, _: &'a Record) -> BoxFuture<'a, Result<Arc<dyn Executor>, ReachError>> {
        let executor: Arc<dyn Executor> = Arc::new(self.0.clone());
        Box::pin(std::future::ready(Ok(executor)))
    }
}

#[tokio::test]
async fn a_folder_goes_to_the_home_of_a_login_that_is_not_root_and_comes_back() {
    muster_lab::require!(Root, Tool("unshare"), Tool("sshd"), Tool("ssh-keygen"));
    let server = Server::start();
    let world = World::new();
    let manager = world.start_with(Arc::new(There(server.executor()))).await;
    let local = world.folder.path().join("here");
    fs::create_dir(&local).unwrap();
    fs::write(local.join("in"), "old").unwrap();
    fs::write(local.join("gone"), "old").unwrap();
    let wanted = OneCommand {
        template: "t".parse().unwrap(),
        provider: None,
        wants: Default::default(),
        command: [
            "sh",
            "-c",
            "id -u >who; pwd >>who; echo -n new >in; rm gone",
        ]
        .map(ToOwned::to_owned)
        .to_vec(),
        cwd: Some(SOURCES.to_owned()),
        env: Default::default(),
        folders: vec![SyncedFolder {
            local: local.to_str().unwrap().to_owned(),
            remote: SOURCES.to_owned(),
            back: true,
        }],
        timeout: None,
        end: End::Destroy,
        end_on_failure: End::Destroy,
    };
    let order = RunOrder {
        workflow: one_command(&wanted).unwrap(),
        key: None,
    };
    let run = in_time(manager.runs.begin(order)).await.unwrap();
    let outcome = manager.wait(&run).await;
    let log = manager.log(&run).await;
    assert!(outcome.is_success(), "{outcome}: {log}");
    let who = fs::read_to_string(local.join("who")).unwrap();
    let there = server.home().join("src");
    assert_eq!(who, format!("{USER}\n{}\n", there.display()));
    assert_eq!(fs::read_to_string(local.join("in")).unwrap(), "new");
    assert!(!local.join("gone").exists());
    assert_eq!(fs::metadata(&there).unwrap().uid(), USER);
}

#[tokio::test]
async fn a_step_that_names_root_becomes_root_by_sudo() {
    muster_lab::require!(Root, Tool("unshare"), Tool("sshd"), Tool("ssh-keygen"));
    let server = Server::start();
    let world = World::new();
    let manager = world.start_with(Arc::new(There(server.executor()))).await;
    let text = "
name: w
machines: {a: {template: t}}
steps:
- name: s
  actions:
  - script: {text: 'echo script', user: root}
  - file: {to: '~/etc/x', content: new, user: root}
  - script: {text: 'echo plain; cat etc/x', cwd: '~/.'}
";
    let run = in_time(manager.runs.begin(RunOrder {
        workflow: workflow(text),
        key: None,
    }));
    let run = run.await.unwrap();
    let outcome = manager.wait(&run).await;
    let log = manager.log(&run).await;
    assert!(outcome.is_success(), "{outcome}: {log}");
    assert!(log.ends_with("script\nplain\nnew"), "{log}");
    let asked = fs::read_to_string(server.home().join("asked")).unwrap();
    assert!(asked.lines().count() >= 2, "{asked}");
    assert!(asked.lines().all(|line| line == "-n -u root"), "{asked}");
}
