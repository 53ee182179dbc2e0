use std::convert::Infallible;
use std::sync::Mutex;

use muster_api::domain::{ItemId, ItemType, SubjectId};
use muster_unit_runner::{Observation, UnitEnd, UnitEvent, UnitName, UnitState};
use tokio::sync::oneshot;

use super::*;

#[test]
fn the_newest_start_counts_in_whatever_order_they_are_listed() {
    let unit = |instance: u128, run: u64| InstanceUnit {
        name: UnitName::new(format!("x-{instance}-{run}.service")).unwrap(),
        instance: Uuid::from_u128(instance),
        run: RunId(run),
        seen: Observation::default(),
    };
    for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
        let mut units: Vec<InstanceUnit> = order.iter().map(|run| unit(7, *run)).collect();
        units.push(unit(8, 1));
        let (newest, mut older) = sort_out(units);
        assert_eq!(newest[&Uuid::from_u128(7)].run, RunId(3));
        assert_eq!(newest[&Uuid::from_u128(8)].run, RunId(1));
        older.sort_by_key(|unit| unit.run);
        assert_eq!(older, [unit(7, 1), unit(7, 2)]);
    }
}

fn ident(name: &str) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new(name).unwrap(),
        subject_id: SubjectId::new("test").unwrap(),
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

/// The unit of a start.
fn name(instance: &InstanceIdent, run: u64) -> UnitName {
    UnitName::new(format!("x-{}-{run}.service", instance.instance_id())).unwrap()
}

/// An init system with units that run, of which some cannot be ended.
#[derive(Debug, Default)]
struct Init {
    units: Mutex<Vec<UnitName>>,
    immortal: Vec<UnitName>,
    /// What is told; nothing by itself.
    news: Mutex<Option<mpsc::Receiver<UnitEvent>>>,
    /// Each is told that a unit is to be stopped, and lets it go on by an answer.
    stopping: Option<mpsc::Sender<oneshot::Sender<()>>>,
    /// How long each that was stopped had for it.
    graces: Mutex<Vec<Duration>>,
}

impl UnitRunner for Init {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn start(&self, _: UnitSpec) -> BoxFuture<'_, Result<(), UnitError>> {
        Box::pin(async { Ok(()) })
    }

    fn stop(&self, unit: UnitName, within: Duration) -> BoxFuture<'_, Result<(), UnitError>> {
        Box::pin(async move {
            self.graces.lock().unwrap().push(within);
            if let Some(stopping) = &self.stopping {
                let (go_on, wait) = oneshot::channel();
                stopping.send(go_on).await.unwrap();
                wait.await.unwrap();
            }
            if self.immortal.contains(&unit) {
                return Err(UnitError::Survived { unit, within });
            }
            self.units.lock().unwrap().retain(|known| *known != unit);
            Ok(())
        })
    }

    fn list(
        &self,
        prefix: String,
    ) -> BoxFuture<'_, Result<Vec<(UnitName, Observation)>, UnitError>> {
        let runs = || Observation {
            active: "active".into(),
            sub: "running".into(),
            ..Observation::default()
        };
        let units = self.units.lock().unwrap();
        let units = units
            .iter()
            .filter(|unit| unit.as_str().starts_with(&prefix));
        let units: Vec<_> = units.map(|unit| (unit.clone(), runs())).collect();
        Box::pin(async move { Ok(units) })
    }

    fn watch(&self, _: String) -> mpsc::Receiver<UnitEvent> {
        let news = self.news.lock().unwrap().take();
        news.unwrap_or_else(|| mpsc::channel(1).1)
    }
}

/// Makes nothing.
#[derive(Debug)]
struct Nothing;

impl Backend for Nothing {
    type Error = Infallible;

    const PREFIX: &'static str = "x";

    fn info(&self) -> RuntimeInfo {
        unreachable!("nobody asks")
    }

    fn make(&self, _: &Place, _: &InstanceSpec) -> Result<(), Infallible> {
        Ok(())
    }

    fn program(&self) -> PathBuf {
        PathBuf::new()
    }

    fn commands(&self, _: &Place) -> UnitCommands {
        unreachable!("nothing is started")
    }

    fn explain(&self, _: &Place) -> Option<String> {
        None
    }

    fn clear(&self, _: &Place, _: Option<&RunRecord>) -> Result<(), Infallible> {
        Ok(())
    }
}

#[tokio::test]
async fn an_earlier_start_that_does_not_end_keeps_nothing_from_being_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (ident("one"), ident("other"));
    for instance in [&one, &other] {
        Place::new(folder.path(), instance.instance_id())
            .make()
            .unwrap();
    }
    let init = Arc::new(Init {
        units: Mutex::new(vec![name(&one, 1), name(&one, 2), name(&other, 1)]),
        immortal: vec![name(&one, 1)],
        ..Init::default()
    });
    let runtime = Supervised::new(Nothing, folder.path().to_owned(), init.clone());
    let adopted = runtime
        .adopt(vec![one.clone(), other.clone()], Duration::ZERO)
        .await
        .unwrap();
    let mut adopted: Vec<_> = adopted
        .into_iter()
        .map(|it| (it.instance, it.run))
        .collect();
    adopted.sort();
    assert_eq!(adopted, [(one, RunId(2)), (other, RunId(1))]);
}

#[tokio::test]
async fn what_ends_while_earlier_starts_are_ended_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (ident("one"), ident("other"));
    for instance in [&one, &other] {
        Place::new(folder.path(), instance.instance_id())
            .make()
            .unwrap();
    }
    let (tell, news) = mpsc::channel(1);
    let (stopping, mut stops) = mpsc::channel(1);
    let init = Arc::new(Init {
        units: Mutex::new(vec![name(&one, 1), name(&one, 2), name(&other, 1)]),
        news: Mutex::new(Some(news)),
        stopping: Some(stopping),
        ..Init::default()
    });
    let runtime = Arc::new(Supervised::new(Nothing, folder.path().to_owned(), init));
    let mut events = runtime.events();
    let adopting = tokio::spawn({
        let (runtime, known) = (runtime.clone(), vec![one, other.clone()]);
        async move { runtime.adopt(known, Duration::ZERO).await }
    });
    let go_on = stops.recv().await.unwrap();
    // Everything was looked at, and an earlier start is being ended.
    let end = UnitEvent {
        unit: name(&other, 1),
        state: UnitState::Ended(UnitEnd::Exited(3)),
    };
    tell.send(end).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(30), events.recv()).await;
    let told = told.expect("the end is told").unwrap();
    assert_eq!((told.instance, told.run), (other, RunId(1)));
    assert_eq!(told.state, RunState::Ended(Ended::Exited(3)));
    go_on.send(()).unwrap();
    assert_eq!(adopting.await.unwrap().unwrap().len(), 2);
}

#[tokio::test]
async fn those_of_whom_there_is_no_record_are_asked_to_end_together_and_have_their_time() {
    const GRACE: Duration = Duration::from_secs(7);
    let folder = tempfile::tempdir().unwrap();
    let (known, one, other) = (ident("known"), ident("one"), ident("other"));
    for instance in [&known, &one, &other] {
        let place = Place::new(folder.path(), instance.instance_id());
        place.make().unwrap();
    }
    let (stopping, mut stops) = mpsc::channel(2);
    let units = vec![name(&known, 1), name(&one, 1), name(&other, 1)];
    let init = Arc::new(Init {
        units: Mutex::new(units),
        stopping: Some(stopping),
        ..Init::default()
    });
    let runtime = Supervised::new(Nothing, folder.path().to_owned(), init.clone());
    let adopting = tokio::spawn(async move { runtime.adopt(vec![known], GRACE).await });
    // Nobody waits until another has ended.
    let mut asked = Vec::new();
    for _ in 0..2 {
        let stop = tokio::time::timeout(Duration::from_secs(30), stops.recv()).await;
        asked.push(stop.expect("both are asked").unwrap());
    }
    for go_on in asked {
        go_on.send(()).unwrap();
    }
    assert_eq!(adopting.await.unwrap().unwrap().len(), 1);
    assert_eq!(*init.graces.lock().unwrap(), [GRACE, GRACE]);
    for gone in [one, other] {
        let place = Place::new(folder.path(), gone.instance_id());
        assert!(!place.folder().exists(), "{gone} left its folder");
    }
}
