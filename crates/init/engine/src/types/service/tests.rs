//! Scenarios of services: the way up per type, every step that can fail, and the way down.

mod down;
mod policy;
mod supervise;
mod up;

use crate::protocol::Notification;
use crate::types::Machine;
use crate::types::tests::world::World;

impl World {
    fn notify(&mut self, change: impl FnOnce(&mut Notification)) -> &mut Self {
        let mut message = Notification::default();
        change(&mut message);
        self.give(crate::protocol::Input::Notified(Box::new(message)))
    }

    fn ready(&mut self) -> &mut Self {
        self.notify(|message| message.ready = true)
    }

    fn the_service(&self) -> &super::Service {
        match &self.machine {
            Machine::Service(service) => service,
            other => panic!("{other:?} is no service"),
        }
    }
}
