//! From nothing, or from whatever is left, to a Unit that runs.

use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use muster_config::{ConfigError, Format, Limits};
use muster_desired::DesiredStatus;
use muster_node_files::{COMMUNICATION_MANAGER, EVERYTHING, IDENTITY};
use muster_pki::jiff::Timestamp;
use muster_pki::{Authority, SystemId};

use crate::Tell;
use crate::cgroups::Trees;
use crate::command::{self, CommandError};
use crate::error::{FileError, UpError};
use crate::files::NodePlan;
use crate::layout::{Layout, MAIN, NodePlace, SECOND};
use crate::record::{Before, Record};
use crate::settings::{Settings, Shape};
use crate::supervisor::{self, Start, StartError};
use crate::unit::{Picture, Unit, UnitError};
use crate::{claim, files, images, links, needs, sweep};

/// A daemon that has just been started listens within this time.
const DAEMON_TIME: Duration = Duration::from_secs(20);
/// Others can be started without it, too.
const CONTROLLER_TIME: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A Unit that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it is.
    pub picture: Picture,
    /// Address and port of the demo's web service, if it has any.
    pub web: Option<String>,
    /// What says what shall run.
    pub desired: PathBuf,
    /// Where operators' tools reach it.
    pub control_socket: PathBuf,
}

/// Brings the Unit up, from whatever state it is in.
///
/// # Errors
/// With the step that failed. What was made stays, for another [`up`] or for [`down`](crate::down).
pub fn up(settings: &Settings, tell: &mut dyn Tell) -> Result<Outcome, UpError> {
    let layout = Layout::new(&settings.dir, &settings.run).map_err(UpError::Layout)?;
    let missing = needs::missing(settings);
    if !missing.is_empty() {
        return Err(UpError::Missing { missing });
    }
    // What is not there now was made for the Unit and goes with it.
    let before = Before::look(&layout);
    let _lock = claim::folder(&layout)?;
    let mut record = match Record::load(&layout)? {
        Some(record) => claim::known(&layout, settings, record)?,
        None => claim::new(&layout, settings, before)?,
    };
    tell.step("making the certificate authority and the demo's images");
    let system = authority(&layout)?;
    images::make(&layout, &record, &settings.programs)?;
    let desired = desired(&layout)?;
    let trees = match record.shape() {
        Shape::TwoNodes => Trees::find(),
        Shape::OneUser => Trees::default(),
    };
    sweep_dead(&layout, &record, &trees)?;
    claim::ports(&layout, &mut record)?;
    let nodes = Nodes::new(&layout, &record, settings);
    nodes.write_files(&system)?;
    nodes.start(&trees, tell)?;
    nodes.provision(tell)?;
    nodes.start_everything()?;
    tell.step("waiting for the Unit to run what it should");
    let picture = follow(&layout, &desired, nodes.places.len(), settings, tell)?;
    Ok(Outcome {
        web: web_address(&record, &picture),
        desired: layout.desired(),
        control_socket: layout.control_socket(),
        picture,
    })
}

/// Where the demo's web service answers.
fn web_address(record: &Record, picture: &Picture) -> Option<String> {
    let mut instances = picture.instances.values();
    let web = instances.find(|it| it.name.starts_with("web/"))?;
    let address = match record.shape() {
        Shape::TwoNodes => Some(&web.address).filter(|it| !it.is_empty())?.clone(),
        Shape::OneUser => record.main_address().to_string(),
    };
    Some(format!("{address}:{}", record.ports.web))
}

pub(crate) fn failed(what: impl Into<String>) -> impl FnOnce(CommandError) -> UpError {
    let what = what.into();
    move |source| UpError::Command { what, source }
}

/// The authority, made if it is missing; the id of its system.
fn authority(layout: &Layout) -> Result<String, UpError> {
    let system: SystemId = layout
        .cgroup()
        .parse()
        .map_err(|error| std::io::Error::other(format!("{error}")))
        .map_err(FileError::of("make an authority in", &layout.pki()))?;
    let made = Authority::init(&layout.pki(), &system, Timestamp::now());
    made.map_err(UpError::Authority)?;
    Ok(system.to_string())
}

/// What shall run, and how many instances that is.
struct Wish {
    document: Vec<u8>,
    instances: usize,
}

fn desired(layout: &Layout) -> Result<Wish, UpError> {
    let path = layout.desired();
    let document = fs::read(&path).map_err(FileError::of("read", &path))?;
    let name = path.display().to_string();
    let read: Result<DesiredStatus, ConfigError> =
        DesiredStatus::read(&name, Format::Yaml, &document, Limits::default());
    let wanted = read.map_err(|source| UpError::Desired {
        path,
        source: Box::new(source),
    })?;
    let count: u64 = wanted.instances().values().map(|it| it.count).sum();
    Ok(Wish {
        document,
        instances: usize::try_from(count).unwrap_or(usize::MAX),
    })
}

/// Where the nodes are.
fn places(layout: &Layout, record: &Record) -> Vec<NodePlace> {
    let names: &[&'static str] = match record.shape() {
        Shape::TwoNodes => &[MAIN, SECOND],
        Shape::OneUser => &[MAIN],
    };
    names.iter().map(|name| layout.node(name)).collect()
}

/// Clears away what is left of nodes whose init does not answer.
fn sweep_dead(layout: &Layout, record: &Record, trees: &Trees) -> Result<(), UpError> {
    for place in places(layout, record)
        .iter()
        .filter(|it| !supervisor::is_up(it))
    {
        sweep::node(layout, place, trees).map_err(|source| UpError::Sweep {
            node: place.name,
            source,
        })?;
    }
    Ok(())
}

/// The nodes of a Unit, and what is done to each.
struct Nodes<'a> {
    layout: &'a Layout,
    record: &'a Record,
    settings: &'a Settings,
    places: Vec<NodePlace>,
}

impl<'a> Nodes<'a> {
    fn new(layout: &'a Layout, record: &'a Record, settings: &'a Settings) -> Self {
        Self {
            layout,
            record,
            settings,
            places: places(layout, record),
        }
    }

    fn plan<'b>(&'b self, place: &'b NodePlace) -> NodePlan<'b> {
        NodePlan {
            layout: self.layout,
            record: self.record,
            place,
            programs: &self.settings.programs,
        }
    }

    fn write_files(&self, system: &str) -> Result<(), UpError> {
        for place in &self.places {
            supervisor::make_folders(place)?;
            for (path, text) in self.plan(place).files(system) {
                supervisor::write_if_changed(&path, &text)?;
            }
        }
        let join = files::join(self.layout, self.record, system);
        Ok(supervisor::write_if_changed(&self.layout.join(), &join)?)
    }

    /// Starts the nodes whose init does not answer.
    fn start(&self, trees: &Trees, tell: &mut dyn Tell) -> Result<(), UpError> {
        if let Some(subnet) = self.record.subnet {
            let made = links::make_switch(self.layout, subnet);
            made.map_err(failed("make the link between the nodes"))?;
        }
        for place in self.places.iter().filter(|it| !supervisor::is_up(it)) {
            tell.step(&format!("starting node {}", place.name));
            self.start_one(place, trees)?;
        }
        Ok(())
    }

    fn start_one(&self, place: &NodePlace, trees: &Trees) -> Result<(), UpError> {
        let start = Start {
            plan: self.plan(place),
            group: trees.make(&self.layout.cgroup(), place.name),
            unit: match is_provisioned(place) {
                true => EVERYTHING,
                false => IDENTITY,
            },
        };
        let blame = |error| match error {
            StartError::File(error) => UpError::File(error),
            StartError::Silent => UpError::Start {
                node: place.name,
                log: place.init_log(),
            },
        };
        let mut waiting = start.begin().map_err(blame)?;
        if let (SECOND, Some(subnet)) = (place.name, self.record.subnet)
            && let Err(error) = links::join(self.layout, subnet, waiting.process())
        {
            waiting.give_up();
            return Err(failed("link the second node to the first")(error));
        }
        waiting.go().map_err(blame)
    }

    /// Makes members of those that are none, all at the same time.
    fn provision(&self, tell: &mut dyn Tell) -> Result<(), UpError> {
        let others = self.places.iter().filter(|it| !is_provisioned(it));
        let others: Vec<&NodePlace> = others.collect();
        if !others.is_empty() {
            tell.step("provisioning: keys on the nodes, certificates from the authority");
        }
        for place in &others {
            wait_for_socket(&place.iam_socket());
        }
        let begin = |place: &&NodePlace| {
            let mut command = Command::new(&self.settings.muster);
            command
                .args(["node", "provision", "--iam"])
                .arg(place.iam_socket())
                .arg("--pki")
                .arg(self.layout.pki())
                .args(["--ip", &self.plan(place).address().to_string()]);
            (place.name, command::begin(command))
        };
        // All are begun before the first is waited for.
        let begun: Vec<_> = others.iter().map(begin).collect();
        for (node, begun) in begun {
            let done = begun.and_then(command::Begun::finish);
            done.map_err(failed(format!("provision node {node}")))?;
        }
        Ok(())
    }

    /// Has every init run everything; what runs already is left alone. The Communication Manager goes first, so that nobody calls
    /// it in vain and waits before the next try.
    fn start_everything(&self) -> Result<(), UpError> {
        for place in self.places.iter().filter(|it| it.name == MAIN) {
            self.start_unit(place, COMMUNICATION_MANAGER)?;
            let port = self.record.ports.cm;
            wait_until(CONTROLLER_TIME, || {
                TcpStream::connect((self.record.main_address(), port)).is_ok()
            });
        }
        for place in &self.places {
            self.start_unit(place, EVERYTHING)?;
        }
        Ok(())
    }

    fn start_unit(&self, place: &NodePlace, unit: &str) -> Result<(), UpError> {
        let mut command = Command::new(self.settings.sctl());
        command
            .args(["start", "--no-block", unit])
            .env("MUSTER_CONTROL", place.manager_socket());
        let started = command::run(command);
        started.map_err(failed(format!("start {unit} of node {}", place.name)))?;
        Ok(())
    }
}

/// As the identity manager has written down.
fn is_provisioned(place: &NodePlace) -> bool {
    fs::read_to_string(place.provisioning_state()).is_ok_and(|it| it.trim() == "provisioned")
}

/// Waits until somebody listens; whoever calls then says why nobody does.
fn wait_for_socket(path: &Path) {
    wait_until(DAEMON_TIME, || UnixStream::connect(path).is_ok());
}

fn wait_until(time: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + time;
    while !holds() && Instant::now() < deadline {
        thread::sleep(LOOK_EVERY);
    }
}

/// Has the Unit want what the file says, and follows it there.
fn follow(
    layout: &Layout,
    wish: &Wish,
    nodes: usize,
    settings: &Settings,
    tell: &mut dyn Tell,
) -> Result<Picture, UpError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UpError::Unit(UnitError::Runtime(error)))?;
    let followed = runtime.block_on(async {
        let deadline = tokio::time::Instant::now() + settings.patience;
        let mut unit = Unit::new(&layout.control_socket())?;
        unit.wait(deadline).await?;
        // What is placed while a node is missing is not moved when it comes.
        let mut is_complete = |picture: &Picture| picture.connected() >= nodes;
        unit.follow(deadline, &mut is_complete).await?;
        unit.apply(&layout.desired(), wish.document.clone()).await?;
        let mut is_active = |picture: &Picture| {
            tell.picture(picture);
            picture.instances.len() >= wish.instances && picture.waiting() == 0
        };
        unit.follow(deadline, &mut is_active).await
    });
    let picture = followed.map_err(UpError::Unit)?;
    let missing = wish.instances.saturating_sub(picture.instances.len());
    match picture.waiting() + missing {
        0 => Ok(picture),
        waiting => Err(UpError::NotActive {
            socket: layout.control_socket(),
            waiting,
            all: wish.instances,
            seconds: settings.patience.as_secs(),
        }),
    }
}
