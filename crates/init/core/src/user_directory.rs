//! Dynamic users by name: `io.systemd.UserDatabase`, for the system's name services.
//!
//! `nss-systemd` asks every socket in `/run/systemd/userdb`. The one of this manager is made with the first dynamic user and
//! stays, so a machine without such users asks nobody in vain. It is the manager's own only where the manager is the
//! machine's: beside another init the folder is that one's.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use muster_engine::ids::Time;
use muster_engine::protocol::Severity;
use muster_varlink::service::{Offered, ServiceError, ServiceInfo};
use muster_varlink::{Call, CallMode, Reply, Server, ServerOptions};
use serde::{Deserialize, Serialize};

use crate::control::listen;
use crate::core::Core;
use crate::platform::Token;
use crate::recover::Kept;

/// The name of the listening socket in `muster-init`.
const KEY: &str = "users";
const FOLDER: &str = "systemd/userdb";
/// The name of the socket, and what a caller says whom it means.
const SERVICE: &str = "io.systemd.DynamicUser";
const INTERFACE: &str = "io.systemd.UserDatabase";
const DESCRIPTION: &str = include_str!("io.systemd.UserDatabase.varlink");
/// Calls that are answered before anything else has its turn.
const CALLS_PER_TURN: usize = 16;
const NOBODY: &str = "io.systemd.UserDatabase.NoRecordFound";
const ANOTHER: &str = "io.systemd.UserDatabase.ConflictingRecordFound";
const NOT_HERE: &str = "io.systemd.UserDatabase.BadService";

const INFO: ServiceInfo = ServiceInfo {
    vendor: "Muster",
    product: "muster-core",
    version: env!("CARGO_PKG_VERSION"),
    url: "",
    interfaces: &[Offered {
        name: INTERFACE,
        text: DESCRIPTION,
    }],
};

/// The socket, once there is one.
#[derive(Debug, Default)]
pub(crate) struct UserDirectory {
    server: Option<Server>,
}

/// A user, or a group, that exists while a unit runs.
pub(crate) type Named = (Box<str>, u32);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    #[serde(alias = "gid")]
    uid: Option<u32>,
    #[serde(alias = "groupName")]
    user_name: Option<String>,
    service: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UserRecord<'a> {
    user_name: &'a str,
    uid: u32,
    gid: u32,
    real_name: &'static str,
    home_directory: &'static str,
    shell: &'static str,
    locked: bool,
    service: &'static str,
    disposition: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupRecord<'a> {
    group_name: &'a str,
    gid: u32,
    description: &'static str,
    service: &'static str,
    disposition: &'static str,
}

#[derive(Serialize)]
struct Found<R> {
    record: R,
    incomplete: bool,
}

#[derive(Serialize)]
struct Nothing {}

fn user((name, number): &Named) -> Reply {
    Reply::of(&Found {
        record: UserRecord {
            user_name: name,
            uid: *number,
            gid: *number,
            real_name: "Dynamic User",
            home_directory: "/",
            shell: "/usr/sbin/nologin",
            locked: true,
            service: SERVICE,
            disposition: "dynamic",
        },
        incomplete: false,
    })
}

fn group((name, number): &Named) -> Reply {
    Reply::of(&Found {
        record: GroupRecord {
            group_name: name,
            gid: *number,
            description: "Dynamic Group",
            service: SERVICE,
            disposition: "dynamic",
        },
        incomplete: false,
    })
}

/// What a call is answered with, in order; each but the last has more to follow.
fn answer(call: &Call, known: &[Named]) -> Vec<Reply> {
    if let Some(reply) = INFO.answer(call) {
        return vec![reply];
    }
    let record = match call.split_method().1 {
        "GetUserRecord" => user,
        "GetGroupRecord" => group,
        // A dynamic user is in its own group alone, and that is in its record.
        "GetMemberships" => return vec![Reply::failure(NOBODY, &Nothing {})],
        _ => return vec![ServiceError::MethodNotFound(call.method.clone()).reply()],
    };
    match find(call, known) {
        Ok(found) => {
            let last = found.len().saturating_sub(1);
            let replies = found.iter().enumerate();
            let replies = replies.map(|(at, one)| match at {
                at if at == last => record(one),
                _ => record(one).and_more(),
            });
            replies.collect()
        }
        Err(refusal) => vec![refusal],
    }
}

fn find<'k>(call: &Call, known: &'k [Named]) -> Result<Vec<&'k Named>, Reply> {
    let refuse = |error: &'static str| Reply::failure(error, &Nothing {});
    let wanted: Wanted = call.parameters.read().map_err(|error| error.reply())?;
    if wanted.service != SERVICE {
        return Err(refuse(NOT_HERE));
    }
    let has_number = |one: &&Named| wanted.uid.is_none_or(|number| one.1 == number);
    let has_name = |one: &&Named| {
        wanted
            .user_name
            .as_deref()
            .is_none_or(|name| *one.0 == *name)
    };
    let found: Vec<&Named> = known.iter().filter(has_number).filter(has_name).collect();
    let both = wanted.uid.is_some() && wanted.user_name.is_some();
    match found.len() {
        // Either would be right without the other.
        0 if both && known.iter().any(|one| has_number(&one) || has_name(&one)) => {
            Err(refuse(ANOTHER))
        }
        0 => Err(refuse(NOBODY)),
        2.. if call.mode != CallMode::More => Err(ServiceError::ExpectedMore.reply()),
        _ => Ok(found),
    }
}

impl Core {
    fn user_socket(&self) -> PathBuf {
        let runtime = &*self.units.host().specifiers.runtime_directory;
        PathBuf::from(runtime).join(FOLDER).join(SERVICE)
    }

    /// Lets the name services know of dynamic users, from the first one on.
    pub(crate) fn open_user_directory(&mut self) {
        if self.supervised || self.user_directory.server.is_some() {
            return;
        }
        let path = self.user_socket();
        let opened = listen(&path).and_then(|listener| {
            self.platform.keep(KEY.to_owned(), listener.try_clone()?);
            self.serve_users(listener)
        });
        if let Err(error) = opened {
            let message = format!(
                "Cannot make {}: {error}. Programs do not find dynamic users by name.",
                path.display()
            );
            self.say(Severity::Warning, None, &message);
        }
    }

    /// Goes on with the socket that was kept.
    pub(crate) fn restore_user_directory(&mut self, kept: &mut Kept) {
        let Some(listener) = kept.take(KEY) else {
            return;
        };
        if let Err(error) = self.serve_users(listener) {
            let message = format!("Cannot answer who dynamic users are: {error}.");
            self.say(Severity::Warning, None, &message);
        }
    }

    fn serve_users(&mut self, listener: OwnedFd) -> io::Result<()> {
        let options = ServerOptions {
            calls_per_turn: CALLS_PER_TURN,
            ..ServerOptions::default()
        };
        let server = Server::new(listener, options).map_err(io::Error::other)?;
        self.platform.watch(server.as_fd(), Token::Users, false)?;
        self.user_directory.server = Some(server);
        Ok(())
    }

    /// Somebody asks, or a client's time is over. Nothing that is asked changes anything, so it is answered at once.
    pub(crate) fn user_directory_ready(&mut self) {
        let now = self.control_clock();
        let Some(mut server) = self.user_directory.server.take() else {
            return;
        };
        server.turn(now);
        while let Some(call) = server.next_call(now) {
            let known = self.machine.dynamic_users();
            for reply in answer(&call, &known) {
                // Who has gone, or does not read, is not told the rest.
                if server.reply(call.id, reply).is_err() {
                    break;
                }
            }
        }
        server.flush(now);
        self.user_directory.server = Some(server);
    }

    /// When a client's time is over.
    pub(crate) fn user_directory_deadline(&self) -> Option<Time> {
        let at = self.user_directory.server.as_ref()?.next_deadline()?;
        Some(Time(u64::try_from(at.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Clients whose time is over are let go.
    pub(crate) fn user_directory_time_has_passed(&mut self) {
        let now = self.now().monotonic;
        if self.user_directory_deadline().is_some_and(|at| at <= now) {
            self.user_directory_ready();
        }
    }
}

#[cfg(test)]
mod tests;
