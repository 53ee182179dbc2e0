//! What is SSH's own: keys, connections that are lost, machines behind machines.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_executor::ssh::{HostKeys, SshAccess, SshExecutor, SshIdentity, fingerprint};
use muster_executor::{Command, Executor as _, ExecutorError, Exit, FailureClass, Transfer};
use muster_telemetry::ErrorChain;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::proxy::Proxy;
use crate::server::{PATIENCE, Server, keygen};

/// Whether a server can let anybody in here; says why not.
pub(crate) fn can_log_in() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: an SSH server of a test lets root in, and this is not root");
    }
    is_root
}

async fn whole(executor: &SshExecutor, script: &str) -> (Exit, String) {
    let running = executor.run(&Command::shell(script)).await.unwrap();
    let output = running.output(1 << 20).await.unwrap();
    (
        output.exit,
        String::from_utf8(output.stdout).unwrap().trim().to_owned(),
    )
}

#[tokio::test]
async fn a_changed_host_key_is_refused_and_both_fingerprints_are_named() {
    if !can_log_in() {
        return;
    }
    let (server, other) = (Server::start(), Server::start());
    let pinned = other.host_key();
    let access = SshAccess {
        host_keys: HostKeys::pinned([pinned.as_str()]).unwrap(),
        ..server.access()
    };
    let error = SshExecutor::new(access).probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    let text = ErrorChain(&error).to_string();
    for key in [server.host_key(), pinned] {
        let key = russh::keys::PublicKey::from_openssh(key.trim()).unwrap();
        assert!(text.contains(&fingerprint(&key)), "{text}");
    }
}

#[tokio::test]
async fn nothing_is_trusted_unless_the_caller_says_so_and_then_only_once() {
    if !can_log_in() {
        return;
    }
    let (server, other) = (Server::start(), Server::start());
    let none = SshAccess {
        host_keys: HostKeys::Pinned(Vec::new()),
        ..server.access()
    };
    let error = SshExecutor::new(none).probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    let first = HostKeys::trust_first();
    let trusting = SshAccess {
        host_keys: first.clone(),
        ..server.access()
    };
    SshExecutor::new(trusting).probe().await.unwrap();
    let elsewhere = SshAccess {
        host_keys: first,
        ..other.access()
    };
    let error = SshExecutor::new(elsewhere).probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
}

#[tokio::test]
async fn a_key_that_nobody_knows_is_refused_and_a_silent_port_is_unreachable() {
    if !can_log_in() {
        return;
    }
    let (server, other) = (Server::start(), Server::start());
    let stranger = SshAccess {
        identities: vec![other.identity()],
        ..server.access()
    };
    let error = SshExecutor::new(stranger).probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    assert!(
        ErrorChain(&error).to_string().contains("lets nobody in"),
        "{error}"
    );
    // Somebody listens and says nothing.
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let mut access = server.access_by(silent.local_addr().unwrap().port());
    access.connect_timeout = Duration::from_millis(300);
    let error = SshExecutor::new(access).probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Unreachable);
    let port = silent.local_addr().unwrap().port();
    drop(silent);
    let nobody = SshExecutor::new(server.access_by(port));
    let error = nobody.probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Unreachable);
}

/// An agent that ends with this value.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An agent without keys, and where it listens.
fn agent(server: &Server) -> (Agent, PathBuf) {
    let socket = server.path("agent");
    let agent = Process::new("ssh-agent")
        .args(["-D", "-a"])
        .arg(&socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let agent = Agent(agent.unwrap());
    let deadline = Instant::now() + PATIENCE;
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(Instant::now() < deadline, "the agent does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    (agent, socket)
}

/// Gives an agent a key.
fn add(socket: &Path, key: &Path) {
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    let added = Process::new("ssh-add")
        .arg("-q")
        .arg(key)
        .env("SSH_AUTH_SOCK", socket)
        .stderr(Stdio::null())
        .status();
    assert!(added.unwrap().success());
}

#[tokio::test]
async fn an_agent_lets_its_keys_be_used() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let (_agent, socket) = agent(&server);
    let access = SshAccess {
        identities: vec![SshIdentity::Agent(socket.clone())],
        ..server.access()
    };
    let error = SshExecutor::new(access.clone()).probe().await.unwrap_err();
    assert_eq!(
        error.class,
        FailureClass::Refused,
        "the agent has no key yet"
    );
    add(&socket, &server.path("client"));
    SshExecutor::new(access).probe().await.unwrap();
}

#[tokio::test]
async fn an_agent_that_is_away_leaves_the_other_identities() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let away = SshIdentity::Agent(server.path("nobody-here"));
    let access = SshAccess {
        identities: vec![away.clone(), server.identity()],
        ..server.access()
    };
    SshExecutor::new(access.clone()).probe().await.unwrap();
    // Without others, it is said what was wrong with it.
    let identities = vec![away];
    let only = SshAccess {
        identities,
        ..access
    };
    let error = SshExecutor::new(only).probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    let text = ErrorChain(&error).to_string();
    assert!(text.contains("nobody-here was of no help"), "{text}");
}

#[tokio::test]
async fn an_agent_signs_with_an_rsa_key_as_servers_want_it() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let (_agent, socket) = agent(&server);
    let key = server.path("rsa");
    keygen("rsa", &key);
    add(&socket, &key);
    // The server takes no SHA-1, as they do since 2021, and does not know the other key any more.
    fs::copy(server.path("rsa.pub"), server.path("authorized")).unwrap();
    let access = SshAccess {
        identities: vec![SshIdentity::Agent(socket)],
        ..server.access()
    };
    SshExecutor::new(access).probe().await.unwrap();
}

/// What works with RSA in this program is what somebody else signs; the rest is refused where it is read.
#[tokio::test]
async fn rsa_keys_of_our_own_and_of_machines_are_refused_with_what_to_do() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let key = server.path("rsa");
    keygen("rsa", &key);
    let old = server.path("rsa-old");
    let converted = Process::new("sh")
        .args([
            "-c",
            r#"cp "$0" "$1" && ssh-keygen -q -p -N '' -m PEM -f "$1""#,
        ])
        .args([&key, &old])
        .stdout(Stdio::null())
        .status();
    assert!(converted.unwrap().success());
    for key in [key, old] {
        let pem = fs::read_to_string(&key).unwrap();
        let error = SshIdentity::from_openssh(&pem).unwrap_err();
        let text = ErrorChain(&error).to_string();
        assert!(text.contains("RSA key: add it to an agent"), "{text}");
    }
    let rsa = fs::read_to_string(server.path("host-rsa.pub")).unwrap();
    let error = HostKeys::pinned([rsa.as_str()]).unwrap_err();
    let text = ErrorChain(&error).to_string();
    assert!(
        text.contains("RSA key: pin the machine's ed25519"),
        "{text}"
    );
    // Beside another one, as `ssh-keyscan` prints them, it does no harm.
    let both = HostKeys::pinned([rsa.as_str(), server.host_key().as_str()]).unwrap();
    let access = SshAccess {
        host_keys: both,
        ..server.access()
    };
    SshExecutor::new(access).probe().await.unwrap();
}

#[tokio::test]
async fn a_machine_is_reached_through_another() {
    if !can_log_in() {
        return;
    }
    let (target, jump) = (Server::start(), Server::start());
    let executor = SshExecutor::new(target.access().through(jump.access()));
    let (exit, printed) = whole(&executor, "echo $SSH_CONNECTION").await;
    assert_eq!(exit, Exit::Code(0));
    let fields: Vec<&str> = printed.split(' ').collect();
    assert_eq!(fields[3], target.port.to_string());
    // The one in between is checked like the other.
    let pinned = HostKeys::pinned([target.host_key().as_str()]).unwrap();
    let wrong = SshAccess {
        host_keys: pinned,
        ..jump.access()
    };
    let executor = SshExecutor::new(target.access().through(wrong));
    let error = executor.probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
}

#[tokio::test]
async fn many_commands_share_a_connection() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let executor = server.executor();
    let (_, first) = whole(&executor, "echo $SSH_CONNECTION").await;
    for _ in 0..20 {
        let (_, again) = whole(&executor, "echo $SSH_CONNECTION").await;
        assert_eq!(again, first);
    }
}

#[tokio::test]
async fn a_lost_connection_is_made_again() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let executor = SshExecutor::new(server.access_by(proxy.port));
    executor.probe().await.unwrap();
    let running = executor
        .run(&Command::new("sleep").arg("1000"))
        .await
        .unwrap();
    proxy.cut_after(0);
    // Whatever passes next is cut: this very question, before it is heard.
    assert_eq!(whole(&executor, "exit 3").await.0, Exit::Code(3));
    let ended = tokio::time::timeout(PATIENCE, running.wait())
        .await
        .unwrap();
    assert_eq!(ended.unwrap_err().class, FailureClass::Interrupted);
    executor.probe().await.unwrap();
    assert_eq!(proxy.cuts(), 1);
}

#[tokio::test]
async fn a_server_that_is_killed_interrupts_what_runs() {
    if !can_log_in() {
        return;
    }
    let mut server = Server::start();
    let executor = server.executor();
    let script = Command::shell("echo $$; exec sleep 1000");
    let mut running = executor.run(&script).await.unwrap();
    let printed = running.next().await.unwrap();
    let process: i32 = String::from_utf8_lossy(printed.bytes())
        .trim()
        .parse()
        .unwrap();
    server.kill();
    let ended = tokio::time::timeout(PATIENCE, running.wait())
        .await
        .unwrap();
    assert_eq!(ended.unwrap_err().class, FailureClass::Interrupted);
    let error = executor.probe().await.unwrap_err();
    assert_eq!(error.class, FailureClass::Unreachable);
    // Nobody else ends it.
    let process = rustix::process::Pid::from_raw(process).unwrap();
    let _ = rustix::process::kill_process_group(process, rustix::process::Signal::KILL);
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 3u64;
    let bytes = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 32).to_be_bytes()[7]
    });
    bytes.take(length).collect()
}

#[tokio::test]
async fn a_copy_that_is_cut_goes_on_where_it_was() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let proxy = Proxy::start(server.port).await;
    let executor = SshExecutor::new(server.access_by(proxy.port));
    let folder = tempfile::tempdir().unwrap();
    let (from, back) = (folder.path().join("from"), folder.path().join("back"));
    let content = noise(24_000_000);
    fs::write(&from, &content).unwrap();
    let there = server.path("work/large");
    let transfers = [
        Transfer::upload(&from, &there),
        Transfer::download(&there, &back),
    ];
    for (index, mut transfer) in (1..).zip(transfers) {
        transfer.patience = PATIENCE;
        proxy.cut_after(14_000_000);
        let before = proxy.passed();
        let report = executor.copy(&transfer).await.unwrap();
        assert_eq!(proxy.cuts(), index);
        // It did not begin again: what was there before the cut was used.
        let passed = proxy.passed() - before;
        assert!(passed < 36_000_000, "{passed} bytes passed, {report:?}");
    }
    assert!(fs::read(&there).unwrap() == content && fs::read(&back).unwrap() == content);
}

/// A server that writes to whoever connects, as long as that is read, and tells when it is not.
async fn flood() -> (u16, Arc<Notify>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let stuck = Arc::new(Notify::new());
    let tell = Arc::clone(&stuck);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let piece = vec![7; 64 * 1024];
        loop {
            let write = stream.write_all(&piece);
            match tokio::time::timeout(Duration::from_secs(1), write).await {
                Ok(written) => written.unwrap(),
                Err(_) => break tell.notify_one(),
            }
        }
        // It stays, and is not read.
        std::future::pending::<()>().await;
    });
    (port, stuck)
}

#[tokio::test]
async fn a_forwarded_connection_that_nobody_reads_holds_up_no_other() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let executor = server.executor();
    let (port, stuck) = flood().await;
    let unread = executor.connect("127.0.0.1", port).await.unwrap();
    let told = tokio::time::timeout(PATIENCE, stuck.notified()).await;
    told.expect("nobody reads it");
    let echo = crate::conformance::echo().await;
    let exchange = async {
        let mut stream = executor.connect("127.0.0.1", echo).await?;
        stream.write_all(b"hello").await.unwrap();
        let mut back = [0; 5];
        stream.read_exact(&mut back).await.unwrap();
        Ok::<_, ExecutorError>(back)
    };
    let back = tokio::time::timeout(PATIENCE, exchange).await;
    assert_eq!(&back.expect("it is not held up").unwrap(), b"hello");
    drop(unread);
}

#[tokio::test]
async fn many_forwarded_connections_share_a_few() {
    if !can_log_in() {
        return;
    }
    let server = Server::start();
    let executor = server.executor();
    let echo = crate::conformance::echo().await;
    let mut open = Vec::new();
    for number in 0..40u8 {
        let connected = tokio::time::timeout(PATIENCE, executor.connect("127.0.0.1", echo)).await;
        let mut stream = connected.expect("there is a way").unwrap();
        stream.write_all(&[number]).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), number);
        open.push(stream);
    }
    // Itself, and two processes of each connection at most.
    let processes = server.processes().len();
    assert!((9..=17).contains(&processes), "{processes}");
}
