//! The beginning: a first boot, or the life after a death.

use std::collections::{HashMap, VecDeque};

use muster_engine::EngineState;
use muster_engine::ids::{ActionId, Time};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::Severity;
use muster_handover::{Begun, Cause};
use muster_unit_file::fs::RealFs;
use muster_unit_file::load::Loader;
use muster_units::Host;
use muster_units::convert::Moments;

use super::exits::{Strangers, Unwatched};
use super::{BEGUN, Core, CoreError};
use crate::context::machine::RealMachine;
use crate::control::Control;
use crate::execute::activation::Activation;
use crate::execute::namespaces::NamespaceTable;
use crate::execute::setup::SettingUp;
use crate::journal_feed::Logs;
use crate::memory::Memory;
use crate::options::Options;
use crate::platform::Platform;
use crate::recover::Kept;
use crate::resources::Limited;
use crate::units::UnitTable;
use crate::user_directory::UserDirectory;

/// The target that is booted where nothing else is asked for.
const DEFAULT_TARGET: &str = "default.target";

impl Core {
    /// Takes over what `muster-init` kept, and boots or recovers.
    ///
    /// # Errors
    /// If core cannot run at all.
    pub fn begin(
        platform: Box<dyn Platform>,
        options: Options,
        host: Host,
        begun: Begun,
        record: Option<Vec<u8>>,
    ) -> Result<Self, CoreError> {
        let fs = RealFs::with_root(&options.root);
        let loader = Loader::new(fs, options.search_path(), host.specifiers.clone());
        let moments = Moments {
            startup: Time(0),
            seed: seed_of(host.specifiers.boot_id.as_deref()),
            machine_seed: seed_of(host.specifiers.machine_id.as_deref()),
        };
        let mut core = Self {
            platform,
            engine: EngineState::new(),
            memory: Memory::default(),
            units: UnitTable::new(loader, host, moments),
            machine: Box::new(RealMachine::new(&options.root, &options.runtime)),
            logs: Logs::new(options.console),
            control: Control::default(),
            activation: Activation::default(),
            processes: HashMap::new(),
            setting_up: SettingUp::default(),
            namespaces: NamespaceTable::default(),
            user_directory: UserDirectory::default(),
            cgroups: HashMap::new(),
            unwatched: Unwatched::default(),
            strangers: Strangers::default(),
            limited: Limited::default(),
            queue: VecDeque::new(),
            cause: None,
            done: ActionId(0),
            log_size: 0,
            snapshot_size: 0,
            is_unwritten: false,
            quiet_since: Time(0),
            is_untidy: true,
            buffer: Vec::new(),
            forgettable: Vec::new(),
            safe_mode: begun.safe_mode || options.safe_mode,
            supervised: begun.supervised,
            ending: None,
            failure: None,
            options,
        };
        muster_fault::hit(BEGUN);
        let mut kept = Kept::new(begun.kept);
        match record {
            None => core.first_boot(&mut kept)?,
            Some(record) => core.recover(&record, &begun.cause, &begun.exits, &mut kept)?,
        }
        Ok(core)
    }

    fn first_boot(&mut self, kept: &mut Kept) -> Result<(), CoreError> {
        let now = self.now();
        self.memory.started = now;
        self.write_snapshot()?;
        self.open_control(kept)?;
        self.begin_activation();
        self.sweep_private_tmp();
        self.prepare_network();
        self.boot();
        self.platform.adopted();
        Ok(())
    }

    /// Services expect to reach each other at 127.0.0.1 before anybody has set a network up. Beside another init that is its part.
    fn prepare_network(&mut self) {
        if self.supervised {
            return;
        }
        if let Err(error) = self.platform.raise_loopback() {
            let message = format!("Cannot bring the loopback interface up: {error}.");
            self.say(Severity::Warning, None, &message);
        }
    }

    /// Asks for the unit that the machine is to come up with.
    pub(crate) fn boot(&mut self) {
        self.memory.loading.0 = self.now();
        let unit = self
            .options
            .unit
            .clone()
            .unwrap_or_else(|| DEFAULT_TARGET.to_owned());
        self.memory.booted = unit.as_str().into();
        if self.safe_mode {
            let message = "Safe mode: the machine is not booted by itself; `sctl start default.target` does it.";
            self.say(Severity::Warning, None, message);
        } else {
            self.want(&unit, JobVerb::Start, JobMode::Replace);
        }
        self.memory.loading.1 = self.now();
    }

    /// What the log says about a recovery.
    pub(crate) fn cause_in_words(cause: &Cause) -> String {
        match cause {
            Cause::FirstBoot => "started".to_owned(),
            Cause::Crash { outcome } => format!("ended unexpectedly ({outcome}) and is back"),
            Cause::Hang => "hung, was ended and is back".to_owned(),
            Cause::Upgrade => "was replaced by another program".to_owned(),
            Cause::RolledBack { outcome } => {
                format!("is the former program again, because the new one did not work ({outcome})")
            }
            Cause::SoftReboot => "begins anew".to_owned(),
        }
    }
}

/// A number that stays the same for the same text.
fn seed_of(id: Option<&str>) -> u64 {
    let hex = id.and_then(|id| id.get(..16));
    hex.and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .unwrap_or(1)
}
