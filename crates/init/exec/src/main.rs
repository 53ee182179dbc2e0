//! `muster-exec`: sets one process up and becomes its program. See the library's `helper` module.

use std::process::ExitCode;

const USAGE: &str = "muster-exec is started by muster-core, with what it has to do in a descriptor: muster-exec NUMBER";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(place), None) if place.bytes().all(|byte| byte.is_ascii_digit()) => {
            muster_exec::helper::run(&place).into()
        }
        (Some(word), None) if word == muster_exec::REMOVE_IPC => {
            let left = muster_exec::IpcRemains::read(std::io::stdin()).map(|found| found.remove());
            let left = left.unwrap_or_else(|error| vec![error.to_string()]);
            for one in &left {
                eprintln!("Cannot remove what its user left: {one}");
            }
            ExitCode::from(u8::from(!left.is_empty()))
        }
        (Some(word), None) if word == "--version" => {
            println!("muster-exec {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
