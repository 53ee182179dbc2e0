//! A running daemon with a manager's end of the feed in the test's hands.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_control::feed::{FeedMessage, Stream};
use muster_journal::{Entry, Journal, Matches};
use muster_lab::poll_until;
use muster_lab::program::{Process, Program};
use muster_logd::control::StatusReply;
use muster_varlink::Client;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg, sendmsg_addr, socketpair, sockopt,
};
use serde_json::Value;

/// For everything that is expected to happen.
pub(crate) const TIME: Duration = Duration::from_secs(30);

/// Passes descriptors on by their numbers, and the pid that the daemon will have.
const STARTER: &str = r#"
sources=($1); disk=$2; shift 2
read -r size full folder <<< "$disk" || true
[ -z "$disk" ] || mount -t tmpfs -o "size=$size" none "$folder"
[ "$full" != true ] || head -c 1G /dev/zero > "$folder/filler" 2> /dev/null || true
number=3
for source in "${sources[@]}"; do eval "exec $number<&$source"; number=$((number + 1)); done
export LISTEN_PID=$$
exec "$@"
"#;

/// An entry's fields; of several with one name, the last.
pub(crate) type Fields = BTreeMap<String, String>;

pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    program: PathBuf,
    feed: OwnedFd,
    feed_logd: OwnedFd,
    syslog: OwnedFd,
    native: OwnedFd,
    /// What the manager's parent would keep: living streams with their reading ends.
    streams: Vec<(Stream, OwnedFd)>,
    daemon: Option<Process>,
    extra_arguments: Vec<String>,
    /// The size of a disk of its own for the journals in memory, and whether it is full.
    small_disk: Option<(&'static str, bool)>,
}

impl Rig {
    /// A rig with this configuration below `[Journal]`; nothing runs yet.
    pub(crate) fn new(config: &str) -> Self {
        Self::with_program(config, PathBuf::from(env!("CARGO_BIN_EXE_muster-logd")))
    }

    /// A rig whose daemon can be made to kill itself.
    pub(crate) fn that_can_die(config: &str) -> Self {
        Self::with_program(config, muster_fault::test_program("logd_that_can_die"))
    }

    fn with_program(config: &str, program: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join("logd.conf"),
            format!("[Journal]\n{config}\n"),
        )
        .expect("configuration");
        // Descriptors that the daemon inherits are not closed when a program is started.
        let packets = |kind, flags| socketpair(AddressFamily::UNIX, kind, flags, None);
        let (feed, feed_logd) =
            packets(SocketType::SEQPACKET, SocketFlags::empty()).expect("a pair");
        Self {
            syslog: bound(&folder.path().join("syslog")),
            native: bound(&folder.path().join("native")),
            folder,
            program,
            feed,
            feed_logd,
            streams: Vec::new(),
            daemon: None,
            extra_arguments: Vec::new(),
            small_disk: None,
        }
    }

    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.extra_arguments.push(argument.to_owned());
        self
    }

    /// Gives the daemon a small disk, in a mount namespace of its own; perhaps one that is full already.
    pub(crate) fn on_small_disk(mut self, size: &'static str, is_full: bool) -> Self {
        std::fs::create_dir(self.path("run")).expect("made");
        self.small_disk = Some((size, is_full));
        self
    }

    /// Where the journals in memory can be seen from here.
    pub(crate) fn disk(&self) -> PathBuf {
        let path = self.path("run");
        match (self.small_disk, &self.daemon) {
            (Some(_), Some(daemon)) => {
                let inside = path.strip_prefix("/").expect("absolute");
                PathBuf::from(format!("/proc/{}/root", daemon.pid())).join(inside)
            }
            _ => path,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the daemon, as the manager would: with the sockets that outlive it, then all streams.
    pub(crate) fn start(&mut self) {
        self.start_with("");
    }

    /// The same with a fault point armed.
    pub(crate) fn start_with(&mut self, fault: &str) {
        let numbers =
            [&self.feed_logd, &self.syslog, &self.native].map(|fd| fd.as_raw_fd().to_string());
        let path = |name| self.path(name).to_string_lossy().into_owned();
        let (shell, disk) = match self.small_disk {
            None => (Program::new("/bin/bash"), String::new()),
            Some((size, is_full)) => {
                let unshare = Program::new("/usr/bin/unshare").args(["--mount", "/bin/bash"]);
                (unshare, format!("{size} {is_full} {}", path("run")))
            }
        };
        let mut program = shell
            .args(["-c", STARTER, "starter", &numbers.join(" "), &disk])
            .arg(&self.program)
            .args(["--config", &path("logd.conf"), "--state", &path("state")])
            .args(["--runtime-journal", &path("run"), "--journal", &path("var")])
            .args([
                "--varlink",
                &path("varlink"),
                "--machine-id",
                &path("machine-id"),
            ])
            .args(&self.extra_arguments)
            .env("LISTEN_FDS", "3")
            .env("LISTEN_FDNAMES", "feed:syslog:native");
        if !self
            .extra_arguments
            .iter()
            .any(|argument| argument.starts_with("--kmsg"))
        {
            program = program.arg("--no-kmsg");
        }
        if !fault.is_empty() {
            program = program.env("MUSTER_FAULT", fault);
        }
        self.daemon = Some(program.start().expect("started"));
        self.send(
            &FeedMessage::Hello {
                boot_id: "0".into(),
            },
            None,
        );
        for (stream, reader) in &self.streams {
            let message = FeedMessage::Stream(Box::new(stream.clone()));
            send(&self.feed, &message, Some(reader.as_fd()));
        }
    }

    /// Says something on the feed.
    pub(crate) fn send(&self, message: &FeedMessage, descriptor: Option<BorrowedFd<'_>>) {
        send(&self.feed, message, descriptor);
    }

    /// Gives the daemon a stream of a unit; what is returned is the service's end.
    pub(crate) fn stream(&mut self, unit: &str, change: impl FnOnce(&mut Stream)) -> OwnedFd {
        let (writer, reader) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .expect("a pair");
        sockopt::set_socket_passcred(&reader, true).expect("set");
        let mut stream = Stream {
            id: format!("{:032x}", self.streams.len() + 1).into(),
            unit: unit.into(),
            slice: "system.slice".into(),
            cgroup: format!("/system.slice/{unit}").into(),
            invocation: "0123456789abcdef0123456789abcdef".into(),
            identifier: unit.trim_end_matches(".service").into(),
            priority: 6,
            facility: 3,
            level_prefix: true,
            to_journal: true,
            ..Stream::default()
        };
        change(&mut stream);
        if self.daemon.is_some() {
            self.send(
                &FeedMessage::Stream(Box::new(stream.clone())),
                Some(reader.as_fd()),
            );
        }
        self.streams.push((stream, reader));
        writer
    }

    /// The run of a unit is over: its reading end is kept no longer.
    pub(crate) fn forget_streams(&mut self) {
        self.streams.clear();
    }

    pub(crate) fn daemon(&mut self) -> &mut Process {
        self.daemon.as_mut().expect("a running daemon")
    }

    pub(crate) fn kill(&mut self) {
        self.daemon().kill9().expect("killed");
        self.daemon = None;
    }

    pub(crate) fn stop(&mut self) {
        let status = self.daemon().terminate(TIME).expect("ended");
        assert!(status.success(), "{status}");
        self.daemon = None;
    }

    /// Calls a method of the control interface, if the daemon is there to answer.
    pub(crate) fn try_call(&self, method: &str, parameters: &Value) -> Result<Value, String> {
        let mut client = Client::connect("muster-logd", &self.path("varlink"))
            .map_err(|error| format!("{error:?}"))?;
        client.set_timeout(Some(TIME));
        client
            .call(&format!("io.muster.Log.{method}"), parameters)
            .map_err(|error| format!("{error:?}"))
    }

    /// Calls a method of the control interface of a daemon that may still be starting.
    pub(crate) fn call(&self, method: &str, parameters: &Value) -> Value {
        poll_until(TIME, "the control socket is there", || {
            Client::connect("muster-logd", &self.path("varlink")).is_ok()
        });
        self.try_call(method, parameters)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Everything that was sent is in the journal afterwards.
    pub(crate) fn synchronize(&self) {
        self.call("Synchronize", &serde_json::json!({}));
    }

    pub(crate) fn status(&self) -> StatusReply {
        let reply = self.call("Status", &serde_json::json!({}));
        serde_json::from_value(reply).expect("a status")
    }

    /// The folders of journal files, in memory and on disk.
    pub(crate) fn journals(&self) -> Vec<PathBuf> {
        let found = [self.disk(), self.path("var")]
            .into_iter()
            .flat_map(|root| {
                let folders = std::fs::read_dir(root).into_iter().flatten().flatten();
                let paths = folders.map(|entry| entry.path());
                paths.filter(|path| path.is_dir()).collect::<Vec<_>>()
            });
        found.collect()
    }

    fn journal(&self) -> Journal {
        let folders = self.journals();
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let journal = Journal::open_dirs(&folders).expect("journals");
        assert_eq!(journal.skipped().count(), 0, "files that cannot be read");
        journal
    }

    /// All entries, by the workspace's own reader.
    pub(crate) fn entries(&self) -> Vec<Fields> {
        let mut journal = self.journal();
        let mut entries = Vec::new();
        while let Some(entry) = journal.next_entry().expect("readable") {
            let fields = entry.fields().expect("fields");
            entries.push(fields.iter().map(|field| split(field)).collect());
        }
        entries
    }

    /// The text of all entries that have this field.
    pub(crate) fn messages(&self, name: &str, value: &str) -> Vec<String> {
        let text = |entry: &Entry| {
            let message = entry
                .field(b"MESSAGE")
                .expect("readable")
                .unwrap_or_default();
            String::from_utf8_lossy(&message).into_owned()
        };
        self.matching(name, value).iter().map(text).collect()
    }

    /// All entries that have this field.
    pub(crate) fn matching(&self, name: &str, value: &str) -> Vec<Entry> {
        let mut journal = self.journal();
        let mut matches = Matches::new();
        matches.add(format!("{name}={value}").as_bytes());
        journal.set_matches(matches);
        let mut entries = Vec::new();
        while let Some(entry) = journal.next_entry().expect("readable") {
            entries.push(entry);
        }
        entries
    }

    /// What journalctl says to these files.
    pub(crate) fn journalctl(&self, arguments: &[&str]) -> String {
        let mut text = String::new();
        for folder in self.journals() {
            let output = Command::new("journalctl")
                .arg("-D")
                .arg(&folder)
                .args(arguments)
                .output()
                .expect("journalctl");
            let (out, err) = (
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
            );
            assert!(
                output.status.success(),
                "journalctl {arguments:?}: {out}{err}"
            );
            text.push_str(&out);
        }
        text
    }

    /// journalctl finds nothing wrong with any file.
    pub(crate) fn verify(&self) {
        self.journalctl(&["--verify", "--quiet"]);
    }

    pub(crate) fn syslog(&self, datagram: &[u8]) {
        send_datagram(&self.path("syslog"), datagram);
    }

    /// A native message that is in a file.
    pub(crate) fn native_file(&self, file: BorrowedFd<'_>) {
        let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        send_with(&socket.into(), &[], Some(&self.path("native")), Some(file));
    }

    pub(crate) fn native(&self, datagram: &[u8]) {
        send_datagram(&self.path("native"), datagram);
    }
}

/// Sends bytes and perhaps a descriptor, as one message.
fn send_with(
    socket: &OwnedFd,
    bytes: &[u8],
    to: Option<&Path>,
    descriptor: Option<BorrowedFd<'_>>,
) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    }
    let bytes = [IoSlice::new(bytes)];
    let sent = match to {
        None => sendmsg(socket, &bytes, &mut control, SendFlags::empty()),
        Some(path) => {
            let address = SocketAddrUnix::new(path).expect("a short path");
            sendmsg_addr(socket, &address, &bytes, &mut control, SendFlags::empty())
        }
    };
    sent.expect("sent");
}

fn bound(path: &Path) -> OwnedFd {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::empty(),
        None,
    )
    .expect("a socket");
    let address = SocketAddrUnix::new(path).expect("a short path");
    rustix::net::bind(&socket, &address).expect("bound");
    sockopt::set_socket_passcred(&socket, true).expect("set");
    socket
}

fn send_datagram(path: &Path, datagram: &[u8]) {
    let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
    socket.send_to(datagram, path).expect("sent");
}

fn send(feed: &OwnedFd, message: &FeedMessage, descriptor: Option<BorrowedFd<'_>>) {
    let bytes = serde_json::to_vec(message).expect("JSON");
    send_with(feed, &bytes, None, descriptor);
}

fn split(field: &[u8]) -> (String, String) {
    let text = String::from_utf8_lossy(field);
    let (name, value) = text.split_once('=').expect("NAME=value");
    (name.to_owned(), value.to_owned())
}

/// Writes all of it, waiting for room.
pub(crate) fn write_all(writer: &OwnedFd, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(writer, rest).expect("written");
        rest = &rest[written..];
    }
}
