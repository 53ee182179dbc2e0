//! A run.

use jiff::Timestamp;
use muster_machine_api::v1;
use serde::Serialize;

use super::{age, some, text};
use crate::console::{Answer, Table};
use crate::text::shown;
use crate::unit::facts::Listed;

/// A run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::machine) struct RunFacts {
    pub(in crate::machine) id: String,
    name: String,
    pub(in crate::machine) state: String,
    started: Option<String>,
    ended: Option<String>,
    pub(in crate::machine) exit_code: Option<u32>,
    pub(in crate::machine) failure: Option<String>,
    machines: Vec<String>,
    steps: Vec<StepFacts>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StepFacts {
    name: String,
    state: String,
    message: Option<String>,
}

impl From<v1::Run> for RunFacts {
    fn from(run: v1::Run) -> Self {
        let step = |step: v1::RunStep| StepFacts {
            name: step.name,
            state: step.state,
            message: some(step.message),
        };
        Self {
            id: run.id,
            name: run.name,
            state: run.state,
            started: text(run.started.as_ref()),
            ended: text(run.ended.as_ref()),
            exit_code: run.exit_code,
            failure: some(run.failure),
            machines: run.machines,
            steps: run.steps.into_iter().map(step).collect(),
        }
    }
}

impl Listed for RunFacts {
    const KIND: &'static str = "run";
    const COLUMNS: &'static [&'static str] = &["RUN", "NAME", "STATE", "EXIT", "AGE", "FAILURE"];
    const FURTHER: &'static [&'static str] = &[];

    fn key(&self) -> String {
        self.id.clone()
    }

    fn row(&self, now: Timestamp) -> Vec<String> {
        vec![
            self.id.clone(),
            shown(&self.name),
            self.state.clone(),
            self.exit_code
                .map_or_else(|| "-".to_owned(), |it| it.to_string()),
            age(self.started.as_deref(), now),
            self.failure.as_deref().map_or_else(String::new, shown),
        ]
    }

    fn further(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Answer for RunFacts {
    fn table(&self) -> Table {
        let or_empty = |it: &Option<String>| it.as_deref().map_or_else(String::new, shown);
        let mut facts = vec![
            ("Run", self.id.clone()),
            ("Name", shown(&self.name)),
            ("State", self.state.clone()),
            (
                "Exit code",
                self.exit_code.map_or_else(String::new, |it| it.to_string()),
            ),
            ("Failure", or_empty(&self.failure)),
            ("Started", or_empty(&self.started)),
            ("Ended", or_empty(&self.ended)),
            ("Machines", self.machines.join(" ")),
        ];
        for step in &self.steps {
            let message = step
                .message
                .as_deref()
                .map_or_else(String::new, |it| format!(": {}", shown(it)));
            facts.push(("Step", format!("{} ({}){message}", step.name, step.state)));
        }
        Table::facts(facts)
    }
}
