//! What happens in the fake: requests in, answers out, nothing else.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use muster_lifecycle::{Halt, State};

use super::params::Params;
use super::write::{instance, list, state, text};
use super::{FakeSettings, FakeView};

/// A request that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) message: String,
}

pub(super) fn refuse(status: u16, code: &'static str, message: impl Into<String>) -> Refusal {
    let message = message.into();
    Refusal {
        status,
        code,
        message,
    }
}

/// The inside of an answer, or why there is none.
pub(super) type Outcome = Result<String, Refusal>;

#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) id: String,
    pub(super) image: String,
    pub(super) kind: String,
    pub(super) spot: bool,
    pub(super) can_hibernate: bool,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) reason: Option<&'static str>,
    state: State,
    next: Option<(Instant, State)>,
    shown: Instant,
    forgotten: bool,
    made_with: Params,
    reboots: u32,
}

impl Machine {
    fn is_shown(&self, now: Instant) -> bool {
        self.shown <= now && !self.forgotten
    }

    pub(super) fn state_at(&self, now: Instant) -> State {
        match self.next {
            Some((at, state)) if at <= now => state,
            _ => self.state,
        }
    }

    fn go(&mut self, through: State, to: State, at: Instant) {
        self.state = through;
        self.next = Some((at, to));
    }
}

#[derive(Debug, Clone)]
struct Template {
    params: Params,
    tags: BTreeMap<String, String>,
    created: String,
}

/// What a token was used for, and what came of it.
#[derive(Debug)]
struct Used {
    request: Params,
    machine: String,
}

#[derive(Debug, Default)]
pub(super) struct World {
    machines: BTreeMap<String, Machine>,
    tokens: BTreeMap<String, Used>,
    templates: BTreeMap<String, Template>,
}

/// A machine that is to be made.
struct Making<'a> {
    params: &'a Params,
    /// What stands before the names of the parameters that say what it is made of.
    prefix: &'static str,
    kind: &'a str,
    spot: bool,
    tags: BTreeMap<String, String>,
}

impl World {
    pub(super) fn views(&self, now: Instant) -> Vec<FakeView> {
        let views = self.machines.values().map(|machine| FakeView {
            id: machine.id.clone(),
            kind: machine.kind.clone(),
            state: machine.state_at(now),
            spot: machine.spot,
            tags: machine.tags.clone(),
            made_with: machine.made_with.0.clone(),
            reboots: machine.reboots,
        });
        views.collect()
    }

    pub(super) fn template_names(&self) -> Vec<String> {
        self.templates.keys().cloned().collect()
    }

    pub(super) fn add_foreign(&mut self, tags: &[(&str, &str)], now: Instant) -> String {
        let id = self.next_id();
        let machine = Machine {
            id: id.clone(),
            image: super::IMAGE.to_owned(),
            kind: "m5.large".to_owned(),
            spot: false,
            can_hibernate: false,
            tags: owned(tags),
            reason: None,
            state: State::Running,
            next: None,
            shown: now,
            forgotten: false,
            made_with: Params::default(),
            reboots: 0,
        };
        self.machines.insert(id.clone(), machine);
        id
    }

    pub(super) fn add_template(&mut self, name: &str, tags: &[(&str, &str)], created: &str) {
        let template = Template {
            params: Params::default(),
            tags: owned(tags),
            created: created.to_owned(),
        };
        self.templates.insert(name.to_owned(), template);
    }

    pub(super) fn forget_terminated(&mut self, now: Instant) {
        for machine in self.machines.values_mut() {
            machine.forgotten |= machine.state_at(now) == State::Terminated;
        }
    }

    pub(super) fn interrupt(&mut self, id: &str, halt: Duration, now: Instant) {
        if let Some(machine) = self.machines.get_mut(id)
            && machine.spot
        {
            machine.reason = Some("Server.SpotInstanceTermination");
            machine.go(State::ShuttingDown, State::Terminated, now + halt);
        }
    }

    /// Carries a request out.
    pub(super) fn answer(
        &mut self,
        action: &str,
        params: &Params,
        settings: &FakeSettings,
        now: Instant,
    ) -> Outcome {
        match action {
            "RunInstances" => self.run(params, settings, now),
            "DescribeInstances" => self.describe(params, settings, now),
            "StartInstances" => self.change(params, now, |machine| start(machine, settings, now)),
            "StopInstances" => {
                let hibernate = params.is("Hibernate", "true");
                self.change(params, now, |machine| {
                    stop(machine, hibernate, settings, now)
                })
            }
            "TerminateInstances" => self.change(params, now, |machine| {
                if !machine.state_at(now).is_ending() {
                    machine.reason = Some("Client.UserInitiatedShutdown");
                    machine.go(State::ShuttingDown, State::Terminated, now + settings.halt);
                }
                Ok(())
            }),
            "RebootInstances" => {
                self.change(params, now, |machine| {
                    must_be(machine, &[State::Running], now)?;
                    machine.reboots += 1;
                    Ok(())
                })?;
                Ok(text("return", "true"))
            }
            "DescribeImages" => images(params, settings),
            "CreateLaunchTemplate" => self.create_template(params),
            "DeleteLaunchTemplate" => self.delete_template(params),
            "DescribeLaunchTemplates" => Ok(self.describe_templates(params)),
            "CreateFleet" => self.fleet(params, settings, now),
            other => Err(refuse(
                400,
                "InvalidAction",
                format!("the action {other} is not valid for this web service"),
            )),
        }
    }

    fn next_id(&self) -> String {
        format!("i-{:017}", self.machines.len() + 1)
    }

    /// What a token made before, if it was the same request.
    fn used(&self, action: &str, params: &Params) -> Result<Option<&Used>, Refusal> {
        let Some(token) = params.get("ClientToken") else {
            return Ok(None);
        };
        match self.tokens.get(&format!("{action}/{token}")) {
            Some(used) if used.request != params.without_token() => Err(refuse(
                400,
                "IdempotentParameterMismatch",
                "the client token was used with other parameters",
            )),
            used => Ok(used),
        }
    }

    fn use_up(&mut self, action: &str, params: &Params, machine: &str) {
        if let Some(token) = params.get("ClientToken") {
            let used = Used {
                request: params.without_token(),
                machine: machine.to_owned(),
            };
            self.tokens.insert(format!("{action}/{token}"), used);
        }
    }

    fn make(
        &mut self,
        making: &Making<'_>,
        settings: &FakeSettings,
        now: Instant,
    ) -> Result<String, Refusal> {
        let alive = |machine: &&Machine| machine.state_at(now) != State::Terminated;
        let count = self.machines.values().filter(alive).count();
        if settings.quota.is_some_and(|quota| count >= quota) {
            let code = match making.spot {
                true => "MaxSpotInstanceCountExceeded",
                false => "VcpuLimitExceeded",
            };
            return Err(refuse(400, code, "you have requested more than your limit"));
        }
        let offered = match making.spot {
            true => settings.spot.get(making.kind),
            false => settings.on_demand.get(making.kind),
        };
        let same = |machine: &&Machine| machine.kind == making.kind && machine.spot == making.spot;
        let taken = self.machines.values().filter(alive).filter(same).count();
        if offered.is_some_and(|&offered| taken >= offered) {
            let message = format!("there is no Spot or on-demand capacity for {}", making.kind);
            return Err(refuse(500, "InsufficientInstanceCapacity", message));
        }
        let get = |name: &str| making.params.get(&format!("{}{name}", making.prefix));
        let image = get("ImageId").unwrap_or_default();
        if !settings.images.iter().any(|known| known.id == image) {
            let message = format!("the image id '[{image}]' does not exist");
            return Err(refuse(400, "InvalidAMIID.NotFound", message));
        }
        let can_hibernate = get("HibernationOptions.Configured") == Some("true");
        if can_hibernate && get("BlockDeviceMapping.1.Ebs.Encrypted") != Some("true") {
            let message = "hibernation needs an encrypted root volume";
            return Err(refuse(400, "UnsupportedHibernationConfiguration", message));
        }
        let id = self.next_id();
        let mut machine = Machine {
            id: id.clone(),
            image: image.to_owned(),
            kind: making.kind.to_owned(),
            spot: making.spot,
            can_hibernate,
            tags: making.tags.clone(),
            reason: None,
            state: State::Pending,
            next: None,
            shown: now + settings.shown_after,
            forgotten: false,
            made_with: making.params.clone(),
            reboots: 0,
        };
        machine.go(State::Pending, State::Running, now + settings.boot);
        self.machines.insert(id.clone(), machine);
        Ok(id)
    }

    fn run(&mut self, params: &Params, settings: &FakeSettings, now: Instant) -> Outcome {
        let id = match self.used("RunInstances", params)? {
            Some(used) if self.machines[&used.machine].state_at(now) == State::Terminated => {
                let message = "the instance of this client token was terminated";
                return Err(refuse(400, "IdempotentInstanceTerminated", message));
            }
            Some(used) => used.machine.clone(),
            None => {
                let making = Making {
                    params,
                    prefix: "",
                    kind: params.get("InstanceType").unwrap_or("m1.small"),
                    spot: params.is("InstanceMarketOptions.MarketType", "spot"),
                    tags: params.tags("", "instance"),
                };
                let id = self.make(&making, settings, now)?;
                self.use_up("RunInstances", params, &id);
                id
            }
        };
        let made = instance(&self.machines[&id], settings.private_address, now);
        Ok(text("reservationId", "r-1") + &list("instancesSet", [made]))
    }

    fn describe(&self, params: &Params, settings: &FakeSettings, now: Instant) -> Outcome {
        let shown = |machine: &&Machine| machine.is_shown(now);
        let ids = params.list("InstanceId");
        for id in &ids {
            if self.machines.get(*id).filter(shown).is_none() {
                return Err(unknown(id));
            }
        }
        let filters = params.filters();
        let fits = |machine: &&Machine| {
            let named = ids.is_empty() || ids.contains(&machine.id.as_str());
            let filtered = filters.iter().all(|(name, values)| {
                let tag = name.strip_prefix("tag:").unwrap_or_default();
                machine
                    .tags
                    .get(tag)
                    .is_some_and(|tag| values.contains(tag))
            });
            named && filtered
        };
        let first: usize = params
            .get("NextToken")
            .and_then(|it| it.parse().ok())
            .unwrap_or(0);
        let asked = params.get("MaxResults").and_then(|it| it.parse().ok());
        let page = asked.unwrap_or(1000).min(settings.page);
        let found: Vec<_> = self.machines.values().filter(shown).filter(fits).collect();
        let reservations = found
            .iter()
            .skip(first)
            .take(page)
            .map(|machine| instance(machine, settings.private_address, now))
            .map(|machine| list("instancesSet", [machine]));
        let mut inside = list("reservationSet", reservations);
        if first + page < found.len() {
            inside += &text("nextToken", &(first + page).to_string());
        }
        Ok(inside)
    }

    fn change(
        &mut self,
        params: &Params,
        now: Instant,
        change: impl FnOnce(&mut Machine) -> Result<(), Refusal>,
    ) -> Outcome {
        let id = params.get("InstanceId.1").unwrap_or_default();
        let machine = self.machines.get_mut(id);
        let machine = machine.filter(|machine| machine.is_shown(now));
        let machine = machine.ok_or_else(|| unknown(id))?;
        let before = machine.state_at(now);
        change(machine)?;
        let changed = text("instanceId", id)
            + &state("currentState", machine.state_at(now))
            + &state("previousState", before);
        Ok(list("instancesSet", [changed]))
    }

    fn create_template(&mut self, params: &Params) -> Outcome {
        let name = params.get("LaunchTemplateName").unwrap_or_default();
        if self.templates.contains_key(name) {
            let code = "InvalidLaunchTemplateName.AlreadyExistsException";
            return Err(refuse(400, code, "the name is in use"));
        }
        let template = Template {
            params: params.clone(),
            tags: params.tags("", "launch-template"),
            created: jiff::Timestamp::now().to_string(),
        };
        self.templates.insert(name.to_owned(), template);
        Ok(format!(
            "<launchTemplate>{}</launchTemplate>",
            text("launchTemplateName", name)
        ))
    }

    fn delete_template(&mut self, params: &Params) -> Outcome {
        let name = params.get("LaunchTemplateName").unwrap_or_default();
        let code = "InvalidLaunchTemplateName.NotFoundException";
        let gone = self.templates.remove(name);
        gone.ok_or_else(|| refuse(400, code, "there is no such template"))?;
        Ok(format!(
            "<launchTemplate>{}</launchTemplate>",
            text("launchTemplateName", name)
        ))
    }

    fn describe_templates(&self, params: &Params) -> String {
        let filters = params.filters();
        let fits = |template: &Template| {
            filters.iter().all(|(name, values)| {
                let tag = name.strip_prefix("tag:").unwrap_or_default();
                template
                    .tags
                    .get(tag)
                    .is_some_and(|tag| values.contains(tag))
            })
        };
        let found = self.templates.iter().filter(|(_, template)| fits(template));
        list(
            "launchTemplates",
            found.map(|(name, template)| {
                text("launchTemplateName", name) + &text("createTime", &template.created)
            }),
        )
    }

    fn fleet(&mut self, params: &Params, settings: &FakeSettings, now: Instant) -> Outcome {
        if let Some(used) = self.used("CreateFleet", params)? {
            return Ok(fleet_made(&used.machine));
        }
        let config = "LaunchTemplateConfigs.1";
        let name = params.get(&format!(
            "{config}.LaunchTemplateSpecification.LaunchTemplateName"
        ));
        let template = name.and_then(|name| self.templates.get(name)).cloned();
        let code = "InvalidLaunchTemplateName.NotFoundException";
        let template = template.ok_or_else(|| refuse(400, code, "there is no such template"))?;
        let mut faults = Vec::new();
        for over in params.prefixes(&format!("{config}.Overrides"), "InstanceType") {
            let making = Making {
                params: &template.params,
                prefix: "LaunchTemplateData.",
                kind: params
                    .get(&format!("{over}.InstanceType"))
                    .unwrap_or_default(),
                spot: true,
                tags: params.tags("", "instance"),
            };
            match self.make(&making, settings, now) {
                Ok(id) => {
                    self.use_up("CreateFleet", params, &id);
                    return Ok(fleet_made(&id));
                }
                Err(fault) => faults.push(fault),
            }
        }
        let faults = faults
            .iter()
            .map(|fault| text("errorCode", fault.code) + &text("errorMessage", &fault.message));
        Ok(text("fleetId", "fleet-1") + &list("errorSet", faults))
    }
}

fn owned(tags: &[(&str, &str)]) -> BTreeMap<String, String> {
    let tags = tags
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()));
    tags.collect()
}

fn fleet_made(id: &str) -> String {
    let ids = format!("<instanceIds><item>{id}</item></instanceIds>");
    text("fleetId", "fleet-1") + &list("fleetInstanceSet", [ids])
}

fn unknown(id: &str) -> Refusal {
    let message = format!("the instance ID '{id}' does not exist");
    refuse(400, "InvalidInstanceID.NotFound", message)
}

fn must_be(machine: &Machine, states: &[State], now: Instant) -> Result<(), Refusal> {
    let state = machine.state_at(now);
    match states.iter().any(|wanted| wanted.code() == state.code()) {
        true => Ok(()),
        false => {
            let message = format!("the instance '{}' is {}", machine.id, state.ec2_name());
            Err(refuse(400, "IncorrectInstanceState", message))
        }
    }
}

const OFF: State = State::Stopped(Halt::Off);

fn start(machine: &mut Machine, settings: &FakeSettings, now: Instant) -> Result<(), Refusal> {
    must_be(machine, &[State::Pending, State::Running, OFF], now)?;
    if machine.state_at(now).code() == OFF.code() {
        machine.reason = None;
        machine.go(State::Pending, State::Running, now + settings.boot);
    }
    Ok(())
}

fn stop(
    machine: &mut Machine,
    hibernate: bool,
    settings: &FakeSettings,
    now: Instant,
) -> Result<(), Refusal> {
    if machine.spot {
        let message = "a Spot Instance of a one-time request cannot be stopped";
        return Err(refuse(400, "UnsupportedOperation", message));
    }
    if hibernate && !machine.can_hibernate {
        let message = "the instance was not launched with hibernation";
        return Err(refuse(400, "UnsupportedHibernationConfiguration", message));
    }
    must_be(
        machine,
        &[State::Running, State::Stopping(Halt::Off), OFF],
        now,
    )?;
    if machine.state_at(now).code() == OFF.code() {
        return Ok(());
    }
    let halt = if hibernate {
        Halt::Hibernated
    } else {
        Halt::Off
    };
    machine.reason = Some(match hibernate {
        true => "Client.UserInitiatedHibernate",
        false => "Client.UserInitiatedShutdown",
    });
    machine.go(
        State::Stopping(halt),
        State::Stopped(halt),
        now + settings.halt,
    );
    Ok(())
}

fn images(params: &Params, settings: &FakeSettings) -> Outcome {
    let ids = params.list("ImageId");
    for id in &ids {
        if !settings.images.iter().any(|image| image.id == *id) {
            let message = format!("the image id '[{id}]' does not exist");
            return Err(refuse(400, "InvalidAMIID.NotFound", message));
        }
    }
    let owners = params.list("Owner");
    let filters = params.filters();
    let fits = |image: &&super::FakeImage| {
        let named = ids.is_empty() || ids.contains(&image.id);
        let theirs = owners.is_empty() || owners.contains(&image.owner);
        let filtered = filters.iter().all(|(name, values)| match name.as_str() {
            "name" => values.iter().any(|value| glob(value, image.name)),
            "architecture" => values.iter().any(|value| value == image.arch),
            _ => true,
        });
        named && theirs && filtered
    };
    let found = settings.images.iter().filter(fits).map(|image| {
        text("imageId", image.id)
            + &text("name", image.name)
            + &text("architecture", image.arch)
            + &text("creationDate", image.created)
            + &text("rootDeviceName", image.root_device)
    });
    Ok(list("imagesSet", found))
}

/// A pattern with one star.
fn glob(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
        None => pattern == name,
    }
}
