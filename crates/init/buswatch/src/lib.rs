//! `muster-buswatch`: says who owns names on a D-Bus bus, for services of `Type=dbus`.
//!
//! `muster-core` has no D-Bus library and never waits for a bus. It starts one such helper, writes which names it is
//! interested in, and reads a line for each change.
//!
//! # Interface
//! Commands come as lines on the standard input (names as arguments are commands, too):
//! ```text
//! watch org.example.Name
//! unwatch org.example.Name
//! ```
//! Reports go as lines of JSON to the standard output, one when a name is first watched and one for each change:
//! ```text
//! {"name":"org.example.Name","owner":null,"pid":null}
//! {"name":"org.example.Name","owner":":1.7","pid":123}
//! {"name":"org.example.Name","error":"no bus at unix:path=/run/dbus/system_bus_socket: No such file or directory"}
//! ```
//! The third kind says that nothing is known about a name: once for each name when the bus cannot be reached, does not
//! answer within [`bus::ANSWER_TIME`] or is lost, and at once for a name that is watched while there is no bus. A name that cannot be one, and a command that
//! cannot be understood, are answered by such a line as well. When the bus is there again, every name is reported.
//!
//! It ends when the standard input is closed, with code 0; with code 2 when the command line is wrong.
//!
//! # Entry points
//! [`options::Options`] reads the command line, [`run::run`] does the rest. [`watches::Watches`] decides what is
//! reported; it knows neither bus nor clock.
//!
//! # Threads
//! | thread | does | gives to |
//! |---|---|---|
//! | main | reads commands | the worker, by a bounded channel; when it is full, core's pipe fills |
//! | worker | owns the watches and the connection, writes all reports | |
//! | connector, at most one | connects to the bus | the worker, by the same channel |
//! | listener, one for each connection | waits for messages of the bus | the worker, by the same channel |
//!
//! Nothing that the worker does takes longer than [`bus::ANSWER_TIME`], so the end of core is noticed; when the main
//! thread returns, the others end with the process.
//!
//! # Invariants
//! - A report that says the same as the one before for that name is not written.
//! - What is reported last is how it is: the bus is asked after changes were subscribed to.
//! - At most [`watches::MOST_NAMES`] names, lines of at most [`command::LONGEST_LINE`] bytes.
//! - Nothing on the bus makes it end: a lost connection is made again, after pauses that grow to
//!   [`run::LONGEST_PAUSE`].
//!
//! # What it does not do
//! It owns no name, offers no objects and starts no services; it never asks the bus to activate a name.

#![forbid(unsafe_code)]

pub mod bus;
pub mod command;
pub mod options;
pub mod run;
pub mod watches;
