//! Generators, run before unit files are read.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use muster_activation::conditions::Virtualization;
use muster_activation::generators::{
    GeneratorOutcome, GeneratorReport, GeneratorRun, GeneratorSettings, OutputFolders,
    find_generators,
};
use muster_engine::protocol::Severity;

use super::chain;
use crate::core::Core;
use crate::platform::Token;

/// Where generators are, where the command line names no other folders.
const FOLDERS: [&str; 4] = [
    "/run/systemd/system-generators",
    "/etc/systemd/system-generators",
    "/usr/local/lib/systemd/system-generators",
    "/usr/lib/systemd/system-generators",
];
/// All of them together; those that are not done then are killed.
const TIME_LIMIT: Duration = Duration::from_secs(90);
/// A reload waits so long. What slower ones write is read when they are done.
const PATIENCE: Duration = Duration::from_secs(1);

impl Core {
    fn generator_settings(&mut self) -> Option<GeneratorSettings> {
        let folders: Vec<PathBuf> = match &self.options.generator_path {
            Some(folders) => folders.iter().map(PathBuf::from).collect(),
            // The units of another machine, or of a part of one: this machine's generators know nothing about it.
            None if self.supervised || self.options.unit_path.is_some() => return None,
            None => FOLDERS.iter().map(PathBuf::from).collect(),
        };
        if find_generators(&folders).is_empty() {
            return None;
        }
        let [normal, early, late] = self.options.generator_folders();
        Some(GeneratorSettings {
            folders,
            output: OutputFolders {
                normal,
                early,
                late,
            },
            environment: self.generator_environment(),
            time_limit: TIME_LIMIT,
        })
    }

    fn generator_environment(&mut self) -> Vec<(OsString, OsString)> {
        let first_boot = self.is_first_boot();
        let architecture = self.units.host().specifiers.architecture.clone();
        let virtualization = match self.condition_host().virtualization() {
            Virtualization::None => None,
            Virtualization::Some { kind, name } => {
                use muster_activation::conditions::VirtualizationKind;
                let kind = match kind {
                    VirtualizationKind::Vm => "vm",
                    VirtualizationKind::Container => "container",
                };
                Some(format!("{kind}:{name}"))
            }
        };
        let word = |yes: bool| if yes { "1" } else { "0" };
        let variables = [
            (
                "PATH",
                Some("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into()),
            ),
            ("SYSTEMD_SCOPE", Some("system".to_owned())),
            ("SYSTEMD_IN_INITRD", Some("0".to_owned())),
            ("SYSTEMD_FIRST_BOOT", Some(word(first_boot).to_owned())),
            ("SYSTEMD_VIRTUALIZATION", virtualization),
            ("SYSTEMD_ARCHITECTURE", architecture.map(Into::into)),
        ];
        let given = variables.into_iter();
        given
            .filter_map(|(name, value)| Some((name.into(), value?.into())))
            .collect()
    }

    /// Runs generators and waits for them: nothing else can be done before unit files are there.
    pub(super) fn run_generators_at_boot(&mut self) {
        self.run_generators(TIME_LIMIT);
    }

    /// Runs generators and waits a moment for them. Those that take longer cause another reload.
    pub(super) fn run_generators_at_reload(&mut self) {
        if std::mem::take(&mut self.activation.generated) {
            return;
        }
        // Those of the last reload, if they still run, would write what is out of date.
        self.stop_generators();
        self.run_generators(PATIENCE);
    }

    fn run_generators(&mut self, patience: Duration) {
        let Some(settings) = self.generator_settings() else {
            return;
        };
        let started = GeneratorRun::start(&settings).and_then(|mut run| {
            let ended = run.wait_at_most(patience)?;
            Ok((run, ended))
        });
        match started {
            Ok((run, true)) => self.take_generated(run),
            Ok((run, false)) => {
                let message = "Generators take long; what they write is read when they are done.";
                self.say(Severity::Warning, None, message);
                if let Err(error) = self.platform.watch(run.as_fd(), Token::Generator(0), false) {
                    let message = format!("Generators cannot be waited for: {error}.");
                    self.say(Severity::Error, None, &message);
                }
                self.activation.generators = Some(run);
            }
            Err(error) => self.say(Severity::Error, None, &chain(&error)),
        }
    }

    fn stop_generators(&mut self) {
        if let Some(run) = self.activation.generators.take() {
            self.platform.unwatch(run.as_fd());
        }
    }

    /// A generator ended, or said something.
    pub(super) fn generators_ready(&mut self) {
        let Some(run) = &mut self.activation.generators else {
            return;
        };
        match run.advance() {
            Ok(false) => {}
            Ok(true) => {
                if let Some(run) = self.activation.generators.take() {
                    self.platform.unwatch(run.as_fd());
                    self.take_generated(run);
                    self.activation.generated = true;
                    self.reload_units();
                }
            }
            Err(error) => {
                self.say(Severity::Error, None, &chain(&error));
                self.stop_generators();
            }
        }
    }

    fn take_generated(&mut self, run: GeneratorRun) {
        match run.finish() {
            Ok(reports) => reports
                .iter()
                .for_each(|report| self.tell_of_generator(report)),
            Err(error) => self.say(Severity::Error, None, &chain(&error)),
        }
        self.units.loader().rescan();
    }

    fn tell_of_generator(&mut self, report: &GeneratorReport) {
        let name = report.program.display();
        let how = match &report.outcome {
            GeneratorOutcome::Exited(0) => None,
            GeneratorOutcome::Exited(code) => Some(format!("exited with {code}")),
            GeneratorOutcome::Killed(signal) => Some(format!("was killed by signal {signal}")),
            GeneratorOutcome::TimedOut => Some("took too long and was killed".to_owned()),
            GeneratorOutcome::NotStarted(kind) => Some(format!("could not be started: {kind}")),
        };
        if let Some(how) = how {
            let message = format!("The generator {name} {how}.");
            self.say(Severity::Warning, None, &message);
        }
        for line in report
            .printed
            .lines()
            .filter(|line| !line.trim().is_empty())
        {
            self.say(Severity::Info, None, &format!("{name}: {line}"));
        }
        if report.lost > 0 {
            let message = format!("{name} printed {} bytes more.", report.lost);
            self.say(Severity::Info, None, &message);
        }
    }
}
