//! Muster and systemd side by side: the same units on the same kernel, each as process 1 of a machine of its own, in one run.
//!
//! `cargo bench --bench peers` prints a table with both, the ratio, and whether Muster reaches what it is to reach. Both take turns,
//! so that a slow moment of the machine hits both, and the best of each counts: what disturbs a run only makes it longer. The base
//! line of a start is the same programs without any manager (`posix_spawn`), in the same turns. Words on the command line choose rows
//! by their beginning (`cargo bench --bench peers -- respawn`). Needs root and systemd; fails when something is not reached, or could
//! not be measured.

mod manager;
mod measure;
mod table;
mod workload;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use muster_lab::machine::Build;
use muster_lab::{muster, peer};

use crate::manager::{Manager, Outcome};
use crate::table::{Figure, Limit, Row, Target};
use crate::workload::Workload;

const ONESHOTS: usize = 1000;
const SANDBOXED: usize = 200;
const LOADED: usize = 2500;
const MOUNTS: usize = 10_000;
/// How often each has its turn.
const TURNS: usize = 3;
/// A unit costs a process and what a manager does about it; and never more than two of the one.
const TIMES_BARE: f64 = 2.0;

fn main() -> Outcome<ExitCode> {
    let lacks = if !rustix::process::geteuid().is_root() {
        Some("not root")
    } else if !Path::new(peer::SYSTEMD).exists() {
        Some("no systemd")
    } else {
        None
    };
    if let Some(lacks) = lacks {
        println!("skipped: peers: {lacks}");
        return Ok(ExitCode::SUCCESS);
    }
    // Cargo adds words of its own.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let bench = Bench {
        systemd: Manager::Systemd,
        muster: Manager::Muster(muster::programs(Build::Bench, &[])?),
        wanted,
    };
    let mut rows = Vec::new();
    for part in [
        Bench::starts,
        Bench::memory_and_reload,
        Bench::respawn,
        Bench::crash,
        Bench::mount_storm,
    ] {
        rows.extend(part(&bench)?);
    }
    table::print(&rows);
    let missed: Vec<&str> = rows
        .iter()
        .filter(|row| row.met() != Some(true))
        .map(|row| row.what)
        .collect();
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("not reached: {}", missed.join("; "));
    Ok(ExitCode::FAILURE)
}

/// The better of two turns.
type Better<T> = fn(T, T) -> T;

struct Bench {
    systemd: Manager,
    muster: Manager,
    wanted: Vec<String>,
}

impl Bench {
    fn wants(&self, word: &str) -> bool {
        self.wanted.is_empty()
            || self
                .wanted
                .iter()
                .any(|wanted| word.starts_with(wanted.as_str()))
    }

    /// Measures both, in turns. A peer that cannot be measured leaves its reason in the table.
    fn both<T>(
        &self,
        measure: impl Fn(&Manager) -> Outcome<T>,
        better: Better<T>,
    ) -> [Result<T, String>; 2] {
        let mut best = [None, None];
        for _ in 0..TURNS {
            for (manager, best) in [&self.systemd, &self.muster].into_iter().zip(&mut best) {
                let turn = measure(manager).map_err(|error| {
                    eprintln!("{}: {error}", manager.name());
                    "failed".to_owned()
                });
                *best = Some(match (best.take(), turn) {
                    (Some(Ok(before)), Ok(now)) => Ok(better(before, now)),
                    // One that fails now and then has not done it.
                    (Some(Err(error)), _) | (_, Err(error)) => Err(error),
                    (None, Ok(now)) => Ok(now),
                });
            }
        }
        best.map(|best| best.unwrap_or_else(|| Err("no turn".to_owned())))
    }

    fn starts(&self) -> Outcome<Vec<Row>> {
        let mut rows = Vec::new();
        if self.wants("flat") {
            let bare = std::cell::Cell::new(Duration::MAX);
            let workload = workload::flat(ONESHOTS);
            let measured = self.both(
                |manager| {
                    bare.set(bare.get().min(measure::bare_spawns(ONESHOTS)?));
                    measure::start(manager, &workload)
                },
                measure::Start::better,
            );
            let [systemd, muster] = measured;
            let wall = |start: &measure::Start| Figure::Time(start.wall);
            let cpu = |start: &measure::Start| Figure::Time(start.cpu / 1000);
            rows.push(Row {
                what: "1000 flat oneshots",
                bare: Some(Figure::Time(bare.get())),
                systemd: systemd.as_ref().map(wall).map_err(Clone::clone),
                muster: muster.as_ref().map(wall).map_err(Clone::clone),
                target: Target {
                    at_most: Limit::TimesBare(TIMES_BARE),
                    times_better: Some(4.0),
                },
            });
            rows.push(Row {
                what: "manager's CPU per oneshot",
                bare: None,
                systemd: systemd.as_ref().map(cpu).map_err(Clone::clone),
                muster: muster.as_ref().map(cpu).map_err(Clone::clone),
                target: Target {
                    at_most: Limit::Of(Figure::Time(Duration::from_micros(200))),
                    times_better: None,
                },
            });
        }
        let mut simple = |what, workload: &Workload, target| {
            let measure = |manager: &Manager| measure::start(manager, workload);
            let [systemd, muster] = self.both(measure, measure::Start::better);
            let wall = |start: measure::Start| Figure::Time(start.wall);
            rows.push(Row {
                what,
                bare: None,
                systemd: systemd.map(wall),
                muster: muster.map(wall),
                target,
            });
        };
        if self.wants("sandboxed") {
            simple(
                "200 sandboxed oneshots",
                &workload::sandboxed(SANDBOXED),
                Target {
                    times_better: Some(1.0),
                    ..at_most_ms(2000)
                },
            );
        }
        if self.wants("layers") {
            simple(
                "1000 oneshots in layers of 10",
                &workload::layers(100, 10),
                at_most_ms(600),
            );
        }
        if self.wants("daemons") {
            simple(
                "500 daemons in layers of 20",
                &workload::daemons(25, 20),
                at_most_ms(300),
            );
        }
        Ok(rows)
    }

    fn memory_and_reload(&self) -> Outcome<Vec<Row>> {
        if !self.wants("memory") && !self.wants("reload") {
            return Ok(Vec::new());
        }
        let [systemd, muster] = self.both(
            |manager| measure::loaded(manager, LOADED),
            measure::Loaded::better,
        );
        let row = |what, figure: fn(&measure::Loaded) -> Figure, target| Row {
            what,
            bare: None,
            systemd: systemd.as_ref().map(figure).map_err(Clone::clone),
            muster: muster.as_ref().map(figure).map_err(Clone::clone),
            target,
        };
        let bytes = |at_most| Target {
            at_most: Limit::Of(Figure::Bytes(at_most)),
            times_better: None,
        };
        Ok(vec![
            row(
                "memory, idle",
                |loaded| Figure::Bytes(loaded.idle),
                bytes(3_000_000),
            ),
            row(
                "memory per loaded unit",
                |loaded| Figure::Bytes(per_unit(loaded)),
                bytes(2_000),
            ),
            row(
                "daemon-reload, 2500 units",
                |loaded| Figure::Time(loaded.reload),
                at_most_ms(150),
            ),
            row(
                "daemon-reload, one of them changed",
                |loaded| Figure::Time(loaded.reload_changed),
                at_most_ms(150),
            ),
        ])
    }

    fn respawn(&self) -> Outcome<Vec<Row>> {
        if !self.wants("respawn") {
            return Ok(Vec::new());
        }
        let [systemd, muster] = self.both(measure::respawn, Duration::min);
        Ok(vec![Row {
            what: "killed to running again, median",
            bare: None,
            systemd: systemd.map(Figure::Time),
            muster: muster.map(Figure::Time),
            target: at_most_ms(3),
        }])
    }

    fn crash(&self) -> Outcome<Vec<Row>> {
        if !self.wants("crash") {
            return Ok(Vec::new());
        }
        let [systemd, muster] = self.both(
            |manager| measure::crash(manager, &workload::daemons(25, 20)),
            |one, other| one.and_then(|one| Ok(one.min(other?))),
        );
        let flat = |away: Result<Result<Duration, String>, String>| {
            away.and_then(|away| away).map(Figure::Time)
        };
        Ok(vec![Row {
            what: "manager killed, 500 daemons running",
            bare: None,
            systemd: flat(systemd),
            muster: flat(muster),
            target: at_most_ms(50),
        }])
    }

    fn mount_storm(&self) -> Outcome<Vec<Row>> {
        if !self.wants("mounts") {
            return Ok(Vec::new());
        }
        let [systemd, muster] = self.both(
            |manager| measure::mount_storm(manager, MOUNTS),
            Duration::min,
        );
        Ok(vec![Row {
            what: "manager's CPU for 10,000 mounts",
            bare: None,
            systemd: systemd.map(Figure::Time),
            muster: muster.map(Figure::Time),
            target: at_most_ms(100),
        }])
    }
}

fn at_most_ms(milliseconds: u64) -> Target {
    Target {
        at_most: Limit::Of(Figure::Time(Duration::from_millis(milliseconds))),
        times_better: None,
    }
}

fn per_unit(loaded: &measure::Loaded) -> u64 {
    loaded.loaded.saturating_sub(loaded.idle) / LOADED as u64
}
