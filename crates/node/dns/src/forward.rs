//! Who is asked for what is not known here, in which order, and what counts as an answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::decide::{NetworkSettings, Realm};
use crate::extension;
use crate::message::{self, Code, Query, Transport};
use crate::records::Clients;
use crate::remembered::Remembered;
use crate::server::Limits;
use crate::upstream::{self, Asked};

/// A server that said nothing is not asked for so many times as long as it was waited for.
const HOLD: u32 = 5;

/// A server that knows names of a network.
#[derive(Debug, Clone, Copy)]
struct Controller {
    address: SocketAddr,
    network: Clients,
}

/// Asks other servers.
#[derive(Debug)]
pub(crate) struct Forwarder {
    controllers: Vec<Controller>,
    upstreams: Vec<SocketAddr>,
    limits: Limits,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    /// Until when servers that said nothing are spared.
    silent: BTreeMap<SocketAddr, Instant>,
    remembered: Remembered,
}

/// What somebody said.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// It settles the question.
    Answer(Vec<u8>),
    /// It cannot, or does not want to: the next one may.
    Declined(Vec<u8>),
    Nothing,
}

/// Whether an answer settles a question.
fn word(answer: Option<Vec<u8>>) -> Word {
    let Some(answer) = answer else {
        return Word::Nothing;
    };
    match message::code(&answer) {
        code if code == Code::NoError as u8 || code == Code::NoSuchName as u8 => {
            Word::Answer(answer)
        }
        _ => Word::Declined(answer),
    }
}

/// Whether a controller that said nothing a moment ago is left alone: only where there is another way to an answer.
fn is_spared(is_silent: bool, realm: Realm, is_remembered: bool, has_upstreams: bool) -> bool {
    is_silent && (is_remembered || (realm == Realm::Anybodys && has_upstreams))
}

impl Forwarder {
    /// Asks upstreams only.
    pub(crate) fn new(upstreams: Vec<SocketAddr>, limits: Limits) -> Self {
        Self {
            controllers: Vec::new(),
            upstreams,
            limits,
            memory: Mutex::default(),
        }
    }

    /// Asks controllers on behalf of a network, then upstreams.
    pub(crate) fn of_network(settings: &NetworkSettings, limits: Limits) -> Self {
        let controller = |address: &SocketAddr| Controller {
            address: *address,
            network: settings.clients,
        };
        Self {
            controllers: settings.controllers.iter().map(controller).collect(),
            ..Self::new(settings.upstreams.clone(), limits)
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory
            .lock()
            .expect("nothing that holds this lock can panic")
    }

    /// Always an answer, if only that there is none.
    pub(crate) async fn forward(
        &self,
        query: &Query<'_>,
        realm: Realm,
        transport: Transport,
    ) -> Vec<u8> {
        let answer = self.ask_around(query, realm, transport).await;
        match answer {
            Some(mut answer) => {
                if !query.is_extended() {
                    extension::strip(&mut answer);
                }
                answer
            }
            None => query.refuse(Code::ServerFailure),
        }
    }

    async fn ask_around(
        &self,
        query: &Query<'_>,
        realm: Realm,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let remembered = self.memory().remembered.recall(query);
        let mut has_silent = false;
        for controller in &self.controllers {
            let (is_remembered, has_upstreams) = (remembered.is_some(), !self.upstreams.is_empty());
            if is_spared(
                self.is_silent(controller.address),
                realm,
                is_remembered,
                has_upstreams,
            ) {
                has_silent = true;
                continue;
            }
            match word(self.ask_controller(*controller, query, transport).await) {
                Word::Answer(answer) => {
                    self.memory().remembered.note(query, &answer);
                    return Some(answer);
                }
                Word::Declined(_) => {}
                Word::Nothing => has_silent = true,
            }
        }
        if has_silent && remembered.is_some() {
            return remembered;
        }
        match realm {
            // Nobody else may hear of it, and whether it exists is not known.
            Realm::Own if has_silent => None,
            Realm::Own => Some(query.nobody(transport)),
            Realm::Anybodys => self.ask_upstreams(query, transport).await,
        }
    }

    async fn ask_controller(
        &self,
        controller: Controller,
        query: &Query<'_>,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let Controller { address, network } = controller;
        let patience = self.limits.controller;
        let plain = Asked {
            query,
            packet: query.packet(),
            transport,
        };
        let packet = query.on_behalf_of(network);
        let packet = packet.as_slice();
        let answer = upstream::ask(address, Asked { packet, ..plain }, patience).await;
        self.note_silence(address, answer.is_none(), patience);
        let code = message::code(answer.as_deref()?);
        // It does not understand who asks; then it need not know.
        match code == Code::FormatError as u8 || code == Code::NotImplemented as u8 {
            true => upstream::ask(address, plain, patience).await,
            false => answer,
        }
    }

    /// The first that settles it. If none does, what the last said is passed on.
    async fn ask_upstreams(&self, query: &Query<'_>, transport: Transport) -> Option<Vec<u8>> {
        let asked = Asked {
            query,
            packet: query.packet(),
            transport,
        };
        let mut declined = None;
        for server in &self.upstreams {
            match word(upstream::ask(*server, asked, self.limits.upstream).await) {
                Word::Answer(answer) => return Some(answer),
                Word::Declined(answer) => declined = Some(answer),
                Word::Nothing => {}
            }
        }
        declined
    }

    fn is_silent(&self, server: SocketAddr) -> bool {
        let memory = self.memory();
        let until = memory.silent.get(&server);
        until.is_some_and(|until| *until > Instant::now())
    }

    fn note_silence(&self, server: SocketAddr, is_silent: bool, patience: Duration) {
        let mut memory = self.memory();
        match is_silent {
            true => drop(
                memory
                    .silent
                    .insert(server, Instant::now() + patience * HOLD),
            ),
            false => drop(memory.silent.remove(&server)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_silent_are_spared_and_only_where_there_is_another_way() {
        assert!(!is_spared(false, Realm::Anybodys, true, true));
        assert!(is_spared(true, Realm::Own, true, false));
        assert!(is_spared(true, Realm::Anybodys, false, true));
        assert!(
            !is_spared(true, Realm::Own, false, true),
            "nobody else may be asked"
        );
        assert!(!is_spared(true, Realm::Anybodys, false, false));
    }

    #[test]
    fn a_refusal_settles_nothing() {
        let answer = |code: Code| Some(vec![0, 0, 0x80, code as u8, 0, 0, 0, 0, 0, 0, 0, 0]);
        for settles in [Code::NoError, Code::NoSuchName] {
            assert!(matches!(word(answer(settles)), Word::Answer(_)));
        }
        for settles_not in [Code::Refused, Code::ServerFailure, Code::NotImplemented] {
            assert!(matches!(word(answer(settles_not)), Word::Declined(_)));
        }
        assert_eq!(word(None), Word::Nothing);
    }
}
