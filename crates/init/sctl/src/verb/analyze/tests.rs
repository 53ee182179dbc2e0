use std::collections::BTreeMap;
use std::convert::Infallible;

use muster_control::manager::{MachineStatus, Moment};

use super::times::{Times, UnitTimes, sentence};
use super::{chain, dot, plot};
use crate::cli::Dot;

const MS: u64 = 1000;

fn at(monotonic: u64) -> Moment {
    Moment {
        real: 1_800_000_000_000_000 + monotonic,
        monotonic,
    }
}

fn machine() -> MachineStatus {
    MachineStatus {
        userspace: at(100 * MS),
        manager: at(101 * MS),
        finish: at(500 * MS),
        default_target: "multi-user.target".to_owned(),
        ..MachineStatus::default()
    }
}

fn unit(name: &str, activating: u64, activated: u64) -> UnitTimes {
    UnitTimes {
        name: name.to_owned(),
        activating: activating * MS,
        activated: activated * MS,
        ..UnitTimes::default()
    }
}

fn units() -> Vec<UnitTimes> {
    vec![
        unit("multi-user.target", 460, 460),
        unit("slow.service", 200, 450),
        unit("fast.service", 200, 210),
        unit("basic.target", 200, 200),
        unit("late.service", 900, 950),
    ]
}

#[test]
fn the_start_is_told_in_a_sentence() {
    let target = Some(("multi-user.target".to_owned(), 460 * MS));
    assert_eq!(
        sentence(&machine(), target.clone()),
        "Startup finished in 400ms (userspace)\nmulti-user.target reached after 360ms in userspace.\n"
    );
    let booted = MachineStatus {
        kernel: Moment {
            real: 1,
            monotonic: 0,
        },
        init_pid: 1,
        ..machine()
    };
    assert_eq!(
        sentence(&booted, None),
        "Startup finished in 100ms (kernel) + 400ms (userspace) = 500ms\n"
    );
}

fn chain_of(root: &str, fuzz: u64) -> Vec<String> {
    let order: BTreeMap<&str, Vec<&str>> = BTreeMap::from([
        (
            "multi-user.target",
            vec!["slow.service", "fast.service", "basic.target"],
        ),
        ("slow.service", vec!["basic.target", "late.service"]),
        // A cycle must not be followed for ever.
        ("basic.target", vec!["slow.service", "multi-user.target"]),
    ]);
    let mut after = |unit: &str| -> Result<Vec<String>, Infallible> {
        let units = order.get(unit).cloned().unwrap_or_default();
        Ok(units.into_iter().map(str::to_owned).collect())
    };
    let times = Times::new(&machine(), units());
    let lines = chain::lines(root, &times, fuzz * MS, &mut after).expect("it knows all");
    lines.iter().map(|line| line.text(str::to_owned)).collect()
}

#[test]
fn the_chain_follows_what_was_up_last() {
    assert_eq!(
        chain_of("multi-user.target", 0),
        [
            "multi-user.target @360ms",
            "\u{2514}\u{2500}slow.service @350ms +250ms",
            "  \u{2514}\u{2500}basic.target @100ms",
        ]
    );
    assert_eq!(
        chain_of("multi-user.target", 240),
        [
            "multi-user.target @360ms",
            "\u{251c}\u{2500}slow.service @350ms +250ms",
            "\u{2502} \u{2514}\u{2500}basic.target @100ms",
            "\u{2514}\u{2500}fast.service @110ms +10ms",
        ]
    );
    assert_eq!(chain_of("late.service", 0), ["late.service +50ms"]);
}

#[test]
fn a_unit_that_did_its_work_took_its_time() {
    let oneshot = UnitTimes {
        deactivated: 330 * MS,
        ..unit("one.service", 300, 0)
    };
    assert_eq!(oneshot.took(), 30 * MS);
    assert_eq!(unit("never.service", 0, 0).took(), 0);
}

#[test]
fn the_picture_is_sound_xml_with_a_bar_per_unit() {
    let mut all = units();
    all.push(unit("a<b&c.service", 300, 310));
    let svg = plot::svg(&machine(), &all, "host");
    assert!(svg.starts_with("<?xml") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("a&lt;b&amp;c.service"));
    assert!(!svg.contains("late.service"), "it is no part of the start");
    let opened = svg.matches("<text").count();
    assert_eq!(opened, svg.matches("</text>").count());
    assert!(svg.contains("slow.service (250ms)"));
}

#[test]
fn graphs_have_the_edges_that_fit() {
    let edge = |from: &str, to: &str| dot::Edge {
        from: from.to_owned(),
        to: to.to_owned(),
        colour: "green",
    };
    let edges = [
        edge("a.service", "b.target"),
        edge("c.service", "b.target"),
        edge("a.service", "b.target"),
    ];
    let mut options = Dot {
        order: true,
        require: false,
        from_pattern: Vec::new(),
        to_pattern: Vec::new(),
        patterns: vec!["a*".to_owned()],
    };
    assert_eq!(
        dot::graph(&edges, &options),
        "digraph units {\n\t\"a.service\"->\"b.target\" [color=\"green\"];\n}\n"
    );
    options.patterns.clear();
    options.from_pattern = vec!["c*".to_owned()];
    assert!(dot::graph(&edges, &options).contains("c.service"));
    assert_eq!(dot::kinds(&options).len(), 1);
}
