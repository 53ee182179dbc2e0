//! A libvirt of the test's own, and what there is to say to its machines.

use std::fs;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use muster_executor::ssh::{Endpoint, HostKeys, SshAccess, SshIdentity};
use muster_lab::poll_until;
use muster_lab::program::{Process, Program};
use muster_libvirt::{Acceleration, LibvirtProvider, Settings};
use muster_provider::{
    ClientToken, Described, MachineId, MachineSpec, ManagerId, Mark, Order, Owned, Provider,
    Purchase,
};
use muster_seed::ManagerKeys;

use crate::daemons::Daemons;
pub(crate) use crate::daemons::{PATIENCE, image, require_libvirt, small_image};

pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_muster-libvirt-helper");
/// The user of test machines.
pub(crate) const USER: &str = "builder";

/// A libvirt of the test's own.
#[derive(Debug)]
pub(crate) struct Libvirt {
    daemons: Daemons,
    keys: ManagerKeys,
}

impl Deref for Libvirt {
    type Target = Daemons;

    fn deref(&self) -> &Daemons {
        &self.daemons
    }
}

impl Libvirt {
    pub(crate) fn start() -> Self {
        Self {
            daemons: Daemons::start(&["--net"]),
            keys: ManagerKeys::from_secret(&[5; 32]),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(&self.path().join("state"), &self.path().join("cache"));
        settings.uri = self.uri();
        settings.helper = HELPER.into();
        settings.acceleration = Acceleration::Tcg;
        settings.stop_grace = PATIENCE;
        settings
    }

    pub(crate) fn provider(&self) -> Arc<LibvirtProvider> {
        Arc::new(LibvirtProvider::open(self.settings()).unwrap())
    }

    /// Ends the daemon and lets it come back, or not yet.
    pub(crate) fn kill_daemon(&self, hold: bool) {
        let held = self.path().join("held");
        if hold {
            fs::write(&held, "").unwrap();
        }
        self.signal_daemon("-9");
    }

    pub(crate) fn signal_daemon(&self, signal: &str) {
        let pid = fs::read_to_string(self.path().join("libvirtd.pid")).unwrap();
        let sent = self.inside("kill", &[signal, pid.trim()]);
        assert!(sent.status.success(), "{sent:?}");
    }

    pub(crate) fn let_daemon_go(&self) {
        fs::remove_file(self.path().join("held")).unwrap();
        self.wait_up();
    }

    /// Fails unless nothing of any machine is left.
    pub(crate) fn assert_nothing_left(&self) {
        let machines = self.path().join("state/machines");
        self.daemons.assert_nothing_left(&machines);
    }

    pub(crate) fn order(&self, manager: &ManagerId, spec: MachineSpec) -> Order {
        let token = ClientToken::random();
        Order {
            ssh: Some(self.keys.seed(&token, &spec)),
            spec,
            mark: Mark {
                manager: manager.clone(),
                machine: MachineId::random(),
                token,
            },
            purchase: Purchase::OnDemand,
        }
    }

    /// How an executor gets into a machine, from where the emulators listen.
    pub(crate) fn access(&self, machine: &Described, user: &str) -> SshAccess {
        let (address, port) = place(machine).unwrap();
        let host = self.keys.host_public(&machine.mark.token);
        let client = SshIdentity::from_openssh(self.keys.client().private.reveal()).unwrap();
        SshAccess::new(
            Endpoint::new(&address, port.parse().unwrap()),
            user,
            HostKeys::pinned([host.as_str()]).unwrap(),
            vec![client],
        )
    }

    /// Runs a command in a machine, if it can be reached. Whoever answers must have the key that was ordered for it.
    pub(crate) fn ssh(&self, machine: &Described, command: &str) -> Option<String> {
        self.ssh_as(USER, machine, command)
    }

    fn ssh_as(&self, user: &str, machine: &Described, command: &str) -> Option<String> {
        let folder = tempfile::tempdir_in(self.path()).unwrap();
        let at = |name: &str| folder.path().join(name);
        let (address, port) = place(machine)?;
        let host = self.keys.host_public(&machine.mark.token);
        fs::write(
            at("known"),
            format!("[{address}]:{port} {host}\n{address} {host}\n"),
        )
        .unwrap();
        fs::write(at("key"), self.keys.client().private.reveal()).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(at("key"), mode).unwrap();
        let output = self.inside(
            "ssh",
            &[
                "-F/dev/null",
                "-oBatchMode=yes",
                "-oStrictHostKeyChecking=yes",
                "-oConnectTimeout=10",
                "-oIdentitiesOnly=yes",
                &format!("-oUserKnownHostsFile={}", at("known").display()),
                "-i",
                at("key").to_str().unwrap(),
                "-p",
                &port,
                &format!("{user}@{address}"),
                command,
            ],
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("HOST IDENTIFICATION HAS CHANGED"), "{said}");
        let answered = output.status.success();
        answered.then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    pub(crate) fn ssh_when_up(&self, machine: &Described, command: &str) -> String {
        self.ssh_within(machine, command, PATIENCE)
    }

    pub(crate) fn ssh_when_up_as(&self, user: &str, machine: &Described, command: &str) -> String {
        let what = "the machine answers";
        muster_lab::poll_for(PATIENCE, what, || self.ssh_as(user, machine, command))
    }

    pub(crate) fn ssh_within(&self, machine: &Described, command: &str, time: Duration) -> String {
        muster_lab::poll_for(time, "the machine answers", || self.ssh(machine, command))
    }

    /// Takes a port where the emulators listen, until it is dropped.
    pub(crate) fn take_port(&self, port: &str) -> Process {
        let script = format!("exec busybox nc -l -p {port}");
        let taker = Program::new("nsenter")
            .args(["-t", &self.first(), "-n", "--", "sh", "-c", &script])
            .start()
            .unwrap();
        poll_until(PATIENCE, "the port is taken", || {
            let listening = self.inside("ss", &["-Hltn", &format!("sport = :{port}")]);
            !listening.stdout.is_empty()
        });
        taker
    }
}

fn place(machine: &Described) -> Option<(String, String)> {
    let port = machine.details.get("sshPort").map_or("22", String::as_str);
    Some((machine.address?.to_string(), port.to_owned()))
}

/// A small machine.
pub(crate) fn spec() -> MachineSpec {
    MachineSpec {
        image: Some(small_image().display().to_string()),
        memory_mb: std::num::NonZeroU64::new(256),
        user: Some(USER.to_owned()),
        ..MachineSpec::default()
    }
}

pub(crate) fn owned(described: &Described) -> Owned {
    Owned {
        resource: described.resource.clone(),
        mark: described.mark.clone(),
    }
}

/// Looks at a machine until it is as wanted.
pub(crate) async fn wait(
    provider: &dyn Provider,
    machine: &Owned,
    what: &str,
    is: impl Fn(&Described) -> bool,
) -> Described {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let described = provider.describe(machine).await.unwrap();
        match described {
            Some(described) if is(&described) => return described,
            other => assert!(
                std::time::Instant::now() < deadline,
                "not {what} in time: {other:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
