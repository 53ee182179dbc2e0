//! Logs of nodes, asked for and put together for an operator.

use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flate2::read::MultiGzDecoder;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream, Stream};
use muster_api::domain::{LogStatus, NodeId, Timestamp, fault_from_wire};
use muster_api::servicemanager::v5 as wire;
use muster_control_server::{LogPart, LogRequest, LogSource, OperationError};
use muster_smcontroller::{LogProvider as _, LogQuery, NodeCommandError, SmController};

use crate::logs::{LogAnswer, LogNews};
use crate::switchboard::Switchboard;

/// So many nodes are asked at the same time.
const NODES: usize = 8;
/// A node that sends no part for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks for what is new.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// What was written within this time may not be in the node's journal yet, and is left for the next look.
const SETTLED: Duration = Duration::from_millis(300);
/// The longest text of one part.
const LONGEST: u64 = 8 << 20;

/// The parts of all nodes that are asked, in order per node.
pub(super) async fn read(
    controller: &SmController,
    switchboard: &Arc<Switchboard>,
    request: LogRequest,
) -> Result<BoxStream<'static, Result<LogPart, OperationError>>, OperationError> {
    let nodes = match request.nodes.is_empty() {
        false => request.nodes.clone(),
        true => {
            let connected = switchboard.nodes().connected_nodes();
            connected.into_iter().map(|(node, _)| node).collect()
        }
    };
    for node in &nodes {
        if switchboard.nodes().get(node).is_none() {
            return Err(OperationError::UnknownNode { node: node.clone() });
        }
    }
    let request = Arc::new(request);
    let (controller, switchboard) = (controller.clone(), Arc::clone(switchboard));
    let of_node = move |node| {
        let reader = NodeReader::new(
            controller.clone(),
            Arc::clone(&switchboard),
            Arc::clone(&request),
            node,
        );
        reader.parts().boxed()
    };
    Ok(stream::iter(nodes)
        .map(of_node)
        .flatten_unordered(NODES)
        .boxed())
}

/// Reads the logs of one node.
struct NodeReader {
    controller: SmController,
    switchboard: Arc<Switchboard>,
    request: Arc<LogRequest>,
    node: NodeId,
    /// The answer that is being read.
    answer: Option<LogAnswer>,
    from: Option<Timestamp>,
    till: Option<Timestamp>,
    is_over: bool,
}

impl NodeReader {
    fn new(
        controller: SmController,
        switchboard: Arc<Switchboard>,
        request: Arc<LogRequest>,
        node: NodeId,
    ) -> Self {
        let (from, till) = match request.follow {
            true => (request.from.or_else(|| at(SystemTime::now())), None),
            false => (request.from, request.till),
        };
        Self {
            controller,
            switchboard,
            request,
            node,
            answer: None,
            from,
            till,
            is_over: false,
        }
    }

    fn parts(self) -> impl Stream<Item = Result<LogPart, OperationError>> + Send {
        stream::unfold(self, async |mut reader| {
            while !reader.is_over {
                match reader.next().await {
                    Ok(Some(part)) => return Some((Ok(part), reader)),
                    Ok(None) => {}
                    Err(error) => {
                        reader.is_over = true;
                        return Some((Err(error), reader));
                    }
                }
            }
            None
        })
    }

    /// One step; `None` where it brought nothing to show.
    async fn next(&mut self) -> Result<Option<LogPart>, OperationError> {
        let Some(answer) = &mut self.answer else {
            self.ask().await?;
            return Ok(None);
        };
        let news = tokio::time::timeout(PATIENCE, answer.next()).await;
        let part = match news {
            Ok(Some(LogNews::Part(part))) => part,
            Ok(Some(LogNews::Gone)) => return Err(self.unavailable("it has disconnected")),
            Ok(None) => return Err(self.unavailable("more came than was read")),
            Err(_) => return Err(self.unavailable("it does not answer")),
        };
        let is_last = part.part >= part.part_count || part.status != LogStatus::Ok.as_str();
        let part = self.read(part)?;
        if is_last {
            self.answer = None;
            match self.request.follow {
                true => self.look_again().await,
                false => self.is_over = true,
            }
        }
        // Nothing new is no news.
        let says_nothing =
            self.request.follow && matches!(part.status, LogStatus::Empty | LogStatus::Absent);
        Ok((!says_nothing).then_some(part))
    }

    async fn ask(&mut self) -> Result<(), OperationError> {
        if self.request.follow {
            self.till = at(SystemTime::now() - SETTLED).max(self.from);
        }
        let answer = self.switchboard.logs().expect(self.node.clone());
        let query = LogQuery {
            correlation_id: answer.id().to_owned(),
            from: self.from,
            till: self.till,
        };
        let asked = match self.request.source.clone() {
            LogSource::System => self.controller.system_log(&self.node, query).await,
            LogSource::Instances(filter) => {
                self.controller
                    .instance_log(&self.node, filter, query)
                    .await
            }
            LogSource::Crashes(filter) => {
                self.controller
                    .instance_crash_log(&self.node, filter, query)
                    .await
            }
        };
        asked.map_err(|source: NodeCommandError| OperationError::Unavailable {
            operation: format!("read logs of node {}", self.node),
            source: Box::new(source),
        })?;
        self.answer = Some(answer);
        Ok(())
    }

    async fn look_again(&mut self) {
        let next = self
            .till
            .map(|it| SystemTime::from(it) + Duration::from_micros(1));
        self.from = next.and_then(at);
        tokio::time::sleep(LOOK_AGAIN).await;
    }

    fn read(&self, part: wire::LogData) -> Result<LogPart, OperationError> {
        let status = part.status.parse();
        let status = status.map_err(|_| self.unavailable("its answer makes no sense"))?;
        let data = gunzip(&part.data).map_err(|source| OperationError::Failed {
            operation: format!("unpack logs of node {}", self.node),
            source: Box::new(source),
        })?;
        Ok(LogPart {
            node: self.node.clone(),
            data,
            status,
            error: fault_from_wire(part.error),
        })
    }

    fn unavailable(&self, why: &'static str) -> OperationError {
        OperationError::Unavailable {
            operation: format!("read logs of node {}", self.node),
            source: why.into(),
        }
    }
}

fn at(time: SystemTime) -> Option<Timestamp> {
    time.try_into().ok()
}

fn gunzip(data: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if data.is_empty() {
        return Ok(text);
    }
    let mut reader = MultiGzDecoder::new(data).take(LONGEST + 1);
    reader.read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(std::io::Error::other("a part is too long"));
    }
    Ok(text)
}
