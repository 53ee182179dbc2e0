//! Paths and names, all derived from the two folders. Pure.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use muster_node_files::Place;

/// A path of a socket has at most so many bytes.
const MAX_SOCKET: usize = 107;
/// The longest path below the folder for sockets that is a socket's.
const LONGEST_SOCKET: &str = "second/io.muster.Manager";

/// The nodes.
pub(crate) const MAIN: &str = "main";
pub(crate) const SECOND: &str = "second";
/// Whom the demo's instances run for, and so the id of their network.
pub(crate) const SUBJECT: &str = "demo";
/// The two ends of a pair of links in the second node.
pub(crate) const SECOND_LINK: &str = "eth0";
pub(crate) const SECOND_UPLINK: &str = "eth1";

/// Why a Unit cannot be kept in a folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// It is not absolute.
    #[error("{} is not an absolute path", path.display())]
    Relative {
        /// Which.
        path: PathBuf,
    },
    /// Unit files could not name it.
    #[error("{} has other characters than letters, digits, . _ - and /", path.display())]
    Characters {
        /// Which.
        path: PathBuf,
    },
    /// Sockets in it could not be bound.
    #[error("{} is too long for sockets; name a shorter one with --run", path.display())]
    TooLong {
        /// Which.
        path: PathBuf,
    },
    /// It would take the whole machine with it.
    #[error("{} holds more than a demo", path.display())]
    TooMuch {
        /// Which.
        path: PathBuf,
    },
}

/// Where everything is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) dir: PathBuf,
    pub(crate) run: PathBuf,
    /// Tells links and cgroups of two demos apart.
    tag: String,
}

impl Layout {
    pub(crate) fn new(dir: &Path, run: &Path) -> Result<Self, LayoutError> {
        for path in [dir, run] {
            check(path)?;
        }
        if run.as_os_str().len() + 1 + LONGEST_SOCKET.len() > MAX_SOCKET {
            let path = run.to_owned();
            return Err(LayoutError::TooLong { path });
        }
        Ok(Self {
            dir: dir.to_owned(),
            run: run.to_owned(),
            tag: tag(dir),
        })
    }

    pub(crate) fn node(&self, name: &'static str) -> NodePlace {
        NodePlace {
            name,
            place: Place {
                dir: self.dir.join(name),
                run: self.run.join(name),
            },
        }
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.dir.join("images")
    }

    pub(crate) fn desired(&self) -> PathBuf {
        self.dir.join("desired.yaml")
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.dir.join("unit.json")
    }

    /// What machines that join are told.
    pub(crate) fn join(&self) -> PathBuf {
        self.dir.join("join.json")
    }

    /// Where operators' tools reach the Communication Manager.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.run.join("cm.sock")
    }

    /// The name of the demo's cgroup in every tree.
    pub(crate) fn cgroup(&self) -> String {
        format!("muster-demo-{}", self.tag)
    }

    /// The switch that the nodes are on; the Main Node's address is on it, so that a cut link takes nothing else away.
    pub(crate) fn bridge(&self) -> String {
        format!("mu{}b", self.tag)
    }

    /// The switch's end of the pair to the second node.
    pub(crate) fn link(&self) -> String {
        format!("mu{}l", self.tag)
    }

    /// The Main Node's end of the pair for the instances' network.
    pub(crate) fn uplink(&self) -> String {
        format!("mu{}u", self.tag)
    }
}

/// A folder that holds nothing but what is made here, with a name that unit files and shells can take as it is.
fn check(path: &Path) -> Result<(), LayoutError> {
    let owned = || path.to_owned();
    if !path.is_absolute() {
        return Err(LayoutError::Relative { path: owned() });
    }
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/".contains(byte);
    let has_steps = path.components().any(|it| it.as_os_str() == "..");
    if has_steps || !path.as_os_str().as_encoded_bytes().iter().all(is_plain) {
        return Err(LayoutError::Characters { path: owned() });
    }
    // `/` and the folders of the system have one name; a demo's have two at least.
    if path.components().count() < 3 {
        return Err(LayoutError::TooMuch { path: owned() });
    }
    Ok(())
}

/// Six digits of FNV-1a: the same for the same folder, whoever asks.
fn tag(dir: &Path) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in dir.as_os_str().as_encoded_bytes() {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    format!("{:06x}", hash & 0x00ff_ffff)
}

/// The folders of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodePlace {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
}

impl Deref for NodePlace {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

/// The addresses of both nodes on the link between them: `10.213.N.1` and `.2`.
pub(crate) fn addresses(subnet: u8) -> (Ipv4Addr, Ipv4Addr) {
    let host = |last| Ipv4Addr::new(10, 213, subnet, last);
    (host(1), host(2))
}

/// A subnet that no route of the machine leads to, beginning with the one that the folder's name suggests.
pub(crate) fn free_subnet(dir: &Path, routes: &str) -> Option<u8> {
    let first = tag(dir).bytes().fold(0_u8, u8::wrapping_add);
    let is_free = |subnet: &u8| {
        let prefix = format!("10.213.{subnet}.");
        !routes
            .split_whitespace()
            .any(|word| word.starts_with(&prefix))
    };
    (0..=u8::MAX)
        .map(|step| first.wrapping_add(step))
        .find(is_free)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(dir: &str) -> Result<Layout, LayoutError> {
        Layout::new(Path::new(dir), &Path::new(dir).join("run"))
    }

    #[test]
    fn folders_that_would_be_trouble_are_refused() {
        assert!(matches!(layout("demo"), Err(LayoutError::Relative { .. })));
        for dir in ["/var/a b", "/var/a%h", "/var/../x", "/var/a:b", "/var/ä"] {
            assert!(
                matches!(layout(dir), Err(LayoutError::Characters { .. })),
                "{dir}"
            );
        }
        for dir in ["/", "/var", "/home/"] {
            assert!(
                matches!(layout(dir), Err(LayoutError::TooMuch { .. })),
                "{dir}"
            );
        }
        let long = format!("/tmp/{}", "x".repeat(90));
        assert!(matches!(layout(&long), Err(LayoutError::TooLong { .. })));
        assert!(layout("/var/lib/muster/demo").is_ok());
    }

    #[test]
    fn a_subnet_in_use_is_not_taken() {
        let dir = Path::new("/var/lib/muster/demo");
        let first = free_subnet(dir, "").unwrap();
        let routes = format!("default via 10.0.0.1\n10.213.{first}.0/24 dev x\n");
        assert_ne!(free_subnet(dir, &routes), Some(first));
        let all: String = (0..=255).map(|it| format!("10.213.{it}.0/24 ")).collect();
        assert_eq!(free_subnet(dir, &all), None);
    }

    proptest! {
        #[test]
        fn names_of_links_fit_and_differ(dir in "/[a-z]{1,9}/[a-z0-9._-]{1,40}") {
            prop_assume!(!dir.contains("..") && !dir.ends_with("/."));
            let layout = layout(&dir).unwrap();
            let names = [layout.bridge(), layout.link(), layout.uplink()];
            for name in &names {
                prop_assert!(name.len() <= 15, "{name}");
            }
            prop_assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        }
    }
}
