//! Hosts on one machine: network namespaces on a common switch, and ways to break it.
//!
//! Each host has `lo` and an `eth0` with an address of 10.77.0.0/16; the switch is a bridge in a
//! namespace of its own. No namespace has a name and none is joined to the machine's own network: they
//! are held by descriptors of the test process and by programs that run in them, so they are gone when
//! those are, even after `kill -9`. Every [`Net`] may use the same addresses, since none sees another.
//!
//! | fault | what peers see |
//! |---|---|
//! | [`Link::cut`], [`Link::restore`] | the cable is pulled: frames vanish, the host sees no carrier |
//! | [`Net::partition`], [`Net::heal`] | two hosts do not hear each other; all others are unaffected |
//! | [`Net::loss`] | that share of all frames vanishes, at random |
//! | [`Link::rate`], [`Link::unlimited`] | a slow link, each way |
//!
//! Delay is not among them, since many kernels lack netem: for TCP use
//! [`TcpProxy::delay`](crate::proxy::TcpProxy::delay). Neighbour entries are fixed, so a healed link
//! works at once, and loss hits what was sent rather than the search for its receiver.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::faults::Faults;
pub(crate) use self::namespace::enter_before_exec;
pub use crate::command::ToolError;
use crate::command::run_tool;
use crate::try_poll_for;

mod faults;
mod namespace;

/// Every host knows every other's address beforehand, which grows with the square.
const MAX_HOSTS: usize = 64;
/// For what takes a second at most, on a machine that may be busy.
const CARRIER_TIME: Duration = Duration::from_secs(15);

/// Why a network could not be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// More hosts than the lab is made for.
    #[error("{count} hosts asked for, at most {MAX_HOSTS} fit on one switch")]
    TooManyHosts {
        /// How many.
        count: usize,
    },
    /// Two hosts have the same name.
    #[error("two hosts are called {name:?}")]
    DuplicateHost {
        /// The name.
        name: String,
    },
    /// A namespace could not be made or entered. It needs root.
    #[error("cannot {operation} the network namespace of {host:?}")]
    Namespace {
        /// What was to be done.
        operation: &'static str,
        /// Whose namespace.
        host: String,
        /// What the system reported.
        #[source]
        source: std::io::Error,
    },
    /// A change of links, rules or queues failed.
    #[error("cannot {operation}")]
    Configure {
        /// What was to be done.
        operation: String,
        /// The command that failed.
        #[source]
        source: ToolError,
    },
    /// A link does not carry frames.
    #[error("the link of {host:?} has no carrier after {CARRIER_TIME:?}")]
    NoCarrier {
        /// Whose link.
        host: String,
    },
}

/// A switch with hosts.
#[derive(Debug)]
pub struct Net {
    switch: Arc<OwnedFd>,
    hosts: Vec<Host>,
    faults: Mutex<Faults>,
}

/// One host: a network namespace with an `eth0`.
#[derive(Debug, Clone)]
pub struct Host {
    name: String,
    namespace: Arc<OwnedFd>,
    index: u8,
}

/// The cable between a host and the switch.
#[derive(Debug)]
pub struct Link<'net> {
    switch: &'net Arc<OwnedFd>,
    host: &'net Host,
}

impl Net {
    /// Makes a switch with a host for each name; all hear each other.
    pub fn new(names: &[&str]) -> Result<Self, NetError> {
        if names.len() > MAX_HOSTS {
            return Err(NetError::TooManyHosts { count: names.len() });
        }
        let mut hosts: Vec<Host> = Vec::new();
        for (index, name) in (1..).zip(names) {
            if hosts.iter().any(|host| host.name == *name) {
                return Err(NetError::DuplicateHost {
                    name: (*name).to_owned(),
                });
            }
            let namespace = Arc::new(create_namespace(name)?);
            hosts.push(Host {
                name: (*name).to_owned(),
                namespace,
                index,
            });
        }
        let net = Self {
            switch: Arc::new(create_namespace("the switch")?),
            hosts,
            faults: Mutex::default(),
        };
        net.connect()?;
        Ok(net)
    }

    fn connect(&self) -> Result<(), NetError> {
        let mut links = String::from(
            "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
             link set br0 up\n",
        );
        for host in &self.hosts {
            let (port, mac) = (host.port(), host.mac());
            // The tool is another process: it reaches the namespace through this one's descriptors.
            let namespace = format!(
                "/proc/{}/fd/{}",
                std::process::id(),
                host.namespace.as_raw_fd()
            );
            links += &format!(
                "link add {port} type veth peer name eth0 address {mac} netns {namespace}\n\
                 link set {port} master br0 up\n"
            );
        }
        configure(
            &self.switch,
            "build the switch",
            &["ip", "-batch", "-"],
            &links,
        )?;

        for host in &self.hosts {
            let mut settings = format!(
                "link set lo up\nlink set eth0 up\naddress add {}/16 dev eth0\n",
                host.ip()
            );
            for other in self.hosts.iter().filter(|other| other.index != host.index) {
                let (ip, mac) = (other.ip(), other.mac());
                settings += &format!("neighbour add {ip} lladdr {mac} dev eth0 nud permanent\n");
            }
            let operation = format!("set host {:?} up", host.name);
            configure(
                &host.namespace,
                &operation,
                &["ip", "-batch", "-"],
                &settings,
            )?;
        }
        let link = |host| Link {
            switch: &self.switch,
            host,
        };
        self.hosts.iter().try_for_each(|host| link(host).wait_up())
    }

    /// The host of that name.
    ///
    /// # Panics
    /// Panics when there is none: the test misspelt it.
    #[track_caller]
    pub fn host(&self, name: &str) -> &Host {
        self.hosts
            .iter()
            .find(|host| host.name == name)
            .unwrap_or_else(|| panic!("this network has no host {name:?}"))
    }

    /// All hosts, in the order given.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The link of the host of that name.
    ///
    /// # Panics
    /// As [`Net::host`].
    #[track_caller]
    pub fn link(&self, name: &str) -> Link<'_> {
        Link {
            switch: &self.switch,
            host: self.host(name),
        }
    }

    /// Makes two hosts deaf to each other, and to each other only.
    ///
    /// # Panics
    /// As [`Net::host`].
    #[track_caller]
    pub fn partition(&self, a: &str, b: &str) -> Result<(), NetError> {
        let (a, b) = (self.host(a), self.host(b));
        let operation = format!("part {:?} from {:?}", a.name, b.name);
        self.change_faults(operation, |faults| faults.partition(&a.port(), &b.port()))
    }

    /// Ends [`Net::partition`].
    ///
    /// # Panics
    /// As [`Net::host`].
    #[track_caller]
    pub fn heal(&self, a: &str, b: &str) -> Result<(), NetError> {
        let (a, b) = (self.host(a), self.host(b));
        let operation = format!("reunite {:?} and {:?}", a.name, b.name);
        self.change_faults(operation, |faults| faults.heal(&a.port(), &b.port()))
    }

    /// Loses `percent` of all frames between hosts, at random; 0 ends it.
    pub fn loss(&self, percent: u8) -> Result<(), NetError> {
        self.change_faults(format!("lose {percent} % of all frames"), |faults| {
            faults.lose(percent)
        })
    }

    fn change_faults(
        &self,
        operation: String,
        change: impl FnOnce(&mut Faults),
    ) -> Result<(), NetError> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = faults.clone();
        change(&mut changed);
        configure(
            &self.switch,
            &operation,
            &["nft", "-f", "-"],
            &changed.ruleset(),
        )?;
        *faults = changed;
        Ok(())
    }
}

impl Host {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address on the switch.
    pub fn ip(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.index)
    }

    /// A command that will run on this host. Only its network is the host's; files and processes are
    /// the machine's.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        enter_before_exec(&mut command, self.namespace());
        command
    }

    /// Runs `work` in a thread on this host. Sockets belong to the host on which they were made, for
    /// good: make them here and use them anywhere (for tokio: `set_nonblocking(true)`, then `from_std`).
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetError> {
        namespace::run_inside(&self.namespace, work).map_err(|source| NetError::Namespace {
            operation: "enter",
            host: self.name.clone(),
            source,
        })
    }

    /// The namespace, which exists as long as somebody holds this.
    pub fn namespace(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.namespace)
    }

    fn port(&self) -> String {
        format!("p{}", self.index)
    }

    fn mac(&self) -> String {
        format!("02:6d:75:73:74:{:02x}", self.index)
    }
}

impl Link<'_> {
    /// Pulls the cable.
    pub fn cut(&self) -> Result<(), NetError> {
        self.set("down")
    }

    /// Plugs the cable in again, and waits until it carries frames.
    pub fn restore(&self) -> Result<(), NetError> {
        self.set("up")?;
        self.wait_up()
    }

    /// The kernel notices a carrier in its own time, up to a second later; frames are lost until then.
    fn wait_up(&self) -> Result<(), NetError> {
        let port = self.host.port();
        let ends = [
            (&self.host.namespace, "eth0", "state UP"),
            (self.switch, &port, "forwarding"),
        ];
        for (namespace, device, sign) in ends {
            let up = try_poll_for(CARRIER_TIME, || {
                let words = ["ip", "-details", "-oneline", "link", "show", device];
                match run_in(namespace, &words, "") {
                    Ok(text) if !text.contains(sign) => None,
                    outcome => Some(outcome.map(drop)),
                }
            });
            let name = || self.host.name.clone();
            up.ok_or_else(|| NetError::NoCarrier { host: name() })?
                .map_err(|source| NetError::Configure {
                    operation: format!("look at the link of {:?}", name()),
                    source,
                })?;
        }
        Ok(())
    }

    fn set(&self, state: &str) -> Result<(), NetError> {
        let operation = format!("set the link of {:?} {state}", self.host.name);
        let port = self.host.port();
        configure(
            self.switch,
            &operation,
            &["ip", "link", "set", &port, state],
            "",
        )
    }

    /// Limits the link to `mbit` million bits per second, each way.
    pub fn rate(&self, mbit: u32) -> Result<(), NetError> {
        // At least as much as passes between two ticks of a slow clock, and a few full frames.
        let burst = (u64::from(mbit) * 1_000_000 / 8 / 250).max(16 * 1024);
        let settings = format!("root tbf rate {mbit}mbit burst {burst} latency 100ms");
        let operation = format!("limit the link of {:?} to {mbit} Mbit/s", self.host.name);
        self.each_end(&operation, "replace", &settings)
    }

    /// Ends [`Link::rate`]. Without a limit in force, that is an error.
    pub fn unlimited(&self) -> Result<(), NetError> {
        let operation = format!("free the link of {:?}", self.host.name);
        self.each_end(&operation, "delete", "root")
    }

    fn each_end(&self, operation: &str, verb: &str, settings: &str) -> Result<(), NetError> {
        let ends = [
            (self.switch, self.host.port()),
            (&self.host.namespace, "eth0".to_owned()),
        ];
        for (namespace, device) in ends {
            let input = format!("qdisc {verb} dev {device} {settings}\n");
            configure(namespace, operation, &["tc", "-batch", "-"], &input)?;
        }
        Ok(())
    }
}

/// Whether namespaces can be made here.
pub(crate) fn preflight() -> std::io::Result<()> {
    namespace::create().map(drop)
}

fn create_namespace(host: &str) -> Result<OwnedFd, NetError> {
    namespace::create().map_err(|source| NetError::Namespace {
        operation: "make",
        host: host.to_owned(),
        source,
    })
}

fn configure(
    namespace: &Arc<OwnedFd>,
    operation: &str,
    words: &[&str],
    input: &str,
) -> Result<(), NetError> {
    run_in(namespace, words, input)
        .map(drop)
        .map_err(|source| NetError::Configure {
            operation: operation.to_owned(),
            source,
        })
}

fn run_in(namespace: &Arc<OwnedFd>, words: &[&str], input: &str) -> Result<String, ToolError> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    enter_before_exec(&mut command, Arc::clone(namespace));
    run_tool(&mut command, input)
}

#[cfg(test)]
mod tests;
