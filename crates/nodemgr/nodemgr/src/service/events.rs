//! What happened to machines.

use std::collections::VecDeque;

use futures_util::{Stream, stream};
use muster_machine_api::v1;
use muster_machines::MachineEvent;
use muster_provider::MachineId;
use tokio::sync::broadcast::Receiver;
use tonic::Status;

use super::error;
use crate::desk::Desk;
use crate::wire;

/// So many are read at a time.
const PAGE: u32 = 256;

struct Reader {
    desk: Desk,
    after: u64,
    of: Option<MachineId>,
    /// What says that there is more; nothing where nobody waits for it.
    news: Option<Receiver<MachineEvent>>,
    page: VecDeque<MachineEvent>,
}

/// Events after a number, from the database; with `follow` also those that come.
pub(super) fn read(
    desk: Desk,
    after: u64,
    follow: bool,
    of: Option<MachineId>,
) -> impl Stream<Item = Result<v1::Event, Status>> + Send {
    // Listening begins before reading, so that nothing is missed in between.
    let news = desk.machines().events().filter(|_| follow);
    let reader = Reader {
        desk,
        after,
        of,
        news,
        page: VecDeque::new(),
    };
    stream::try_unfold(reader, |mut reader| async {
        let event = reader.next().await?;
        Ok(event.map(|event| (wire::event(&event), reader)))
    })
}

impl Reader {
    async fn next(&mut self) -> Result<Option<MachineEvent>, Status> {
        loop {
            while let Some(event) = self.page.pop_front() {
                if self.of.as_ref().is_none_or(|of| event.machine == *of) {
                    return Ok(Some(event));
                }
            }
            let page = self.desk.machines().events_after(self.after, PAGE).await;
            self.page = page.map_err(error::internal)?.into();
            if let Some(last) = self.page.back() {
                self.after = last.number;
                continue;
            }
            let Some(news) = &mut self.news else {
                return Ok(None);
            };
            use tokio::sync::broadcast::error::RecvError;
            match news.recv().await {
                // What it was, and what was missed, is read from the database.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(None),
            }
        }
    }
}
