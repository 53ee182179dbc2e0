//! Commands and changes in, reports out.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::bus::{ANSWER_TIME, Bus, BusError, Change};
use crate::command::{Command, CommandError, next_line};
use crate::watches::{Owner, Report, Watches};

/// Commands and changes that wait for the worker.
const MOST_WAITING: usize = 1024;
/// Before the second try to connect; doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause between two tries.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Something for the worker.
#[derive(Debug)]
enum Event {
    Command(Command),
    Refused(CommandError),
    /// An attempt to connect has come to an end.
    Connected(Result<Bus, BusError>),
    Changed {
        /// The connections are counted: one that was given up may still have had something to say.
        connection: u64,
        change: Change,
    },
    Lost {
        connection: u64,
    },
}

/// Reads commands until the end of the input, or until nobody takes the reports; `names` are watched from the beginning.
pub fn run(
    address: String,
    names: Vec<String>,
    input: &mut impl BufRead,
    output: impl Write + Send + 'static,
) -> io::Result<()> {
    let (events, received) = sync_channel(MOST_WAITING);
    let worker = Worker {
        address,
        output,
        watches: Watches::default(),
        link: Link::Idle,
        connections: 0,
        pause: FIRST_PAUSE,
        events: events.clone(),
    };
    thread::Builder::new()
        .name("worker".to_owned())
        .spawn(move || worker.work(&received))?;
    for name in names {
        submit(&events, Command::parse(&format!("watch {name}")));
    }
    while let Some(line) = next_line(input)? {
        if !submit(&events, line.and_then(|line| Command::parse(&line))) {
            break;
        }
    }
    Ok(())
}

/// Gives a command to the worker; false if that has ended.
fn submit(events: &SyncSender<Event>, command: Result<Command, CommandError>) -> bool {
    let event = match command {
        Ok(command) => Event::Command(command),
        Err(error) => Event::Refused(error),
    };
    events.send(event).is_ok()
}

/// The owner of the watches and of the connection.
struct Worker<W> {
    address: String,
    output: W,
    watches: Watches,
    link: Link,
    /// How many connections there were.
    connections: u64,
    pause: Duration,
    events: SyncSender<Event>,
}

/// How far the way to the bus is.
enum Link {
    /// Nobody is interested in a name.
    Idle,
    /// There is no bus; to be tried again then.
    Away {
        next_try: Instant,
    },
    /// A thread tries to connect. When it has taken too long, that is said, and no time is left to watch.
    Connecting {
        answer_by: Option<Instant>,
    },
    Up(Bus),
}

impl<W: Write> Worker<W> {
    /// Works until nobody reads the reports any more.
    fn work(mut self, received: &Receiver<Event>) {
        loop {
            let done = match self.next_event(received) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => self.time_is_up(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if done.is_err() {
                return;
            }
        }
    }

    fn next_event(&self, received: &Receiver<Event>) -> Result<Event, RecvTimeoutError> {
        let deadline = match &self.link {
            Link::Away { next_try } => Some(*next_try),
            Link::Connecting { answer_by } => *answer_by,
            Link::Idle | Link::Up(_) => None,
        };
        match deadline {
            Some(at) => received.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => received.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn time_is_up(&mut self) -> io::Result<()> {
        match &mut self.link {
            Link::Away { .. } => self.connect(),
            Link::Connecting { answer_by } => {
                *answer_by = None;
                self.say_no_answer()
            }
            Link::Idle | Link::Up(_) => Ok(()),
        }
    }

    fn take(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Command(Command::Watch(name)) => self.watch(name),
            Event::Command(Command::Unwatch(name)) => {
                if self.watches.remove(&name)
                    && let Link::Up(bus) = &self.link
                {
                    bus.unwatch(&name);
                }
                Ok(())
            }
            Event::Refused(error) => {
                let name = match &error {
                    CommandError::NotAName { name } => Some(name.clone()),
                    _ => None,
                };
                self.write(&Report::Error {
                    name,
                    error: error.to_string(),
                })
            }
            Event::Connected(Ok(bus)) => self.connected(bus),
            Event::Connected(Err(error)) => self.lost(&error),
            Event::Changed { connection, change } if connection == self.connections => {
                self.changed(change)
            }
            Event::Lost { connection } if connection == self.connections => match &self.link {
                Link::Up(bus) => self.lost(&bus.gone()),
                _ => Ok(()),
            },
            Event::Changed { .. } | Event::Lost { .. } => Ok(()),
        }
    }

    fn watch(&mut self, name: String) -> io::Result<()> {
        let is_new = !self.watches.contains(&name);
        if !self.watches.add(name.clone()) {
            return self.write(&Report::Error {
                name: Some(name),
                error: "too many names are watched".to_owned(),
            });
        }
        match &self.link {
            // Whoever starts a service now wants to know whether there is a bus now.
            Link::Idle | Link::Away { .. } => self.connect(),
            Link::Connecting { answer_by: Some(_) } => Ok(()),
            Link::Connecting { answer_by: None } => self.say_no_answer(),
            Link::Up(bus) => {
                if !is_new {
                    // Subscriptions are counted by the bus.
                    bus.unwatch(&name);
                }
                self.look_at(&name)
            }
        }
    }

    /// Lets a thread connect: a bus that accepts a connection and says nothing must not stop the worker.
    fn connect(&mut self) -> io::Result<()> {
        if self.watches.is_empty() {
            self.link = Link::Idle;
            return Ok(());
        }
        self.link = Link::Connecting {
            answer_by: Some(Instant::now() + ANSWER_TIME),
        };
        let address = self.address.clone();
        let events = self.events.clone();
        thread::Builder::new()
            .name("connector".to_owned())
            .spawn(move || {
                // If nobody takes it, there is nobody to tell.
                let _ = events.send(Event::Connected(Bus::connect(&address)));
            })?;
        Ok(())
    }

    /// Reports every name.
    fn connected(&mut self, bus: Bus) -> io::Result<()> {
        self.connections += 1;
        if let Err(error) = self.listen(&bus) {
            return self.lost(&error);
        }
        self.link = Link::Up(bus);
        let names: Vec<String> = self.watches.names().map(str::to_owned).collect();
        for name in &names {
            self.look_at(name)?;
        }
        if matches!(self.link, Link::Up(_)) {
            self.pause = FIRST_PAUSE;
        }
        Ok(())
    }

    /// Lets a thread wait for changes on a new connection.
    fn listen(&self, bus: &Bus) -> Result<(), BusError> {
        let connection = self.connections;
        let changes = bus.changes();
        let events = self.events.clone();
        let listener = thread::Builder::new().name("listener".to_owned());
        let listening = listener.spawn(move || {
            for change in changes {
                if events.send(Event::Changed { connection, change }).is_err() {
                    return;
                }
            }
            // If nobody takes it, there is nobody to tell.
            let _ = events.send(Event::Lost { connection });
        });
        listening.map(drop).map_err(|_| bus.gone())
    }

    /// Subscribes to a name and reports it.
    fn look_at(&mut self, name: &str) -> io::Result<()> {
        let Link::Up(bus) = &self.link else {
            return Ok(());
        };
        match bus.watch(name) {
            Ok(owner) => self.report(name, owner),
            Err(error) => self.lost(&error),
        }
    }

    fn changed(&mut self, change: Change) -> io::Result<()> {
        let Link::Up(bus) = &self.link else {
            return Ok(());
        };
        if !self.watches.contains(&change.name) {
            return Ok(());
        }
        let owner = change.connection.map(|connection| bus.owner(connection));
        self.report(&change.name, owner)
    }

    fn report(&mut self, name: &str, owner: Option<Owner>) -> io::Result<()> {
        match self.watches.owner_is(name, owner) {
            Some(report) => self.write(&report),
            None => Ok(()),
        }
    }

    /// There is no bus: says so, and tries again after a pause.
    fn lost(&mut self, error: &BusError) -> io::Result<()> {
        let next_try = Instant::now() + self.pause;
        if let Link::Up(bus) = std::mem::replace(&mut self.link, Link::Away { next_try }) {
            bus.close();
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.say_no_bus(&chain(error))
    }

    fn say_no_answer(&mut self) -> io::Result<()> {
        let error = format!("no bus at {}: it does not answer", self.address);
        self.say_no_bus(&error)
    }

    fn say_no_bus(&mut self, why: &str) -> io::Result<()> {
        for report in self.watches.no_bus(why) {
            self.write(&report)?;
        }
        Ok(())
    }

    fn write(&mut self, report: &Report) -> io::Result<()> {
        let mut line = serde_json::to_vec(report)?;
        line.push(b'\n');
        self.output.write_all(&line)?;
        self.output.flush()
    }
}

/// An error with all its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some libraries repeat the cause in their own text.
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
