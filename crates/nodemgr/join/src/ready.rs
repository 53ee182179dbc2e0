//! A machine that has just been made boots before it can be asked anything.

use std::time::Duration;

use muster_executor::{Executor, ExecutorError, FailureClass};
use tokio::time::{Instant, sleep, timeout};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why a machine cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// It never answered.
    #[error("the machine did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It answered, and not as it should.
    #[error("the machine cannot be used")]
    Failed(#[source] ExecutorError),
}

/// Waits until a machine can be asked to do something.
///
/// # Errors
/// When it cannot within this time: why it could not the last time.
pub async fn wait_ready(executor: &dyn Executor, patience: Duration) -> Result<(), NotReady> {
    wait(executor, patience, |probed| match probed {
        Err(error) if error.class == FailureClass::Unsupported => Err(NotReady::Failed(error)),
        probed => Ok(probed),
    })
    .await
}

/// Waits until a machine answers, whatever can be done with it then.
///
/// # Errors
/// When it does not within this time: what was wrong the last time.
pub async fn wait_answer(executor: &dyn Executor, patience: Duration) -> Result<(), NotReady> {
    wait(executor, patience, |probed| match probed {
        Err(error) if !has_answered(&error) => Ok(Err(error)),
        _ => Ok(Ok(())),
    })
    .await
}

/// Whether a machine that failed a probe has answered all the same: it is there, and has not even the program `true`. Where there is
/// no way to try it, nobody will know better.
#[must_use]
pub const fn has_answered(probed: &ExecutorError) -> bool {
    matches!(
        probed.class,
        FailureClass::NoProgram
            | FailureClass::NotExecutable
            | FailureClass::NotStarted
            | FailureClass::Unsupported
    )
}

/// Tries until a probe is judged to be well, or to be the end.
async fn wait(
    executor: &dyn Executor,
    patience: Duration,
    judge: impl Fn(Result<(), ExecutorError>) -> Result<Result<(), ExecutorError>, NotReady>,
) -> Result<(), NotReady> {
    let deadline = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    let mut last = NotReady::Silent(patience);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match timeout(left, executor.probe()).await.map(&judge) {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Err(hopeless)) => return Err(hopeless),
            // Also one that refuses: while it boots, it refuses those whom it knows a moment later.
            Ok(Ok(Err(error))) => last = NotReady::Failed(error),
            Err(_) => return Err(last),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(last);
        }
        // What is waited for is in another machine, which tells nobody when it is there.
        sleep(pause.min(left)).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use muster_executor::files::Files;
    use muster_executor::local::LocalExecutor;
    use muster_executor::{
        Answer, Attached, Capabilities, Command, Operation, Running, TcpLike, Terminal,
    };

    use super::*;

    /// Boots for a while.
    #[derive(Debug)]
    struct Booting {
        inner: LocalExecutor,
        refusals: AtomicU32,
        class: FailureClass,
    }

    impl Executor for Booting {
        fn access(&self) -> Capabilities {
            self.inner.access()
        }

        fn run<'a>(&'a self, command: &'a Command) -> Answer<'a, Running> {
            let left = self.refusals.load(Ordering::SeqCst);
            if left == 0 {
                return self.inner.run(command);
            }
            self.refusals.store(left - 1, Ordering::SeqCst);
            let error = ExecutorError::new(Operation::Run, "true", self.class, "not yet");
            Box::pin(async move { Err(error) })
        }

        fn attach<'a>(
            &'a self,
            command: Option<&'a Command>,
            terminal: &'a Terminal,
        ) -> Answer<'a, Attached> {
            self.inner.attach(command, terminal)
        }

        fn files<'a>(&'a self, folder: &'a Path) -> Answer<'a, Arc<dyn Files>> {
            self.inner.files(folder)
        }

        fn connect<'a>(&'a self, host: &'a str, port: u16) -> Answer<'a, Box<dyn TcpLike>> {
            self.inner.connect(host, port)
        }
    }

    fn booting(refusals: u32, class: FailureClass) -> Booting {
        Booting {
            inner: LocalExecutor::new(),
            refusals: AtomicU32::new(refusals),
            class,
        }
    }

    #[tokio::test]
    async fn a_machine_that_boots_is_asked_again() {
        for class in [FailureClass::Unreachable, FailureClass::Refused] {
            let machine = booting(3, class);
            wait_ready(&machine, Duration::from_secs(60)).await.unwrap();
            assert_eq!(machine.refusals.load(Ordering::SeqCst), 0);
        }
    }

    #[tokio::test]
    async fn a_machine_without_programs_answers_and_one_that_refuses_does_not() {
        let patience = Duration::from_secs(60);
        for class in [FailureClass::NoProgram, FailureClass::NotStarted] {
            let machine = booting(u32::MAX, class);
            wait_answer(&machine, patience).await.unwrap();
        }
        for class in [FailureClass::Unreachable, FailureClass::Refused] {
            let machine = booting(3, class);
            wait_answer(&machine, patience).await.unwrap();
            assert_eq!(machine.refusals.load(Ordering::SeqCst), 0);
        }
        let machine = booting(u32::MAX, FailureClass::Refused);
        let given_up = wait_answer(&machine, Duration::from_millis(200)).await;
        assert!(matches!(given_up, Err(NotReady::Failed(_))), "{given_up:?}");
    }

    #[tokio::test]
    async fn one_that_never_will_is_given_up_with_its_reason() {
        let machine = booting(u32::MAX, FailureClass::Unreachable);
        let given_up = wait_ready(&machine, Duration::from_millis(200)).await;
        assert!(matches!(given_up, Err(NotReady::Failed(_))), "{given_up:?}");
        let machine = booting(1, FailureClass::Unsupported);
        let hopeless = wait_ready(&machine, Duration::from_secs(60)).await;
        assert!(matches!(hopeless, Err(NotReady::Failed(_))), "{hopeless:?}");
    }
}
