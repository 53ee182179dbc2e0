//! Connections: made, checked, shared, and made again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use russh::client::{self, AuthResult, Handle, Msg};
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg, PublicKey};
use russh::{AgentAuthError, Channel, Preferred, cipher};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};

use super::access::{HostKeys, SshAccess, SshIdentity, fingerprint};
use crate::error::{BoxError, ExecutorError, FailureClass, Operation};

/// How many sessions are used of each connection. OpenSSH allows ten, unless it is told otherwise; the rest is for killing.
const SESSIONS: usize = 8;

/// How many connections are made at most; whoever needs one more waits.
const CONNECTIONS: usize = 32;

/// How many connections carry forwarded ports. Each gets one of its own as long as there are fewer; more than that share them.
const FORWARDS: usize = 8;

/// How many keys of an agent are tried: OpenSSH hangs up after six.
const AGENT_KEYS: usize = 5;

/// What is on its way at once, in one direction of one channel.
pub(super) const WINDOW: u32 = 4 * 1024 * 1024;
const PACKET: u32 = 65_535 - 1024;

/// What a connection is for. What is not read by whoever asked for it holds up all of a connection, so that what moves at
/// others' pace has connections of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Commands,
    Files,
    Forward,
}

/// A machine that shows another key than it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its host key is {shown}, expected is {}: it is another machine, or somebody is in between", .expected.join(" or "))]
struct HostKeyChanged {
    shown: String,
    expected: Vec<String>,
}

/// A server that does not let this side in.
#[derive(Debug, thiserror::Error)]
#[error("it lets nobody in as {user:?} with the keys at hand ({tried} tried)")]
struct NotLetIn {
    user: String,
    tried: usize,
    #[source]
    trouble: Option<AgentTrouble>,
}

/// An agent that did not help.
#[derive(Debug, thiserror::Error)]
#[error("the agent at {} was of no help", .socket.display())]
struct AgentTrouble {
    socket: PathBuf,
    source: AgentAuthError,
}

/// Checks the host key.
pub(crate) struct Checker {
    host_keys: HostKeys,
    refused: Arc<StdMutex<Option<HostKeyChanged>>>,
}

impl client::Handler for Checker {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        shown: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        let key = match shown {
            russh::keys::PublicKeyOrCertificate::PublicKey { key, .. } => key.clone(),
            russh::keys::PublicKeyOrCertificate::Certificate(it) => {
                PublicKey::from(it.public_key().clone())
            }
        };
        let Err(expected) = self.host_keys.check(&key) else {
            return Ok(true);
        };
        let shown = fingerprint(&key);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused = Some(HostKeyChanged { shown, expected });
        Ok(false)
    }
}

/// A connection, with those that it goes through.
pub(crate) struct Connection {
    handle: Handle<Checker>,
    purpose: Purpose,
    sessions: Arc<Semaphore>,
    /// Held, since it carries this one.
    _through: Option<Box<Connection>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("purpose", &self.purpose)
            .finish_non_exhaustive()
    }
}

/// A channel, and what keeps it.
pub(crate) struct Session {
    pub(crate) channel: Channel<Msg>,
    pub(crate) hold: Hold,
}

/// What keeps a channel open.
#[derive(Debug)]
pub(crate) struct Hold {
    _connection: Arc<Connection>,
    _permit: Option<OwnedSemaphorePermit>,
    /// The last of the three, since it tells that the others have gone.
    _freed: Freed,
}

/// Tells whoever waits for a connection that one is used less.
#[derive(Debug)]
struct Freed(Arc<Notify>);

impl Drop for Freed {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

/// A connection, and the room in it; none where it is shared.
type Found = (Arc<Connection>, Option<OwnedSemaphorePermit>);

/// The connections to one machine.
#[derive(Debug)]
pub(crate) struct Pool {
    access: SshAccess,
    connections: StdMutex<Vec<Arc<Connection>>>,
    /// Held while a connection is made, one for each purpose: one at a time, so that those who wait may share it.
    making: [Mutex<()>; 3],
    freed: Arc<Notify>,
}

impl Pool {
    pub(crate) fn new(access: SshAccess) -> Self {
        Self {
            access,
            connections: StdMutex::default(),
            making: Default::default(),
            freed: Arc::default(),
        }
    }

    fn hold(&self, connection: Arc<Connection>, permit: Option<OwnedSemaphorePermit>) -> Hold {
        Hold {
            _connection: connection,
            _permit: permit,
            _freed: Freed(Arc::clone(&self.freed)),
        }
    }

    /// How errors name the machine.
    pub(crate) fn object(&self) -> String {
        self.access.endpoint.to_string()
    }

    /// A session, over a connection that has room for it.
    pub(crate) async fn session(&self, purpose: Purpose) -> Result<Session, ExecutorError> {
        let mut last = None;
        // A connection may turn out to be lost only when it is used.
        for _ in 0..2 {
            let (connection, permit) = self.connection(purpose).await?;
            let hold = self.hold(connection, permit);
            match hold._connection.handle.channel_open_session().await {
                Ok(channel) => return Ok(Session { channel, hold }),
                Err(error) => last = Some(error),
            }
        }
        Err(self.lost(last))
    }

    /// A session for killing what runs in another: it may use what the others leave.
    pub(crate) async fn spare_session(&self, hold: &Hold) -> Result<Channel<Msg>, ExecutorError> {
        let opened = hold._connection.handle.channel_open_session().await;
        opened.map_err(|error| self.lost(Some(error)))
    }

    /// A connection to a port, as seen from the machine.
    pub(crate) async fn forward(&self, host: &str, port: u16) -> Result<Session, ExecutorError> {
        let mut last = None;
        for _ in 0..2 {
            let (connection, permit) = self.connection(Purpose::Forward).await?;
            let hold = self.hold(connection, permit);
            let handle = &hold._connection.handle;
            let opened = handle.channel_open_direct_tcpip(host, port.into(), "127.0.0.1", 0);
            match opened.await {
                Ok(channel) => return Ok(Session { channel, hold }),
                Err(error @ russh::Error::ChannelOpenFailure(_)) => {
                    let (object, class) = (format!("{host}:{port}"), FailureClass::Refused);
                    return Err(ExecutorError::new(Operation::Forward, object, class, error));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(self.lost(last))
    }

    fn lost(&self, source: Option<russh::Error>) -> ExecutorError {
        let class = match source {
            Some(russh::Error::ChannelOpenFailure(_)) => FailureClass::Refused,
            _ => FailureClass::Unreachable,
        };
        let source = source.map_or_else(|| BoxError::from("the connection was lost"), Into::into);
        ExecutorError::new(Operation::Connect, self.object(), class, source)
    }

    /// A connection with room, or one to share. One that is made holds up nobody who finds room in another meanwhile.
    async fn connection(&self, purpose: Purpose) -> Result<Found, ExecutorError> {
        if let Some(found) = self.with_room(purpose) {
            return Ok(found);
        }
        let make = async {
            let _turn = self.making[purpose as usize].lock().await;
            loop {
                // Before the look: what happens after it is not missed.
                let freed = self.freed.notified();
                let found = self.with_room(purpose);
                if let Some(found) = found.or_else(|| self.to_share(purpose, FORWARDS)) {
                    return Ok(found);
                }
                if self.may_make() {
                    return self.make(purpose).await;
                }
                if let Some(found) = self.to_share(purpose, 1) {
                    return Ok(found);
                }
                freed.await;
            }
        };
        tokio::select! {
            biased;
            found = self.room(purpose) => Ok(found),
            made = make => made,
        }
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Connection>>> {
        let mut connections = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connections.retain(|it| !it.handle.is_closed());
        connections
    }

    /// A connection that has room now.
    fn with_room(&self, purpose: Purpose) -> Option<Found> {
        let connections = self.connections();
        let mut fitting = connections.iter().filter(|it| it.purpose == purpose);
        fitting.find_map(|it| {
            let permit = Arc::clone(&it.sessions).try_acquire_owned().ok()?;
            Some((Arc::clone(it), Some(permit)))
        })
    }

    /// Of the connections for forwarded ports, when there are so many, that which the fewest share: servers limit sessions, not these.
    fn to_share(&self, purpose: Purpose, least: usize) -> Option<Found> {
        let connections = self.connections();
        let fitting = || connections.iter().filter(|it| it.purpose == purpose);
        if purpose != Purpose::Forward || fitting().count() < least {
            return None;
        }
        let fewest = fitting().min_by_key(|it| Arc::strong_count(it))?;
        Some((Arc::clone(fewest), None))
    }

    /// The first of those that are there now to have room again; none ever, if they are lost.
    async fn room(&self, purpose: Purpose) -> Found {
        let mut waiting: FuturesUnordered<_> = {
            let connections = self.connections();
            let fitting = connections.iter().filter(|it| it.purpose == purpose);
            let wait = |it: &Arc<Connection>| {
                let connection = Arc::clone(it);
                async move {
                    let permit = Arc::clone(&connection.sessions).acquire_owned().await;
                    Some((connection, Some(permit.ok()?)))
                }
            };
            fitting.map(wait).collect()
        };
        while let Some(found) = waiting.next().await {
            if let Some(found) = found.filter(|(it, _)| !it.handle.is_closed()) {
                return found;
            }
        }
        std::future::pending().await
    }

    /// Whether there may be one more. One that nobody uses, whatever it was made for, makes place for it.
    fn may_make(&self) -> bool {
        let mut connections = self.connections();
        if connections.len() >= CONNECTIONS {
            let idle = connections.iter().position(|it| Arc::strong_count(it) == 1);
            idle.map(|it| connections.swap_remove(it));
        }
        connections.len() < CONNECTIONS
    }

    async fn make(&self, purpose: Purpose) -> Result<Found, ExecutorError> {
        let connection = Arc::new(connect(&self.access, purpose).await?);
        let permit = Arc::clone(&connection.sessions).try_acquire_owned();
        let permit = permit.map_err(|_| {
            let class = FailureClass::Refused;
            let why = "a new connection has no room";
            ExecutorError::new(Operation::Connect, self.object(), class, why)
        })?;
        self.connections().push(Arc::clone(&connection));
        Ok((connection, Some(permit)))
    }
}

fn config(access: &SshAccess) -> client::Config {
    // A machine may have keys of several kinds: it is asked for one that is pinned.
    let key = match &access.host_keys {
        HostKeys::Pinned(keys) => {
            let kinds = keys.iter().map(PublicKey::algorithm);
            kinds
                .filter(|it| !matches!(it, Algorithm::Rsa { .. }))
                .collect()
        }
        HostKeys::TrustFirst(known) => match known.key() {
            Some(key) => vec![key.algorithm()],
            None => Preferred::DEFAULT.key.to_vec(),
        },
    };
    let key: Vec<Algorithm> = key;
    client::Config {
        window_size: WINDOW,
        maximum_packet_size: PACKET,
        channel_buffer_size: 256,
        keepalive_interval: Some(access.keepalive.max(Duration::from_secs(1))),
        keepalive_max: 3,
        nodelay: true,
        preferred: Preferred {
            key: key.into(),
            // The fastest first, where the processor helps.
            cipher: vec![
                cipher::AES_128_GCM,
                cipher::AES_256_GCM,
                cipher::CHACHA20_POLY1305,
                cipher::AES_256_CTR,
                cipher::AES_128_CTR,
            ]
            .into(),
            ..Preferred::DEFAULT
        },
        ..client::Config::default()
    }
}

fn connect(
    access: &SshAccess,
    purpose: Purpose,
) -> BoxFuture<'_, Result<Connection, ExecutorError>> {
    async move {
        let made = tokio::time::timeout(access.connect_timeout, connect_now(access, purpose));
        made.await.unwrap_or_else(|_| {
            let (object, class) = (access.endpoint.to_string(), FailureClass::Unreachable);
            let why = "it took too long to connect";
            Err(ExecutorError::new(Operation::Connect, object, class, why))
        })
    }
    .boxed()
}

async fn connect_now(access: &SshAccess, purpose: Purpose) -> Result<Connection, ExecutorError> {
    let failed = |class: FailureClass, source: BoxError| {
        let object = access.endpoint.to_string();
        ExecutorError::new(Operation::Connect, object, class, source)
    };
    let refused = Arc::new(StdMutex::new(None));
    let checker = Checker {
        host_keys: access.host_keys.clone(),
        refused: Arc::clone(&refused),
    };
    let config = Arc::new(config(access));
    let (host, port) = (access.endpoint.host.as_str(), access.endpoint.port);
    let (made, through) = match &access.jump {
        Some(jump) => {
            let through = connect(jump, purpose).await?;
            let opened =
                through
                    .handle
                    .channel_open_direct_tcpip(host, port.into(), "127.0.0.1", 0);
            let channel = opened
                .await
                .map_err(|source| failed(FailureClass::Unreachable, source.into()))?;
            let stream = channel.into_stream();
            let made = client::connect_stream(config, stream, checker).await;
            (made, Some(Box::new(through)))
        }
        None => {
            let stream = TcpStream::connect((host, port)).await;
            let stream =
                stream.map_err(|source| failed(FailureClass::Unreachable, source.into()))?;
            // Only slower without it.
            let _ = stream.set_nodelay(true);
            (client::connect_stream(config, stream, checker).await, None)
        }
    };
    let changed = refused
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(changed) = changed {
        return Err(failed(FailureClass::Refused, changed.into()));
    }
    let mut handle = made.map_err(|source| failed(class_of(&source), source.into()))?;
    log_in(&mut handle, access).await?;
    let sessions = match purpose {
        Purpose::Commands | Purpose::Files => SESSIONS,
        Purpose::Forward => 1,
    };
    Ok(Connection {
        handle,
        purpose,
        sessions: Arc::new(Semaphore::new(sessions)),
        _through: through,
    })
}

/// A machine that boots listens before it can speak.
fn class_of(error: &russh::Error) -> FailureClass {
    match error {
        russh::Error::IO(_)
        | russh::Error::HUP
        | russh::Error::Disconnect
        | russh::Error::SendError
        | russh::Error::ConnectionTimeout
        | russh::Error::KeepaliveTimeout => FailureClass::Unreachable,
        _ => FailureClass::Refused,
    }
}

async fn log_in(handle: &mut Handle<Checker>, access: &SshAccess) -> Result<(), ExecutorError> {
    let failed = |class: FailureClass, source: BoxError| {
        let object = access.endpoint.to_string();
        ExecutorError::new(Operation::Connect, object, class, source)
    };
    let (mut tried, mut trouble) = (0, None);
    for identity in &access.identities {
        match identity {
            SshIdentity::Key(key) => {
                tried += 1;
                let key = PrivateKeyWithHashAlg::new(Arc::clone(key), None);
                let answer = handle.authenticate_publickey(&access.user, key).await;
                let answer = answer.map_err(|source| failed(class_of(&source), source.into()))?;
                if matches!(answer, AuthResult::Success) {
                    return Ok(());
                }
            }
            SshIdentity::Agent(socket) => {
                match ask_agent(handle, &access.user, socket, &mut tried).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => {}
                    Err(AgentAuthError::Send(source)) => {
                        return Err(failed(FailureClass::Unreachable, source.into()));
                    }
                    // An agent that is away, or does not want to, says nothing about other identities.
                    Err(source) => {
                        let socket = socket.clone();
                        trouble = Some(AgentTrouble { socket, source });
                    }
                }
            }
        }
    }
    let user = access.user.clone();
    let not_let_in = NotLetIn {
        user,
        tried,
        trouble,
    };
    Err(failed(FailureClass::Refused, not_let_in.into()))
}

/// Whether a key of an agent lets us in.
async fn ask_agent(
    handle: &mut Handle<Checker>,
    user: &str,
    socket: &Path,
    tried: &mut usize,
) -> Result<bool, AgentAuthError> {
    let mut agent = AgentClient::connect_uds(socket).await?;
    let known = agent.request_identities().await?;
    let mut trouble = None;
    for identity in known.into_iter().take(AGENT_KEYS) {
        let AgentIdentity::PublicKey { key, .. } = identity else {
            continue;
        };
        *tried += 1;
        let hash = rsa_hash(handle, &key).await;
        match handle
            .authenticate_publickey_with(user, key, hash, &mut agent)
            .await
        {
            Ok(AuthResult::Success) => return Ok(true),
            Ok(AuthResult::Failure { .. }) => {}
            Err(error @ AgentAuthError::Send(_)) => return Err(error),
            // It may let another be used: each use may be asked for.
            Err(error) => trouble = Some(error),
        }
    }
    trouble.map_or(Ok(false), Err)
}

/// With which hash an RSA key signs. Without one it would be SHA-1, which servers have not taken for years; those that do not
/// say what they take know SHA-2 for longer.
async fn rsa_hash(handle: &Handle<Checker>, key: &PublicKey) -> Option<HashAlg> {
    if !key.algorithm().is_rsa() {
        return None;
    }
    let said = handle.best_supported_rsa_hash().await.ok().flatten();
    said.unwrap_or(Some(HashAlg::Sha512))
}
