//! Which runs are forgotten.

use muster_lifecycle::Moment;

use crate::run::RunId;
use crate::settings::Settings;

/// Of runs that are over, those that are too old, or not among the newest.
pub(crate) fn to_remove<'a>(
    over: impl Iterator<Item = (&'a RunId, Moment)>,
    now: Moment,
    settings: &Settings,
) -> Vec<RunId> {
    let mut over: Vec<(&RunId, Moment)> = over.collect();
    over.sort_by_key(|&(id, at)| (std::cmp::Reverse(at), id));
    let runs = over.into_iter().enumerate();
    let old = runs
        .filter(|&(nth, (_, at))| nth >= settings.keep_runs || now.since(at) >= settings.keep_for);
    old.map(|(_, (id, _))| id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_oldest_go_by_number_and_by_age() {
        let settings = Settings {
            keep_runs: 2,
            keep_for: Duration::from_millis(100),
            ..Settings::new("unused".into())
        };
        let id = |text: &str| text.parse::<RunId>().expect("an id");
        let runs = [(id("a"), 50), (id("b"), 170), (id("c"), 190), (id("d"), 90)];
        let removed = |now| {
            let over = runs.iter().map(|(id, at)| (id, Moment::from_millis(*at)));
            to_remove(over, Moment::from_millis(now), &settings)
        };
        assert_eq!(removed(200), [id("d"), id("a")]);
        assert_eq!(removed(270), [id("b"), id("d"), id("a")]);
        assert_eq!(removed(0), [id("d"), id("a")], "a clock that was set back");
    }
}
