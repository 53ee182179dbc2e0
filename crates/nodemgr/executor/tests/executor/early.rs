//! A server that tells how a command ended before it has passed on everything that the command wrote: it may, since it waits
//! for processes and reads their output on its own time.

use std::sync::Arc;
use std::time::Duration;

use muster_executor::ssh::{Endpoint, HostKeys, SshAccess, SshExecutor, SshIdentity};
use muster_executor::{Command, Executor as _, Exit};
use russh::keys::PrivateKey;
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, Sig};
use tokio::net::TcpListener;

use crate::server::PATIENCE;

/// Two keys that open nothing but this server.
const KEYS: [[u8; 32]; 2] = [[1; 32], [2; 32]];

/// What the server does, in this order, when it has heard the command.
#[derive(Debug, Clone, Copy)]
enum Act {
    Began,
    Wrote(&'static str),
    Complained(&'static str),
    Ended(u32),
    Killed,
    Eof,
    Close,
}
use Act::{Began, Close, Complained, Ended, Eof, Killed, Wrote};

struct Early {
    acts: &'static [Act],
    heard: Vec<u8>,
}

impl Handler for Early {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        _: &str,
        _: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        _: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.heard.extend_from_slice(data);
        if !self.heard.ends_with(b"\n") {
            return Ok(());
        }
        let heard = String::from_utf8_lossy(&self.heard).into_owned();
        let (_, tag) = heard.split_once("tag=").unwrap();
        let (tag, _) = tag.split_once('\\').unwrap();
        for act in self.acts {
            match act {
                Began => session.data(channel, format!("{tag} 4000000\n"))?,
                Wrote(text) => session.data(channel, *text)?,
                Complained(text) => session.extended_data(channel, 1, *text)?,
                Ended(code) => session.exit_status_request(channel, *code)?,
                Killed => session.exit_signal_request(channel, Sig::TERM, false, "", "")?,
                Eof => session.eof(channel)?,
                Close => session.close(channel)?,
            }
        }
        Ok(())
    }
}

fn key(seed: [u8; 32]) -> PrivateKey {
    let pair = russh::keys::ssh_key::private::Ed25519Keypair::from_seed(&seed);
    PrivateKey::from(pair)
}

/// Asks such a server to run something.
async fn run(acts: &'static [Act]) -> (Exit, String, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Arc::new(Config {
        keys: vec![key(KEYS[0])],
        auth_rejection_time: Duration::ZERO,
        ..Config::default()
    });
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let early = Early {
            acts,
            heard: Vec::new(),
        };
        // It ends when the client has gone.
        let _ = russh::server::run_stream(config, stream, early)
            .await
            .unwrap()
            .await;
    });
    let host_keys = HostKeys::Pinned(vec![key(KEYS[0]).public_key().clone()]);
    let identity = SshIdentity::Key(Arc::new(key(KEYS[1])));
    let access = SshAccess::new(
        Endpoint::new("127.0.0.1", port),
        "somebody",
        host_keys,
        vec![identity],
    );
    let executor = SshExecutor::new(access);
    let ended = async {
        let running = executor.run(&Command::new("anything")).await.unwrap();
        running.output(1 << 20).await.unwrap()
    };
    let output = tokio::time::timeout(PATIENCE, ended).await.unwrap();
    server.abort();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.exit, text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn a_server_that_tells_the_end_before_the_last_output_loses_neither() {
    let orders: [&[Act]; 6] = [
        &[
            Began,
            Wrote("one "),
            Wrote("two"),
            Complained("three"),
            Ended(7),
            Eof,
            Close,
        ],
        // As a server may that reads output later.
        &[
            Began,
            Wrote("one "),
            Ended(7),
            Wrote("two"),
            Complained("three"),
            Eof,
            Close,
        ],
        &[
            Began,
            Ended(7),
            Complained("three"),
            Wrote("one "),
            Wrote("two"),
            Close,
        ],
        // Not even its beginning had been passed on.
        &[
            Ended(7),
            Began,
            Wrote("one two"),
            Complained("three"),
            Eof,
            Close,
        ],
        &[
            Ended(7),
            Began,
            Wrote("one two"),
            Complained("three"),
            Close,
        ],
        // Something that the command left behind holds its output open.
        &[Began, Ended(7), Wrote("one two"), Complained("three")],
    ];
    for acts in orders {
        let (exit, stdout, stderr) = run(acts).await;
        assert_eq!(exit, Exit::Code(7), "{acts:?}");
        assert_eq!((&*stdout, &*stderr), ("one two", "three"), "{acts:?}");
    }
}

#[tokio::test]
async fn a_signal_that_is_told_before_the_last_output_is_the_end() {
    let (exit, stdout, _) = run(&[Killed, Began, Wrote("one"), Eof, Close]).await;
    assert_eq!((exit, &*stdout), (Exit::Signal("TERM".to_owned()), "one"));
}
