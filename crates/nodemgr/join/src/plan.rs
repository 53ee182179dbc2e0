//! What has to be done on a machine. Pure.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use muster_node_files::{Duty, EVERYTHING, IDENTITY, Networks, NodeFiles, Place, Text, UnitMember};

use crate::facts::{Facts, Root};
use crate::unit::UnitFile;

/// What a node runs.
const PROGRAMS: [&str; 8] = [
    "muster-init",
    "muster-core",
    "muster-exec",
    "muster-logd",
    "muster-iam",
    "muster-sm",
    "muster-native-exec",
    "sctl",
];
const BIN: &str = "/opt/muster/bin";
/// The program that is tried first.
pub(crate) const INIT: &str = "/opt/muster/bin/muster-init";
const DIR: &str = "/var/lib/muster/node";
const RUN: &str = "/run/muster-node";
/// Where everything is first brought to, in the home of whoever logs in: he may not write elsewhere, and nobody else may write there.
/// It is the same every time, so that a copy that was cut goes on.
const STAGE: &str = ".muster-join";
const SERVICE: &str = "/etc/systemd/system/muster-node.service";
const IAM_PUBLIC: u16 = 8090;
const IAM_PROTECTED: u16 = 8089;
/// The node's identity manager is for its own Service Manager; the Main Node is called, it does not call.
const LISTENS: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Why a machine cannot join.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Another kind of machine.
    #[error(
        "the machine is a {machine}, and the programs are for {programs}; name a folder with others by --programs"
    )]
    Architecture {
        /// What it is.
        machine: String,
        /// What there are programs for.
        programs: String,
    },
    /// Nothing can be installed there.
    #[error(
        "nothing can be installed on the machine: its user is not root and has no sudo without a password"
    )]
    NotRoot,
    /// Nothing can be left running there.
    #[error("the machine has neither systemd nor setsid, so nothing can be left running on it")]
    NoSession,
    /// There is no place that only its user may write to.
    #[error(
        "the user that logs in to the machine has no home there, where Muster's files could first be brought to"
    )]
    NoHome,
    /// Images could not be unpacked so that instances can use them.
    #[error(
        "{0} of the machine is on an overlay, where no instance can have a file system of its own; a container needs `mounts: [/var/lib/muster, {{type: tmpfs, target: /run}}]`"
    )]
    Layered(String),
    /// The id of a node.
    #[error("{0:?} cannot be a node's id: it may have letters, digits and dashes")]
    NodeId(String),
}

/// A file that comes from here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Where it is here.
    pub from: PathBuf,
    /// Where it goes, below the machine's root.
    pub to: PathBuf,
    /// Whether it is a program.
    pub is_program: bool,
}

/// What has to be done on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Files that come from here.
    pub copied: Vec<Copied>,
    /// Files that are written.
    pub written: Vec<Text>,
    /// Folders that its programs expect.
    pub folders: Vec<PathBuf>,
    /// Where files are first brought to.
    pub stage: PathBuf,
    /// How commands become root's.
    pub root: Root,
    /// What starts the node.
    pub start: String,
    /// What starts everything in it, once it is provisioned.
    pub work: String,
    /// What shows, on the machine, what its init says.
    pub look: String,
    /// The address that its certificates are for.
    pub address: Ipv4Addr,
}

/// Decides what has to be done for a machine to become this node of this Unit. `architecture` is what the programs are for.
///
/// # Errors
/// When it cannot be.
pub fn plan(
    facts: &Facts,
    unit: &UnitFile,
    node: &str,
    programs: &Path,
    architecture: &str,
) -> Result<Plan, Refusal> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if node.is_empty() || node.len() > 63 || !node.chars().all(is_plain) {
        return Err(Refusal::NodeId(node.to_owned()));
    }
    if facts.architecture != architecture {
        return Err(Refusal::Architecture {
            machine: facts.architecture.clone(),
            programs: architecture.to_owned(),
        });
    }
    let root = facts.root.ok_or(Refusal::NotRoot)?;
    if !facts.has_systemd && !facts.has_setsid {
        return Err(Refusal::NoSession);
    }
    let home = facts.home.as_ref().ok_or(Refusal::NoHome)?;
    if let Some(folder) = &facts.layered {
        return Err(Refusal::Layered(folder.clone()));
    }
    let files = node_files(unit, node);
    let mut copied: Vec<Copied> = PROGRAMS
        .iter()
        .map(|name| Copied {
            from: programs.join(name),
            to: Path::new(BIN).join(name),
            is_program: true,
        })
        .collect();
    let trust = [(&unit.root_certificate, &files.unit.root_certificate)]
        .into_iter()
        .chain(
            unit.revocation_lists
                .iter()
                .zip(&files.unit.revocation_lists),
        );
    copied.extend(trust.map(|(from, to)| Copied {
        from: from.clone(),
        to: to.clone(),
        is_program: false,
    }));
    let mut written = files.files();
    written.push((starter_path(&files.place), starter(&files)));
    if facts.has_systemd {
        written.push((SERVICE.into(), SYSTEMD_SERVICE.to_owned()));
    }
    let place = &files.place;
    let socket = place.manager_socket();
    Ok(Plan {
        copied,
        written,
        folders: place.folders().to_vec(),
        stage: home.join(STAGE),
        root,
        start: start(place, facts),
        look: look(place, facts, root),
        work: format!(
            "MUSTER_CONTROL={socket} {BIN}/sctl start --no-block {EVERYTHING}",
            socket = socket.display()
        ),
        address: LISTENS,
    })
}

fn place() -> Place {
    Place {
        dir: DIR.into(),
        run: RUN.into(),
    }
}

/// What starts the node of a machine that was started itself; nothing where systemd does that, or where no node was installed.
pub(crate) fn restart(facts: &Facts) -> Option<String> {
    (!facts.has_systemd).then(|| restart_at(&place(), facts))
}

fn restart_at(place: &Place, facts: &Facts) -> String {
    let starter = starter_path(place);
    let start = start(place, facts);
    format!(
        "if [ ! -f {} ]; then exit 0; fi\n{start}",
        starter.display()
    )
}

fn node_files(unit: &UnitFile, node: &str) -> NodeFiles {
    let place = place();
    let trust = place.dir.join("trust");
    let lists = (0..unit.revocation_lists.len()).map(|it| trust.join(format!("crl-{it}.pem")));
    NodeFiles {
        name: node.to_owned(),
        programs: BIN.into(),
        address: LISTENS,
        iam_public: IAM_PUBLIC,
        iam_protected: IAM_PROTECTED,
        max_dmips: None,
        unit: UnitMember {
            system_id: unit.system_id.clone(),
            model: unit.model.clone(),
            subjects: unit.subjects.clone(),
            root_certificate: trust.join("root.crt.pem"),
            revocation_lists: lists.collect(),
            iam_public: unit.iam_public_url.clone(),
            iam_protected: unit.iam_protected_url.clone(),
            cm: unit.cm_url.clone(),
        },
        networks: Networks::Host,
        duty: Duty::Member,
        place,
    }
}

fn starter_path(place: &Place) -> PathBuf {
    place.dir.join("start-node")
}

/// Becomes the node's init. A node that is no member yet has only its identity manager.
fn starter(files: &NodeFiles) -> String {
    let place = &files.place;
    let command = |unit: &str| {
        let words = place.init_command(&files.programs, unit, None);
        let words: Vec<String> = words.iter().map(|it| it.display().to_string()).collect();
        words.join(" ")
    };
    format!(
        "#!/bin/sh\n\
         mkdir -p {run}\n\
         echo $$ >{pid}\n\
         if grep -qx provisioned {state} 2>/dev/null; then\n\
         exec {everything}\n\
         fi\n\
         exec {identity}\n",
        run = place.run.display(),
        pid = place.init_pid().display(),
        state = place.provisioning_state().display(),
        everything = command(EVERYTHING),
        identity = command(IDENTITY),
    )
}

const SYSTEMD_SERVICE: &str = "[Unit]\n\
    Description=Muster node\n\
    After=network-online.target\n\
    Wants=network-online.target\n\
    \n\
    [Service]\n\
    ExecStart=/bin/sh /var/lib/muster/node/start-node\n\
    Restart=always\n\
    RestartSec=1s\n\
    KillMode=mixed\n\
    Delegate=yes\n\
    \n\
    [Install]\n\
    WantedBy=multi-user.target\n";

/// systemd reads a service that it does not know yet by itself. Having it read everything again takes a machine without hardware
/// to help it minutes, so that is asked for only where it knows an older service of this name.
const SYSTEMD_START: &str = "set -e\n\
    systemctl --quiet --no-reload enable muster-node.service\n\
    if [ \"$(systemctl show --property=NeedDaemonReload --value muster-node.service)\" != no ]; then\n\
    systemctl daemon-reload\n\
    fi\n\
    systemctl start muster-node.service\n";

/// Starts the node unless it runs. The number of a process says little after the machine was started again, its name does; and the
/// folder of what runs may be in memory, and gone.
fn start(place: &Place, facts: &Facts) -> String {
    if facts.has_systemd {
        return SYSTEMD_START.to_owned();
    }
    format!(
        "if [ -f {pid} ] && grep -qs muster \"/proc/$(cat {pid})/cmdline\"; then exit 0; fi\n\
         mkdir -p {run} || exit 1\n\
         setsid sh {starter} </dev/null >{log} 2>&1 &\n",
        run = place.run.display(),
        pid = place.init_pid().display(),
        log = place.init_log().display(),
        starter = starter_path(place).display(),
    )
}

/// Shows what the node's init says.
fn look(place: &Place, facts: &Facts, root: Root) -> String {
    let look = match facts.has_systemd {
        true => "journalctl --no-pager -n 20 -u muster-node.service".to_owned(),
        false => format!("tail -n 20 {}", place.init_log().display()),
    };
    match root {
        Root::Own => look,
        Root::Sudo => format!("sudo -n {look}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::Command;

    use super::*;

    fn facts() -> Facts {
        Facts {
            architecture: "x86_64".to_owned(),
            root: Some(Root::Own),
            has_systemd: false,
            has_setsid: true,
            home: Some("/root".into()),
            layered: None,
        }
    }

    fn unit() -> UnitFile {
        UnitFile {
            system_id: "demo-1".to_owned(),
            model: "demo;1.0".to_owned(),
            iam_public_url: "10.0.0.1:8090".to_owned(),
            iam_protected_url: "10.0.0.1:8089".to_owned(),
            cm_url: "10.0.0.1:8093".to_owned(),
            root_certificate: "/pki/root.crt.pem".into(),
            revocation_lists: vec!["/pki/a.pem".into(), "/pki/b.pem".into()],
            ..UnitFile::default()
        }
    }

    fn planned(facts: &Facts, node: &str) -> Result<Plan, Refusal> {
        plan(facts, &unit(), node, Path::new("/lib/muster"), "x86_64")
    }

    #[test]
    fn everything_that_a_node_is_told_of_is_brought() {
        let plan = planned(&facts(), "m-01").unwrap();
        let brought: BTreeSet<&PathBuf> = plan.copied.iter().map(|it| &it.to).collect();
        let text = |name: &str| {
            let mut written = plan.written.iter();
            let found = written.find(|(path, _)| path.ends_with(name));
            found.map(|(_, text)| text.clone()).unwrap()
        };
        let iam = text("iam.json");
        for file in ["root.crt.pem", "crl-0.pem", "crl-1.pem"] {
            let path = Path::new(DIR).join("trust").join(file);
            assert!(iam.contains(path.to_str().unwrap()), "{iam}");
            assert!(brought.contains(&path), "{brought:?}");
        }
        for unit in ["muster-iam.service", "muster-sm.service"] {
            let unit = text(unit);
            let line = unit
                .lines()
                .find(|it| it.starts_with("ExecStart="))
                .unwrap();
            let program = line["ExecStart=".len()..].split(' ').next().unwrap();
            assert!(brought.contains(&PathBuf::from(program)), "{program}");
        }
        assert!(iam.contains("\"mainIamPublicServerUrl\": \"10.0.0.1:8090\""));
        // Where nobody else can have put anything, and always the same.
        assert_eq!(plan.stage, Path::new("/root/.muster-join"));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_reason() {
        let other = Facts {
            architecture: "aarch64".to_owned(),
            ..facts()
        };
        assert!(matches!(
            planned(&other, "m-01"),
            Err(Refusal::Architecture { .. })
        ));
        let user = Facts {
            root: None,
            ..facts()
        };
        assert_eq!(planned(&user, "m-01"), Err(Refusal::NotRoot));
        let bare = Facts {
            has_setsid: false,
            ..facts()
        };
        assert_eq!(planned(&bare, "m-01"), Err(Refusal::NoSession));
        let homeless = Facts {
            home: None,
            ..facts()
        };
        assert_eq!(planned(&homeless, "m-01"), Err(Refusal::NoHome));
        let layered = Facts {
            layered: Some("/run".to_owned()),
            ..facts()
        };
        let refused = planned(&layered, "m-01").unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("mounts: [/var/lib/muster, {type: tmpfs")
        );
        for odd in ["", "a b", "a;rm", "a/../b"] {
            assert_eq!(planned(&facts(), odd), Err(Refusal::NodeId(odd.to_owned())));
        }
    }

    #[test]
    fn systemd_starts_the_node_at_every_boot() {
        let machine = Facts {
            has_systemd: true,
            ..facts()
        };
        let plan = planned(&machine, "m-01").unwrap();
        assert!(plan.start.contains("enable muster-node.service"));
        assert!(plan.look.starts_with("journalctl "), "{}", plan.look);
        assert!(
            plan.written
                .iter()
                .any(|(path, _)| path == Path::new(SERVICE))
        );
        let plain = planned(&facts(), "m-01").unwrap();
        assert!(
            !plain
                .written
                .iter()
                .any(|(path, _)| path == Path::new(SERVICE))
        );
        assert!(plain.start.contains("setsid"));
        let user = Facts {
            root: Some(Root::Sudo),
            ..facts()
        };
        let look = planned(&user, "m-01").unwrap().look;
        assert_eq!(look, "sudo -n tail -n 20 /run/muster-node/init.log");
    }
    #[test]
    fn a_node_is_started_again_after_its_machine_and_only_then() {
        let folder = tempfile::Builder::new()
            .prefix("muster-node")
            .tempdir()
            .unwrap();
        let path = |name: &str| folder.path().join(name);
        let place = Place {
            dir: path("dir"),
            run: path("run"),
        };
        let script = restart_at(&place, &facts());
        let run = || {
            let done = Command::new("sh").args(["-c", &script]).status();
            assert!(done.unwrap().success());
        };
        // Nothing is installed there.
        run();
        let pipes = ["begun", "end"].map(path);
        let made = Command::new("mkfifo").args(&pipes).status();
        assert!(made.unwrap().success());
        std::fs::create_dir_all(&place.dir).unwrap();
        std::fs::create_dir_all(&place.run).unwrap();
        // It says when it begins, and then waits.
        let text = format!(
            "echo $$ >{pid}\necho $$ >{begun}\nread -r _ <{end}\n",
            pid = place.init_pid().display(),
            begun = pipes[0].display(),
            end = pipes[1].display(),
        );
        std::fs::write(starter_path(&place), text).unwrap();
        // The number belongs to somebody else since the machine was started again.
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        std::fs::write(place.init_pid(), other.id().to_string()).unwrap();
        run();
        other.kill().unwrap();
        other.wait().unwrap();
        let begun = || std::fs::read_to_string(&pipes[0]).unwrap();
        let end = |number: &str| {
            std::fs::write(&pipes[1], "\n").unwrap();
            let gone = PathBuf::from(format!("/proc/{}", number.trim()));
            while gone.exists() {
                std::thread::yield_now();
            }
        };
        end(&begun());
        // What was in memory is gone with the machine that was.
        std::fs::remove_dir_all(&place.run).unwrap();
        run();
        let first = begun();
        assert_eq!(std::fs::read_to_string(place.init_pid()).unwrap(), first);
        run();
        assert_eq!(
            std::fs::read_to_string(place.init_pid()).unwrap(),
            first,
            "it runs already"
        );
        end(&first);
        run();
        let second = begun();
        assert_ne!(first, second);
        end(&second);
    }

    #[test]
    fn systemd_starts_a_node_again_by_itself() {
        let machine = Facts {
            has_systemd: true,
            ..facts()
        };
        assert_eq!(restart(&machine), None);
        let script = restart(&facts()).unwrap();
        assert!(script.contains("setsid sh /var/lib/muster/node/start-node"));
    }
}
