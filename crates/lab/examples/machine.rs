//! Boots Muster as process 1 of a machine, runs a shell command in it, and prints what that and Muster said. Needs root.
//!
//! `cargo run -p muster-lab --example machine -- [UNIT-FILE]... 'COMMAND'`

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use muster_lab::machine::Build;
use muster_lab::muster;

const BOOT_TIME: Duration = Duration::from_secs(30);
const COMMAND_TIME: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, files)) = arguments.split_last() else {
        return Err("usage: machine [UNIT-FILE]... COMMAND".into());
    };
    let programs = muster::programs(Build::Test, &[])?;
    let mut builder = muster::machine(&programs);
    for file in files {
        let name = Path::new(file).file_name().ok_or("not a file")?;
        builder = builder.unit(name.to_string_lossy(), std::fs::read(file)?);
    }
    let machine = muster::boot(&builder, BOOT_TIME)?;
    let output = machine.run_within(COMMAND_TIME, ["/bin/sh", "-c", command])?;
    print!("{}", output.stdout);
    eprint!("{}", output.stderr);
    for line in machine.console() {
        eprintln!("init| {}", line.text);
    }
    Ok(())
}
