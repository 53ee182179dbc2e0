//! A booted Muster whose control socket the test speaks to itself.

use std::ops::Deref;
use std::time::{Duration, Instant};

use muster_control::manager::{
    Empty, ListUnitsCall, ListUnitsReply, MachineStatus, SubmitCall, SubmitReply, UnitCall,
    UnitRow, UnitStatus, WaitWhat, method,
};
use muster_lab::machine::{Build, Machine, MachineBuilder, MachineProcess};
use muster_lab::muster;
use muster_varlink::{CallError, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(30);

/// A machine that runs Muster.
pub(crate) struct Rig {
    machine: Machine,
}

impl Deref for Rig {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl Rig {
    /// Boots it, unless this test is not run by root; then it says so.
    pub(crate) fn boot(
        test: &str,
        with: impl FnOnce(MachineBuilder) -> MachineBuilder,
    ) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("{test}: skipped, machines of namespaces need root");
            return None;
        }
        let programs = muster::programs(Build::Test, &["muster-core/fault-points"])
            .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
        let machine = muster::boot(&with(muster::machine(&programs)), TIME).expect("it boots");
        Some(Self { machine })
    }

    pub(crate) fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.machine.path(muster::CONTROL_SOCKET)
    }

    pub(crate) fn manager(&self) -> MachineProcess {
        let manager = muster::manager(&self.machine).expect("a list of processes");
        manager.expect("a manager")
    }

    pub(crate) fn client(&self) -> Client {
        let mut client = Client::connect("muster-core", &self.socket()).expect("it listens");
        client.set_timeout(Some(TIME));
        client
    }

    #[track_caller]
    pub(crate) fn ask<P: Serialize, R: DeserializeOwned>(&self, method: &str, call: &P) -> R {
        self.client().call(method, call).expect("an answer")
    }

    /// The name and text of the error that a call is answered with.
    #[track_caller]
    pub(crate) fn refused<P: Serialize>(&self, method: &str, call: &P) -> (String, String) {
        match self.client().call::<P, serde_json::Value>(method, call) {
            Err(CallError::Refused { error, .. }) => {
                (error.name.to_string(), error.parameters.text().to_owned())
            }
            other => panic!("{method} was not refused: {other:?}"),
        }
    }

    /// Queues a job and waits for its end.
    #[track_caller]
    pub(crate) fn job(&self, unit: &str, verb: &str) -> SubmitReply {
        let call = SubmitCall {
            unit: unit.to_owned(),
            verb: verb.to_owned(),
            mode: String::new(),
            wait: WaitWhat::Job,
        };
        let replies = self
            .client()
            .call_more::<_, SubmitReply>(method::SUBMIT, &call)
            .expect("the call is sent");
        replies
            .map(|reply| reply.expect("a reply"))
            .last()
            .expect("one at least")
    }

    #[track_caller]
    pub(crate) fn status(&self, unit: &str) -> UnitStatus {
        let unit = unit.to_owned();
        self.ask(method::STATUS, &UnitCall { unit })
    }

    pub(crate) fn units(&self, call: &ListUnitsCall) -> Vec<UnitRow> {
        let reply: ListUnitsReply = self.ask(method::LIST_UNITS, call);
        reply.units
    }

    pub(crate) fn machine_status(&self) -> MachineStatus {
        self.ask(method::MACHINE, &Empty {})
    }

    /// Looks again and again until it is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + TIME;
        while !is_so(self) {
            assert!(Instant::now() < end, "never: {what}");
            std::thread::yield_now();
        }
    }
}
