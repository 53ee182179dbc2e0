//! What the manager is asked for. Pure.

use muster_control::manager::{AuxiliaryUnit, StartTransientCall, WaitWhat};
use muster_unit_file::directives::lookup;
use muster_unit_file::name::{UnitName, UnitType};

use crate::cli::Run;

/// What is known of the process that asks.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// The absolute path of the program, if there is a command.
    pub(super) program: Option<String>,
    /// The current folder, if it is wanted.
    pub(super) folder: Option<String>,
    /// The slice that the process is in.
    pub(super) slice: Option<String>,
    /// The process.
    pub(super) pid: u32,
    /// Something that nobody else has drawn.
    pub(super) random: String,
    /// The environment.
    pub(super) variable: fn(&str) -> Option<String>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// The request.
    pub(super) call: StartTransientCall,
    /// Where something else starts the service: what, and the service.
    pub(super) started_by: Option<(&'static str, String)>,
}

/// Settings of a unit, in order.
type Settings = Vec<(String, String)>;

/// What the options come to.
///
/// # Errors
/// What is wrong with them, for people.
pub(super) fn plan(options: &Run, caller: &Caller) -> Result<Plan, String> {
    let starter = starter(options)?;
    let kind = if options.scope {
        UnitType::Scope
    } else {
        UnitType::Service
    };
    let is_named_service = starter.is_some() && options.unit.is_some();
    if options.command.is_empty() && !is_named_service {
        return Err("Name a command to run.".to_owned());
    }
    if let Some((starter, _)) = &starter
        && (options.pty || options.pipe || options.wait)
    {
        return Err(format!(
            "Options --pty, --pipe and --wait make no sense with a transient {starter}."
        ));
    }
    let name = match &options.unit {
        Some(text) => UnitName::mangle(text, kind).map_err(|error| error.to_string())?,
        None => {
            let short = caller.random.get(..12).unwrap_or(&caller.random);
            UnitName::new(&format!("run-{short}.{kind}")).map_err(|error| error.to_string())?
        }
    };
    let settings = settings(options, caller, kind)?;
    let waits = options.wait || options.pty || options.pipe;
    let mut call = StartTransientCall {
        unit: name.as_str().to_owned(),
        mode: "fail".to_owned(),
        properties: settings,
        pids: if options.scope {
            vec![caller.pid]
        } else {
            Vec::new()
        },
        stdio: options.pipe,
        collect: options.collect,
        wait: if waits {
            WaitWhat::Inactive
        } else {
            WaitWhat::Job
        },
        ..StartTransientCall::default()
    };
    let Some((starter, mut properties)) = starter else {
        return Ok(Plan {
            call,
            started_by: None,
        });
    };
    let service = name.as_str().to_owned();
    let stem = service.trim_end_matches(&format!(".{kind}"));
    call.unit = format!("{stem}.{starter}");
    let service_settings = std::mem::take(&mut call.properties);
    let description = service_settings
        .iter()
        .find(|(name, _)| name == "Unit.Description");
    if let Some(description) = description {
        properties.insert(0, description.clone());
    }
    call.properties = properties;
    if !options.command.is_empty() {
        call.auxiliary.push(AuxiliaryUnit {
            unit: service.clone(),
            properties: service_settings,
        });
    }
    Ok(Plan {
        call,
        started_by: Some((starter, service)),
    })
}

/// The timer, socket or path that starts the service, with its settings.
fn starter(options: &Run) -> Result<Option<(&'static str, Settings)>, String> {
    let timer = timer(options)?;
    let socket = assignments(&options.socket_properties, "Socket")?;
    let path = assignments(&options.path_properties, "Path")?;
    let mut found: Vec<(&'static str, Settings)> =
        [("timer", timer), ("socket", socket), ("path", path)]
            .into_iter()
            .filter(|(_, settings)| !settings.is_empty())
            .collect();
    if found.len() > 1 {
        return Err("A timer, a socket and a path cannot be made together.".to_owned());
    }
    if options.scope && !found.is_empty() {
        return Err("A scope cannot be started by a timer, socket or path.".to_owned());
    }
    Ok(found.pop())
}

fn timer(options: &Run) -> Result<Settings, String> {
    let lists = [
        ("OnActiveSec", &options.on_active),
        ("OnBootSec", &options.on_boot),
        ("OnStartupSec", &options.on_startup),
        ("OnUnitActiveSec", &options.on_unit_active),
        ("OnUnitInactiveSec", &options.on_unit_inactive),
        ("OnCalendar", &options.on_calendar),
    ];
    let mut settings: Settings = lists
        .into_iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name, value.clone())))
        .map(|(name, value)| (format!("Timer.{name}"), value))
        .collect();
    let switches = [
        ("OnTimezoneChange", options.on_timezone_change),
        ("OnClockChange", options.on_clock_change),
    ];
    for (name, _) in switches.into_iter().filter(|(_, on)| *on) {
        settings.push((format!("Timer.{name}"), "yes".to_owned()));
    }
    let own = assignments(&options.timer_properties, "Timer")?;
    let fires = own.iter().any(|(name, _)| name.starts_with("Timer.On"));
    if settings.is_empty() && !fires {
        return match own.first() {
            None => Ok(own),
            Some(_) => Err("Option --timer-property needs one of --on-...".to_owned()),
        };
    }
    settings.extend(own);
    // A timer that will never fire again has done its work.
    if !settings
        .iter()
        .any(|(name, _)| name == "Timer.RemainAfterElapse")
    {
        settings.push(("Timer.RemainAfterElapse".to_owned(), "no".to_owned()));
    }
    Ok(settings)
}

/// `NAME=VALUE` of a section, or of `[Unit]` where the setting is there.
fn assignments(texts: &[String], section: &str) -> Result<Settings, String> {
    texts
        .iter()
        .map(|text| {
            let (name, value) = text
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| format!("'{text}' is not an assignment: write NAME=VALUE."))?;
            Ok((with_section(name, section), value.to_owned()))
        })
        .collect()
}

fn with_section(name: &str, section: &str) -> String {
    if name.contains('.') {
        return name.to_owned();
    }
    let is_of_unit = lookup(section, name).is_none() && lookup("Unit", name).is_some();
    format!("{}.{name}", if is_of_unit { "Unit" } else { section })
}

/// The settings of the service or scope.
fn settings(options: &Run, caller: &Caller, kind: UnitType) -> Result<Settings, String> {
    let section = if kind == UnitType::Scope {
        "Scope"
    } else {
        "Service"
    };
    let mut settings = Settings::new();
    let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
    let description = match &options.description {
        Some(text) => text.clone(),
        None => options.command.join(" "),
    };
    if !description.is_empty() {
        set(
            "Unit.Description",
            description.replace('%', "%%").replace('\n', " "),
        );
    }
    let slice = match (&options.slice, options.slice_inherit) {
        (Some(slice), _) => {
            let name =
                UnitName::mangle(slice, UnitType::Slice).map_err(|error| error.to_string())?;
            Some(name.as_str().to_owned())
        }
        (None, true) => caller.slice.clone(),
        (None, false) => None,
    };
    if let Some(slice) = slice {
        set(&format!("{section}.Slice"), slice);
    }
    if kind == UnitType::Service {
        service(options, caller, &mut set)?;
    }
    settings.extend(assignments(&options.properties, section)?);
    if let (UnitType::Service, Some(program)) = (kind, &caller.program) {
        let words = std::iter::once(program).chain(options.command.iter().skip(1));
        let line: Vec<String> = words.map(|word| quoted(word)).collect();
        settings.push(("Service.ExecStart".to_owned(), line.join(" ")));
    }
    Ok(settings)
}

fn service(
    options: &Run,
    caller: &Caller,
    set: &mut impl FnMut(&str, String),
) -> Result<(), String> {
    let named = [
        ("Service.Type", &options.service_type),
        ("Service.User", &options.uid),
        ("Service.Group", &options.gid),
        ("Service.Nice", &options.nice),
        ("Service.WorkingDirectory", &options.working_directory),
        ("Service.WorkingDirectory", &caller.folder),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            set(name, value.replace('%', "%%"));
        }
    }
    if options.remain_after_exit {
        set("Service.RemainAfterExit", "yes".to_owned());
    }
    for variable in environment(options, caller)? {
        set("Service.Environment", quoted_variable(&variable));
    }
    Ok(())
}

/// The variables of `--setenv`, each `NAME=VALUE`.
pub(super) fn environment(options: &Run, caller: &Caller) -> Result<Vec<String>, String> {
    options
        .variables
        .iter()
        .map(|text| {
            if text.contains('=') {
                return Ok(text.clone());
            }
            let value = (caller.variable)(text);
            let value = value.ok_or_else(|| format!("Environment variable ${text} is not set."))?;
            Ok(format!("{text}={value}"))
        })
        .collect()
}

/// A word of a command line that unit files give back as it is: no specifier, no variable, no end of the word in it.
fn quoted(word: &str) -> String {
    quoted_variable(word).replace('$', "$$")
}

/// A word of a list of variables, where `$` means nothing.
fn quoted_variable(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@+,$".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => {
                text.push('\\');
                text.push(c);
            }
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '%' => text.push_str("%%"),
            c if c.is_ascii_control() => text.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// The slice in what `/proc/PID/cgroup` says: the deepest group that is one.
pub(super) fn slice_of(groups: &str) -> Option<String> {
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let named = || {
        groups
            .lines()
            .find_map(|line| line.split_once(":name=systemd:").map(|(_, path)| path))
    };
    let path = unified.filter(|path| *path != "/").or_else(named)?;
    let slice = path.split('/').rfind(|part| part.ends_with(".slice"))?;
    Some(slice.to_owned())
}
