//! From a call to what answers it, and whether the caller may.

use muster_control::manager::{DESCRIPTION, INTERFACE, SubscribeCall, method};
use muster_varlink::service::{Offered, ServiceError, ServiceInfo};
use muster_varlink::{CallId, CallMode, IncomingCall, Reply};

use super::Control;
use super::events::Subscriber;
use super::fault::Fault;
use crate::core::Core;

const SERVICE: ServiceInfo = ServiceInfo {
    vendor: "Muster",
    product: "muster-core",
    version: env!("CARGO_PKG_VERSION"),
    url: "",
    interfaces: &[Offered {
        name: INTERFACE,
        text: DESCRIPTION,
    }],
};

/// What a method needs of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Read,
    Change,
}

/// An answer, or `None` if it comes later.
pub(super) type Handled = Result<Option<Reply>, Fault>;

type Handler = fn(&mut Core, &mut IncomingCall) -> Handled;

const METHODS: &[(&str, Right, Handler)] = &[
    (method::SUBMIT, Right::Change, Core::submit),
    (method::WAIT_JOB, Right::Read, Core::wait_job),
    (method::CANCEL, Right::Change, Core::cancel),
    (method::LIST_JOBS, Right::Read, Core::list_jobs),
    (method::LIST_UNITS, Right::Read, Core::list_units),
    (method::STATUS, Right::Read, Core::unit_status),
    (method::SHOW, Right::Read, Core::show),
    (method::WHY, Right::Read, Core::why),
    (method::KILL, Right::Change, Core::kill_by_request),
    (method::FREEZE, Right::Change, Core::freeze),
    (method::CLEAN, Right::Change, Core::clean),
    (method::RESET_FAILED, Right::Change, Core::reset_failed),
    (method::SET_PROPERTY, Right::Change, Core::set_property),
    (
        method::START_TRANSIENT,
        Right::Change,
        Core::start_transient,
    ),
    (method::RELOAD, Right::Change, Core::reload_by_request),
    (method::REEXEC, Right::Change, Core::reexec),
    (method::MACHINE, Right::Read, Core::machine_status),
    (method::SHUTDOWN, Right::Change, Core::shutdown_by_request),
    (method::ENVIRONMENT, Right::Read, Core::environment),
    (method::SUBSCRIBE, Right::Read, Core::subscribe),
];

impl Core {
    pub(super) fn dispatch(&mut self, mut call: IncomingCall) {
        let handled = match SERVICE.answer(&call) {
            Some(reply) => Ok(Some(reply)),
            None => self.handle(&mut call),
        };
        match handled {
            Ok(None) => {}
            Ok(Some(reply)) => self.reply_to(call.id, reply),
            Err(fault) => self.reply_to(call.id, fault.reply()),
        }
    }

    fn handle(&mut self, call: &mut IncomingCall) -> Handled {
        if call.mode == CallMode::Upgrade {
            return Err(ServiceError::MethodNotImplemented(call.method.clone()).into());
        }
        let Some((name, right, handler)) = METHODS.iter().find(|(name, ..)| **name == *call.method)
        else {
            return Err(ServiceError::MethodNotFound(call.method.clone()).into());
        };
        if *right == Right::Change {
            self.must_be_privileged(call, name)?;
        }
        handler(self, call)
    }

    pub(super) fn must_be_privileged(&self, call: &IncomingCall, what: &str) -> Result<(), Fault> {
        let owner = rustix::process::geteuid().as_raw();
        if call.peer.is_privileged(owner) {
            return Ok(());
        }
        Err(Fault::not_permitted(what, call.peer.uid))
    }

    /// Replies to a call. Who has gone meanwhile, or wanted no reply, gets none.
    pub(super) fn reply_to(&mut self, call: CallId, reply: Reply) {
        if let Some(server) = &mut self.control.server {
            let _ = server.reply(call, reply);
        }
    }

    fn subscribe(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: SubscribeCall = call.parameters.read()?;
        if call.mode != CallMode::More {
            return Err(ServiceError::ExpectedMore.into());
        }
        let Some(subscriber) = Subscriber::new(call.id, wanted, &self.control.log) else {
            return Err(Fault::invalid("units", "Too many patterns."));
        };
        let Control {
            server: Some(server),
            subscribers,
            ..
        } = &mut self.control
        else {
            return Ok(None);
        };
        // Those who have gone are noticed at the next event; there may be none for long.
        subscribers.retain(|subscriber| server.is_open(subscriber.call));
        subscribers.push(subscriber);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_described_method_is_there_once() {
        let described: BTreeSet<String> = DESCRIPTION
            .lines()
            .filter_map(|line| line.strip_prefix("method "))
            .filter_map(|rest| rest.split('(').next())
            .map(|name| format!("{INTERFACE}.{name}"))
            .collect();
        let there: BTreeSet<String> = METHODS
            .iter()
            .map(|(name, ..)| (*name).to_owned())
            .collect();
        assert_eq!(described, there);
        assert_eq!(there.len(), METHODS.len());
    }

    #[test]
    fn what_changes_something_is_not_for_everybody() {
        let open: Vec<&str> = METHODS
            .iter()
            .filter(|(_, right, _)| *right == Right::Read)
            .map(|(name, ..)| name.rsplit('.').next().expect("a method"))
            .collect();
        assert_eq!(
            open,
            [
                "WaitJob",
                "ListJobs",
                "ListUnits",
                "Status",
                "Show",
                "Why",
                "Machine",
                // Changing it is refused by the method itself.
                "Environment",
                "Subscribe",
            ]
        );
    }
}
