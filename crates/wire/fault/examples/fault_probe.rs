//! What the tests of this crate kill: passes its points in a known order and says where it is.
//!
//! Arguments: `rounds N` (passes both points N times), `thread` (passes them in a second thread while
//! the first prints), `no-init` (passes a point without calling `init`).

use std::io::{self, Write};
use std::thread;

muster_fault::points! {
    /// Nothing has been printed in this round.
    pub FIRST = "probe.first",
    /// `between` has been printed.
    pub SECOND = "probe.second",
    /// Never passed.
    pub DEAD = "probe.dead",
}

/// Written past every buffer, so that a kill cannot hide what was said.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .expect("standard output");
}

fn pass_both() {
    muster_fault::hit(FIRST);
    say("between");
    muster_fault::hit(SECOND);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["rounds", count] => {
            muster_fault::init(&[FAULT_POINTS]);
            for _ in 0..count.parse().expect("a number of rounds") {
                pass_both();
            }
        }
        ["thread"] => {
            muster_fault::init(&[FAULT_POINTS]);
            let worker = thread::spawn(pass_both);
            say("main");
            // Standard input ends when the test has seen enough.
            io::copy(&mut io::stdin(), &mut io::sink()).expect("standard input");
            if worker.is_finished() {
                say("worker finished");
            }
        }
        ["no-init"] => muster_fault::hit(DEAD),
        _ => panic!("unknown arguments {words:?}"),
    }
    say("end");
}
