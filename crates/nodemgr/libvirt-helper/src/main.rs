//! `muster-libvirt-helper URI`: the only program that links libvirt.
//!
//! It answers the questions of [`muster_libvirt::protocol`] on its standard input, one after another, on its standard output,
//! and ends with its input or with the process that started it. A call of libvirt's that hangs is ended by ending this program;
//! that is why it is one.

mod answer;
mod connection;

use std::io::{BufRead as _, Read as _, Write as _};
use std::process::ExitCode;

use muster_libvirt::protocol::{self, Hello, Request};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::connection::Connection;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(uri), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: muster-libvirt-helper URI");
        return ExitCode::from(2);
    };
    let parent = getppid();
    // A call that hangs would otherwise outlive whoever waits for it.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || getppid() != parent {
        return ExitCode::FAILURE;
    }
    // What fails is answered; libvirt need not write it to the terminal as well.
    virt::error::clear_error_callback();
    match serve(Connection::new(uri)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever asked is gone, or says what is no question.
        Err(()) => ExitCode::FAILURE,
    }
}

fn serve(mut connection: Connection) -> Result<(), ()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut say = |line: Vec<u8>| {
        let said = output.write_all(&line).and_then(|()| output.flush());
        said.map_err(drop)
    };
    let hello = Hello {
        version: protocol::VERSION,
    };
    say(protocol::write(&hello).map_err(drop)?)?;
    loop {
        let mut line = Vec::new();
        let most = protocol::MAX_LINE as u64 + 1;
        let read = (&mut input).take(most).read_until(b'\n', &mut line);
        if read.map_err(drop)? == 0 {
            return Ok(());
        }
        let request: Request = protocol::read(&line).map_err(drop)?;
        let reply = answer::answer(&mut connection, &request);
        say(protocol::write(&reply).map_err(drop)?)?;
    }
}
