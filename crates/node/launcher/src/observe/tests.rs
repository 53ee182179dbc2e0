use std::sync::Mutex;

use muster_api::domain::{InstanceFilter, ItemId};

use super::*;
use crate::decide::tests::info;

#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn started(&self, instance: RunningInstance<'_>) {
        let line = format!("+{} {}", instance.info.instance.item_id, instance.run.0);
        self.0.lock().unwrap().push(line);
    }

    fn ended(&self, instance: &InstanceIdent) {
        let line = format!("-{}", instance.item_id);
        self.0.lock().unwrap().push(line);
    }
}

fn start(observed: &Observed, item: u64, run: u64) {
    let info = info(item, 1);
    let place = RunPlace {
        unit: format!("unit-{item}-{run}.service"),
        cgroup: None,
        instance_cgroup: None,
        written: None,
        lacks: Vec::new(),
    };
    observed.started(RunningInstance {
        info: &info,
        run: RunId(run),
        image: None,
        place: Some(&place),
    });
}

#[test]
fn every_start_is_told_once_and_every_end_of_it() {
    let told = Arc::new(Told::default());
    let observed = Observed::new(vec![told.clone() as Arc<dyn Observer>]);
    let ident = info(1, 1).instance;
    observed.ended(&ident);
    start(&observed, 1, 7);
    observed.ended(&ident);
    observed.ended(&ident);
    start(&observed, 1, 8);
    assert_eq!(*told.0.lock().unwrap(), ["+item1 7", "-item1", "+item1 8"]);
}

#[test]
fn what_left_only_traces_is_known_but_nobody_is_told() {
    let told = Arc::new(Told::default());
    let observed = Observed::new(vec![told.clone() as Arc<dyn Observer>]);
    let info = info(1, 1);
    observed.found_ended(RunningInstance {
        info: &info,
        run: RunId(1),
        image: None,
        place: None,
    });
    observed.ended(&info.instance);
    assert!(told.0.lock().unwrap().is_empty());
    let all = InstanceFilter::new(None, None, None).unwrap();
    assert!(observed.directory().running(&all).is_empty());
    assert_eq!(observed.directory().known(&all).len(), 1);
}

#[test]
fn units_are_known_while_they_run_and_a_while_longer_and_no_more_than_that() {
    let observed = Observed::default();
    let directory = observed.directory().clone();
    for run in 0..1000 {
        start(&observed, 1, run);
        observed.ended(&info(1, 1).instance);
    }
    start(&observed, 2, 1000);
    assert_eq!(directory.by_unit("unit-1-0.service"), None);
    let last = directory.by_unit("unit-1-999.service").unwrap();
    assert_eq!((last.run, last.version.as_str()), (RunId(999), "1.0.0"));
    let running = directory.by_unit("unit-2-1000.service").unwrap();
    assert_eq!(running.instance, info(2, 1).instance);

    let all = InstanceFilter::new(None, None, None).unwrap();
    let known = directory.known(&all);
    assert_eq!(known.len(), 257);
    assert_eq!(known[0], running);
    assert_eq!(known[1], last);
    let second = ItemId::new("item2").unwrap();
    let second = InstanceFilter::new(Some(second), None, None).unwrap();
    assert_eq!(directory.running(&second), [running]);
}

#[test]
fn what_a_sandbox_lacks_is_known_while_it_runs() {
    let observed = Observed::new(Vec::new());
    let info = info(1, 1);
    let place = RunPlace {
        unit: "unit-1-1.service".into(),
        cgroup: None,
        instance_cgroup: None,
        written: None,
        lacks: vec!["PrivateNetwork: not permitted".into()],
    };
    observed.started(RunningInstance {
        info: &info,
        run: RunId(1),
        image: None,
        place: Some(&place),
    });
    let directory = observed.directory();
    assert_eq!(directory.lacks(&info.instance), place.lacks);
    observed.ended(&info.instance);
    assert!(directory.lacks(&info.instance).is_empty());
}
