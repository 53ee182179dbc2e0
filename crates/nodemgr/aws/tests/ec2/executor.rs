//! The suite that every executor passes, in a machine of EC2: the fake has made it, and an SSH server of this machine is what it
//! would have become by its user data.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_aws::testing::{FakeEc2, FakeSettings};
use muster_aws::{AddressChoice, AwsSettings};
use muster_executor::Executor;
use muster_executor::ssh::{Endpoint, HostKeys, SshAccess, SshExecutor, SshIdentity};
use muster_executor::testing::{Rig, run, scratch};
use muster_provider::{MachineSpec, Order, Provider as _};
use muster_seed::ManagerKeys;
use tempfile::TempDir;

use crate::rig::{PATIENCE, open, owned, plain, running, settings};

const LOGIN: &str = "root";

/// A machine that has booted: a server with the keys that its user data gave it.
#[derive(Debug)]
struct Booted {
    folder: TempDir,
    process: Child,
    port: u16,
}

impl Booted {
    /// Does what cloud-init would do.
    fn with(user_data: &str) -> Self {
        let document = user_data.strip_prefix("#cloud-config\n").unwrap();
        let told: serde_json::Value = serde_json::from_str(document).unwrap();
        assert_eq!(told["users"][0]["name"], LOGIN);
        let folder = scratch();
        let at = |name: &str| folder.path().join(name);
        let host = told["ssh_keys"]["ed25519_private"].as_str().unwrap();
        fs::write(at("host"), host).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(at("host"), mode).unwrap();
        let keys = told["users"][0]["ssh_authorized_keys"].as_array().unwrap();
        let keys: Vec<&str> = keys.iter().filter_map(|key| key.as_str()).collect();
        fs::write(at("authorized"), keys.join("\n") + "\n").unwrap();
        fs::create_dir(at("work")).unwrap();
        // The server wants it, whoever starts it.
        fs::create_dir_all("/run/sshd").unwrap();
        let (process, port) = Self::listen(&folder);
        Self {
            folder,
            process,
            port,
        }
    }

    /// Ports cannot be reserved: one that somebody else takes first is given up.
    fn listen(folder: &TempDir) -> (Child, u16) {
        let at = folder.path().display();
        let config = folder.path().join("config");
        for _ in 0..10 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let text = format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\nPidFile none\nUsePAM no\n\
                 StrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nLogLevel ERROR\nMaxStartups 100\n\
                 SetEnv PATH=/usr/local/bin:/usr/bin:/bin SHLVL=1\nSubsystem sftp internal-sftp\n"
            );
            fs::write(&config, text).unwrap();
            let mut process = Command::new("/usr/sbin/sshd")
                .args(["-D", "-e", "-f"])
                .arg(&config)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
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
}

impl Drop for Booted {
    fn drop(&mut self) {
        // Whoever is logged in is told by the end of his connection.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Debug)]
struct MachineRig {
    access: SshAccess,
    folder: PathBuf,
    echo: u16,
}

impl Rig for MachineRig {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(SshExecutor::new(self.access.clone()))
    }

    fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    fn echo(&self) -> Option<(String, u16)> {
        Some(("127.0.0.1".to_owned(), self.echo))
    }

    fn power_log(&self) -> Option<PathBuf> {
        None
    }
}

/// A server that sends back what it is sent, as long as the test runs.
async fn echo() -> u16 {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn a_machine_of_ec2_keeps_every_promise_of_an_executor() {
    muster_lab::require!(Root, File("/usr/sbin/sshd"));
    let fake = FakeEc2::start(FakeSettings {
        private_address: Ipv4Addr::LOCALHOST,
        ..FakeSettings::default()
    });
    let provider = open(AwsSettings {
        address: AddressChoice::Private,
        ..settings(&fake.url())
    })
    .await;
    let keys = ManagerKeys::from_secret(&[7; 32]);
    let mut order = plain();
    order.spec = MachineSpec {
        user: Some(LOGIN.to_owned()),
        ..order.spec
    };
    let order = Order {
        ssh: Some(keys.seed(&order.mark.token, &order.spec)),
        ..order
    };
    let made = running(&provider, &order).await;
    assert!(!made.access.is_empty(), "{made:?}");
    let user_data = &fake.machines()[0].made_with["UserData"];
    let user_data = String::from_utf8(STANDARD.decode(user_data).unwrap()).unwrap();
    let booted = Booted::with(&user_data);

    // What the manager knows of the machine: its address, and the key that it was ordered with.
    let host = keys.host_public(&order.mark.token);
    let client = SshIdentity::from_openssh(keys.client().private.reveal()).unwrap();
    let endpoint = Endpoint::new(made.address.unwrap().to_string(), booted.port);
    let pinned = HostKeys::pinned([host.as_str()]).unwrap();
    let rig = MachineRig {
        access: SshAccess::new(endpoint, &made.details["user"], pinned, vec![client]),
        folder: booted.folder.path().join("work"),
        echo: echo().await,
    };
    let report = run(&rig).await;
    println!("{report}");
    report.assert_skipped_only(&[(
        "the machine is switched off and booted from inside",
        "nothing stands in the place of its power",
    )]);
    report.assert_at_least(40);
    provider.destroy(&owned(&made)).await.unwrap();
}
