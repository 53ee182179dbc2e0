//! The demo's web service: answers every request with who it is.
//!
//! `GREETING` and `VERSION` come from its environment, as does what the Service Manager tells every instance. It listens at
//! `LISTEN`: port 8080 of all addresses that it has, unless it has to share them with others.

use std::env;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

const LISTEN: &str = "0.0.0.0:8080";
/// A client that says nothing for so long does not keep others waiting.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request that is read; what is asked for makes no difference.
const MAX_REQUEST: u64 = 16 << 10;

fn variable(name: &str, otherwise: &str) -> String {
    env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

fn main() -> ExitCode {
    let address = variable("LISTEN", LISTEN);
    let listener = match TcpListener::bind(&address) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("web: cannot listen at {address}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let body = format!(
        "{}! I am instance {} of {}, version {}\n",
        variable("GREETING", "Hello"),
        variable("AOS_INSTANCE_INDEX", "0"),
        variable("AOS_ITEM_ID", "web"),
        variable("VERSION", "unknown"),
    );
    println!("web: listening at {address}");
    for connection in listener.incoming() {
        if let Err(error) = connection.and_then(|connection| answer(connection, &body)) {
            eprintln!("web: a request was not answered: {error}");
        }
    }
    ExitCode::SUCCESS
}

fn answer(mut connection: TcpStream, body: &str) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let request = BufReader::new(connection.try_clone()?.take(MAX_REQUEST));
    for line in request.lines() {
        if line?.is_empty() {
            break;
        }
    }
    write!(
        connection,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
