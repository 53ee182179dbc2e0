//! How long a lost connection is waited for.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::ExecutorError;
use crate::executor::Answer;

/// The first pause before another attempt, and the longest.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3);

/// How long a lost connection is waited for. It is lost anew after every progress: what took minutes before it was cut is worth
/// as much waiting as what was cut at once.
pub(crate) struct Patience {
    whole: Duration,
    /// When there is no more of it; nothing as long as no connection was lost.
    until: Option<Instant>,
    pause: Duration,
    /// Whether it was given anew for progress that has not been seen yet.
    lent: bool,
}

impl Patience {
    pub(crate) fn new(whole: Duration) -> Self {
        Self {
            whole,
            until: None,
            pause: FIRST,
            lent: false,
        }
    }

    /// There was progress since the connection was lost.
    pub(crate) fn renew(&mut self) {
        *self = Self::new(self.whole);
    }

    /// Waits before another attempt, as [`Self::endure`], of something whose progress only the next attempt can see: if there is
    /// no patience left for it, it is given anew once, and not again before there was progress.
    pub(crate) async fn endure_unseen(
        &mut self,
        error: ExecutorError,
    ) -> Result<(), ExecutorError> {
        let is_over = self
            .until
            .is_some_and(|until| Instant::now() + self.pause > until);
        if is_over && !self.lent {
            self.renew();
            self.lent = true;
        }
        self.endure(error).await
    }

    /// Waits before another attempt; gives the error back if there is to be none.
    pub(crate) async fn endure(&mut self, error: ExecutorError) -> Result<(), ExecutorError> {
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + self.whole);
        if !error.class.is_retryable() || now + self.pause > until {
            return Err(error);
        }
        tracing::debug!(%error, cause = %error.source, "the connection was lost, trying again");
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST);
        Ok(())
    }
}

/// Does something that may be repeated, again after every lost connection, as long as patience lasts.
pub(crate) async fn persist<'a, T>(
    patience: Duration,
    attempt: impl Fn() -> Answer<'a, T>,
) -> Result<T, ExecutorError> {
    let mut patience = Patience::new(patience);
    loop {
        match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(error) => patience.endure(error).await?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{FailureClass, Operation};

    fn lost() -> ExecutorError {
        let class = FailureClass::Interrupted;
        ExecutorError::new(Operation::Copy, "a folder", class, "it was cut")
    }

    #[tokio::test(start_paused = true)]
    async fn patience_begins_when_the_connection_is_lost_and_not_before() {
        let mut patience = Patience::new(Duration::from_secs(30));
        // The first attempt went well for minutes.
        tokio::time::advance(Duration::from_secs(120)).await;
        patience.endure(lost()).await.unwrap();
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(patience.endure(lost()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn patience_is_whole_again_after_progress() {
        let mut patience = Patience::new(Duration::from_secs(30));
        for _ in 0..5 {
            patience.endure(lost()).await.unwrap();
            tokio::time::advance(Duration::from_secs(120)).await;
            patience.renew();
        }
        let refused = ExecutorError::new(Operation::Copy, "x", FailureClass::Refused, "no");
        assert!(patience.endure(refused).await.is_err());
    }
}
