//! The daemon from outside: what it uses, and what it shows operators.

use std::fs;
use std::time::{Duration, Instant};

use muster_control_api::v1;
use muster_control_api::v1::control_service_client::ControlServiceClient;
use tonic::transport::Channel;

use crate::rig::Cm;

/// Between two looks; each costs the daemon little.
const LOOK: Duration = Duration::from_millis(20);
/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(300);
/// Ticks of the kernel's clock in a second.
const TICKS: f64 = 100.0;

pub(crate) struct Watched {
    pid: i32,
    control: ControlServiceClient<Channel>,
}

impl Watched {
    pub(crate) async fn new(cm: &Cm) -> Self {
        let control = cm.control().await;
        Self {
            pid: cm.process.pid(),
            control,
        }
    }

    /// Proportional share of memory, in KiB.
    pub(crate) fn memory(&self) -> f64 {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid)).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.unwrap().parse().unwrap()
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / TICKS
    }

    async fn overview(&mut self) -> v1::Overview {
        let answer = self.control.get_overview(v1::GetOverviewRequest {});
        answer.await.unwrap().into_inner()
    }

    pub(crate) async fn until_connected(&mut self, count: usize) {
        let (count, deadline) = (count as u64, Instant::now() + PATIENCE);
        loop {
            let now = self.overview().await.nodes_connected;
            if now >= count {
                return;
            }
            assert!(Instant::now() < deadline, "{now} of {count} connected");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until so many are active and the update has nothing left to do.
    pub(crate) async fn until_updated(&mut self, count: usize) {
        let (count, deadline) = (count as u64, Instant::now() + PATIENCE);
        loop {
            let now = self.overview().await;
            let is_over = now.update.as_ref().is_some_and(|it| it.done);
            if is_over && now.instances_active >= count {
                return;
            }
            assert!(Instant::now() < deadline, "not updated: {now:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until so many nodes are shown to use this.
    pub(crate) async fn until_measured(&mut self, count: usize, ram: u64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.measured(ram).await;
            if now >= count {
                return;
            }
            assert!(Instant::now() < deadline, "{now} of {count} measured");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn measured(&mut self, ram: u64) -> usize {
        let (mut count, mut request) = (0, v1::ListNodesRequest::default());
        loop {
            let page = self.control.list_nodes(request.clone()).await;
            let page = page.unwrap().into_inner();
            let usages = page.nodes.iter().filter_map(|it| it.usage.as_ref());
            count += usages.filter(|it| it.ram == ram).count();
            if page.next_page_token.is_empty() {
                return count;
            }
            request.page_token = page.next_page_token;
        }
    }
}
