//! Many machines at once, measured. For a test and for a benchmark.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use muster_lifecycle::State;
use muster_machines::Settings;
use muster_provider::sim::SimSettings;

use crate::rig::{World, eventually, order, quick};

/// So many.
const MANY: usize = 1000;
/// What one machine may cost in memory, of the registry and of the simulated cloud together.
const KIB_EACH: usize = 30;

/// What they cost.
#[derive(Debug)]
pub(crate) struct Figures {
    kib_each: usize,
    /// From the first order until all of them ran.
    made_in: Duration,
    /// From the first word until all of them were gone.
    destroyed_in: Duration,
}

impl Figures {
    /// A line of a table for each, and whether the target is kept.
    pub(crate) fn report(&self) -> bool {
        let Self { kib_each, .. } = self;
        println!("{MANY} machines    {kib_each:6} KiB each (target {KIB_EACH} KiB)");
        println!("  all made in      {:6} ms", self.made_in.as_millis());
        println!("  all destroyed in {:6} ms", self.destroyed_in.as_millis());
        *kib_each <= KIB_EACH
    }
}

/// What this process has in memory.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words = line.unwrap().split_whitespace().nth(1);
    words.unwrap().parse().unwrap()
}

/// Makes them all at once, and destroys them all at once.
pub(crate) async fn make_and_destroy() -> Figures {
    let world = World::new(SimSettings::default());
    let settings = Settings {
        poll: Duration::from_millis(50),
        sweep: Duration::from_secs(60),
        ..quick()
    };
    let manager = world.start_with(settings).await;
    let all_are = async |state: State| {
        manager
            .wait_for(|all| {
                let mut machines = all.values();
                machines.all(|machine| machine.record().state() == state)
            })
            .await;
    };
    let (before, begun) = (resident_kib(), Instant::now());
    // At once, so that they share what is written down.
    let orders = join_all((0..MANY).map(|_| manager.machines.order(order()))).await;
    let ids: Vec<_> = orders.into_iter().map(Result::unwrap).collect();
    all_are(State::Running).await;
    let made_in = begun.elapsed();
    assert_eq!(world.cloud.machines().len(), MANY);
    let kib_each = resident_kib().saturating_sub(before) / MANY;
    let begun = Instant::now();
    for asked in join_all(ids.iter().map(|id| manager.machines.destroy(id))).await {
        asked.unwrap();
    }
    all_are(State::Terminated).await;
    eventually(|| world.cloud.machines().is_empty()).await;
    Figures {
        kib_each,
        made_in,
        destroyed_in: begun.elapsed(),
    }
}
