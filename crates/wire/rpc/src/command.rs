//! The queue between the handles of a stream and the one task that writes to it.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::slots::{AskError, ReplyKind};

/// The task settles every request by its deadline; the asker gives up by itself only if the request
/// did not even reach the task, a little later.
const ASK_GRACE: Duration = Duration::from_millis(100);

/// What handles ask of the task: `S` is sent, `M` is a request, `R` its answer.
pub(crate) enum Command<S, M, R> {
    Send(S),
    Ask {
        message: M,
        kind: ReplyKind,
        expires: Instant,
        answer: oneshot::Sender<Result<R, AskError>>,
    },
}

/// The stream has ended; nothing was taken.
#[derive(Debug)]
pub(crate) struct Ended;

pub(crate) struct CommandSender<S, M, R>(mpsc::Sender<Command<S, M, R>>);

impl<S, M, R> Clone for CommandSender<S, M, R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S, M, R> CommandSender<S, M, R> {
    pub(crate) fn new(bound: usize) -> (Self, mpsc::Receiver<Command<S, M, R>>) {
        let (sender, receiver) = mpsc::channel(bound);
        (Self(sender), receiver)
    }

    pub(crate) async fn send(&self, message: S) -> Result<(), Ended> {
        self.0.send(Command::Send(message)).await.map_err(|_| Ended)
    }

    /// `ended` is what the asker is told when there is no task any more.
    pub(crate) async fn ask(
        &self,
        message: M,
        kind: ReplyKind,
        patience: Duration,
        ended: AskError,
    ) -> Result<R, AskError> {
        let expires = Instant::now() + patience;
        let (answer, answered) = oneshot::channel();
        let command = Command::Ask {
            message,
            kind,
            expires,
            answer,
        };
        match timeout_at(expires, self.0.send(command)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(ended),
            Err(_) => return Err(AskError::NotSent { kind }),
        }
        match timeout_at(expires + ASK_GRACE, answered).await {
            Ok(Ok(answer)) => answer,
            // The task answers before it lets go, unless its runtime is being torn down.
            Ok(Err(_)) => Err(ended),
            Err(_) => Err(AskError::NotSent { kind }),
        }
    }
}

/// Ends a queue: whoever still waits for an answer is told why there is none.
pub(crate) fn refuse_rest<S, M, R>(commands: &mut mpsc::Receiver<Command<S, M, R>>, why: AskError) {
    commands.close();
    while let Ok(command) = commands.try_recv() {
        if let Command::Ask { answer, .. } = command {
            // The asker may have gone.
            let _ = answer.send(Err(why));
        }
    }
}
