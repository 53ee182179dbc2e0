//! What a choice costs: 100,000 candidates of five providers, by each criterion, with quotas, spot types and labels. Each
//! figure is printed beside its target; one that misses it makes the run fail.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use muster_lifecycle::{Halt, State};
use muster_provider::MachineId;
use muster_schedule::{
    Candidate, Criterion, Market, Need, Origin, Policy, Quota, Room, Spot, World, choose,
};
use muster_template::{Arch, ProviderId};

const CANDIDATES: usize = 100_000;
const TARGET: Duration = Duration::from_millis(50);
const ROUNDS: usize = 5;

fn candidate(index: usize) -> Candidate {
    let provider = ProviderId::ALL[index % ProviderId::ALL.len()];
    let mut candidate = Candidate::new(&format!("candidate-{index:06}"), "small", provider);
    let step = index as u64;
    candidate.origin = match index % 10 {
        0 => Origin::Existing {
            machine: MachineId::new(&format!("m-{index:06}")).expect("a name"),
            state: State::Stopped(Halt::Off),
            market: Market::OnDemand,
            kind: Some(format!("type-{}", index % 7)),
        },
        1..=4 => Origin::New {
            market: Market::Spot,
            kind: Some(format!("type-{}", index % 7)),
        },
        _ => Origin::New {
            market: Market::OnDemand,
            kind: Some(format!("type-{}", index % 7)),
        },
    };
    candidate.room = Room {
        cpus: u32::try_from(1 + index % 16).ok(),
        memory_mb: Some(1024 * (1 + step % 32)),
        disk_mb: Some(10_240 * (1 + step % 8)),
    };
    candidate.arch = Some([Arch::Amd64, Arch::Arm64][index % 2]);
    candidate.region = Some(format!("region-{}", index % 20));
    candidate.zone = Some(format!("zone-{}", index % 3));
    let team = format!("team-{}", index % 4);
    candidate.labels.insert("team".to_owned(), team);
    candidate.price = Some(step * 7919 % 1_000_003);
    candidate.ready_in = Duration::from_millis(step * 104_729 % 60_000);
    candidate
}

fn main() -> ExitCode {
    let candidates: Vec<Candidate> = (0..CANDIDATES).map(candidate).collect();
    let mut world = World::default();
    for provider in ProviderId::ALL {
        let quota = Quota {
            machines: Some(50_000),
            cpus: Some(1_000_000),
            memory_mb: None,
        };
        world.limit(provider, quota);
    }
    candidates.iter().step_by(100).for_each(|it| world.take(it));
    let everything = Need::default();
    let some = Need {
        room: Room {
            cpus: Some(4),
            memory_mb: Some(8192),
            disk_mb: Some(20_480),
        },
        labels: [("team".to_owned(), "team-1".to_owned())].into(),
        ..Need::default()
    };
    let mut in_time = true;
    for (need_name, need) in [("all fit", &everything), ("some fit", &some)] {
        for criterion in Criterion::ALL {
            let mut policy = Policy::by(&[criterion]);
            policy.near = (0..10).map(|index| format!("region-{index}")).collect();
            policy.spot = Spot::Prefer { types: Vec::new() };
            let mut slowest = Duration::ZERO;
            let mut fitting = 0;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                let decision = choose(need, &policy, &world, &candidates);
                slowest = slowest.max(start.elapsed());
                fitting = decision.ranking().count();
            }
            let (millis, target) = (slowest.as_secs_f64() * 1e3, TARGET.as_millis());
            println!(
                "{need_name:<9} {:<9} {millis:6.1} ms (target {target} ms): {fitting} fit",
                format!("{criterion:?}")
            );
            in_time &= slowest <= TARGET;
        }
    }
    match in_time {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
