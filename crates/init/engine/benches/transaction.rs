//! What the engine costs: a large start transaction, a loaded unit, and writing the state. Each figure is printed beside
//! its target; a figure that misses it makes the run fail.
//!
//! Memory is counted by an allocator of its own, so the figure is what the engine asked for, not what a process happens
//! to hold.

#![expect(
    unsafe_code,
    reason = "counting memory needs an allocator, which is an unsafe trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_engine::dep::DepKind;
use muster_engine::event::{LoadState, LoadedUnit, Request, What};
use muster_engine::ids::{Clock, InvocationId, RequestId, Time};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::ExecKind;
use muster_engine::spec::{CommandSpec, KindSpec, ServiceSpec, UnitSpec};
use muster_engine::{EngineState, Event};

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises about `layout` are the ones that the system's allocator wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above, which is the system's, with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn event(at: u64, what: What) -> Event {
    let clock = Clock {
        monotonic: Time(at),
        real: 0,
    };
    Event {
        clock,
        entropy: InvocationId(u128::from(at)),
        what,
    }
}

/// A service with the commands and edges that packages usually ship.
fn service(name: String, deps: BTreeSet<(DepKind, Box<str>)>) -> LoadedUnit {
    let command = |kind| CommandSpec {
        kind,
        ignore_failure: false,
    };
    let spec = ServiceSpec {
        commands: [ExecKind::StartPre, ExecKind::Start, ExecKind::Reload]
            .map(command)
            .into(),
        ..ServiceSpec::default()
    };
    LoadedUnit {
        aliases: Vec::new(),
        load: LoadState::Loaded,
        spec: Some(Box::new(UnitSpec {
            description: format!("The daemon that {name} stands for").into(),
            deps,
            kind: KindSpec::Service(Box::new(spec)),
            ..UnitSpec::default()
        })),
        name: name.into(),
    }
}

fn name(at: usize) -> String {
    format!("example-{at:04}.service")
}

/// `count` units with `edges` edges towards earlier ones, half of them ordering, all wanted by the last.
fn graph(count: usize, edges: usize) -> Vec<LoadedUnit> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % limit as u64).expect("below a usize")
    };
    let mut deps: Vec<BTreeSet<(DepKind, Box<str>)>> = vec![BTreeSet::new(); count];
    let mut left = edges;
    for (before, deps) in deps.iter_mut().skip(1).enumerate() {
        // The chain of wants makes sure that starting the last unit starts all of them.
        deps.insert((DepKind::Wants, name(before).into()));
        left -= 1;
    }
    while left > 0 {
        let from = 1 + below(count - 1);
        let kind = [DepKind::After, DepKind::After, DepKind::Requires][below(3)];
        if deps[from].insert((kind, name(below(from)).into())) {
            left -= 1;
        }
    }
    let with_names = deps.into_iter().enumerate();
    with_names
        .map(|(at, deps)| service(name(at), deps))
        .collect()
}

/// The shortest of some runs: what the code needs when nothing else disturbs it.
fn best_of<T>(runs: usize, mut work: impl FnMut() -> T) -> Duration {
    let timed = (0..runs).map(|_| {
        let begin = Instant::now();
        let result = std::hint::black_box(work());
        let took = begin.elapsed();
        // Throwing the result away is not part of the work.
        drop(result);
        took
    });
    timed.min().unwrap_or_default()
}

struct Row {
    what: &'static str,
    figure: f64,
    target: f64,
    unit: &'static str,
}

fn start_transaction() -> Row {
    const UNITS: usize = 5_000;
    let mut loaded = EngineState::new();
    loaded.apply(&event(1, What::Loaded(graph(UNITS, 20_000))));
    let start = event(
        2,
        What::Request(Request {
            id: RequestId(1),
            unit: name(UNITS - 1).into(),
            verb: JobVerb::Start,
            mode: JobMode::Replace,
            manual: false,
        }),
    );
    let mut copies: Vec<EngineState> = vec![loaded; 8];
    let took = best_of(copies.len(), || {
        let mut state = copies.pop().expect("one copy per run");
        state.apply(&start);
        assert_eq!(state.jobs().count(), UNITS, "every unit has a job");
        state
    });
    Row {
        what: "start of 5,000 units, 20,000 edges",
        figure: took.as_secs_f64() * 1e3,
        target: 20.0,
        unit: "ms",
    }
}

fn memory_per_unit(units: usize) -> Row {
    let event = event(1, What::Loaded(graph(units, units * 6)));
    let before = IN_USE.load(Ordering::Relaxed);
    let mut state = EngineState::new();
    drop(state.apply(&event));
    let used = IN_USE.load(Ordering::Relaxed) - before;
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    let figure = used as f64 / units as f64;
    drop(state);
    Row {
        what: "memory per loaded service, 6 edges",
        figure,
        target: 2_048.0,
        unit: "B",
    }
}

fn codec(units: usize) -> [Row; 3] {
    let mut state = EngineState::new();
    state.apply(&event(1, What::Loaded(graph(units, units * 6))));
    let bytes = state.encode();
    let encode = best_of(5, || state.encode());
    let decode = best_of(5, || EngineState::decode(&bytes).expect("what was written"));
    let ms = |took: Duration| took.as_secs_f64() * 1e3;
    #[expect(clippy::cast_precision_loss, reason = "a figure to be read")]
    let size = bytes.len() as f64 / 1024.0;
    let row = |what, figure, target, unit| Row {
        what,
        figure,
        target,
        unit,
    };
    // A manager that crashed must be back within 50 ms, most of which belongs to reading this.
    [
        row("encode 2,500 units", ms(encode), 25.0, "ms"),
        row("decode 2,500 units", ms(decode), 40.0, "ms"),
        row("encoded size of 2,500 units", size, 8_192.0, "KiB"),
    ]
}

fn main() -> ExitCode {
    let mut rows = vec![start_transaction(), memory_per_unit(2_500)];
    rows.extend(codec(2_500));
    println!("{:38} {:>10} {:>10}", "", "figure", "target");
    let mut missed = false;
    for row in &rows {
        let miss = row.figure > row.target;
        missed |= miss;
        println!(
            "{:38} {:>7.1} {:3} {:>7.0} {:3} {}",
            row.what,
            row.figure,
            row.unit,
            row.target,
            row.unit,
            if miss { "MISSED" } else { "" }
        );
    }
    if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
