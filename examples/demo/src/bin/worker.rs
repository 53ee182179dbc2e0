//! The demo's worker: asks the web service something every second and logs what it hears.
//!
//! `WEB` is the service's address, by name: which node it runs on makes no difference.

use std::env;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::thread;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 16 << 10;

fn main() {
    let address = env::var("WEB").unwrap_or_else(|_| "web:8080".to_owned());
    println!("worker: calling {address}");
    // A log of changes, not of every second.
    let mut last = String::new();
    loop {
        let said = match ask(&address) {
            Ok(body) => format!("worker: {address} says: {body}"),
            Err(error) => format!("worker: {address} does not answer: {error}"),
        };
        if said != last {
            println!("{said}");
            last = said;
        }
        thread::sleep(PERIOD);
    }
}

fn ask(address: &str) -> io::Result<String> {
    // Every one of the service's instances has an address of its own; one that answers is enough.
    let mut refused = io::Error::other("the name has no address");
    for target in address.to_socket_addrs()? {
        match ask_one(TcpStream::connect_timeout(&target, PATIENCE), address) {
            Ok(body) => return Ok(body),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn ask_one(connected: io::Result<TcpStream>, host: &str) -> io::Result<String> {
    let mut connection = connected?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    write!(
        connection,
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    connection.take(MAX_ANSWER).read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((_, body)) => Ok(body.trim_end().to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
