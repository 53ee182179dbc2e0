//! How far a copy is, for whoever follows the run: a folder may take minutes, and says nothing of itself.

use std::time::Duration;

use muster_executor::Progress;
use tokio::sync::watch;

/// A copy that takes less says nothing until it is done; one that takes more says so as often.
const EVERY: Duration = Duration::from_secs(5);

/// The next words about how far a copy is: it has got on, and some time has passed.
pub(super) async fn next(progress: &mut watch::Receiver<Progress>) -> String {
    loop {
        tokio::time::sleep(EVERY).await;
        // One that stands still, or is over, has nothing new to say.
        if progress.changed().await.is_err() {
            return std::future::pending().await;
        }
        let now = progress.borrow_and_update().clone();
        if let Some(text) = text(&now) {
            return text;
        }
    }
}

/// Nothing before anything is known.
fn text(progress: &Progress) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    let (done, bytes) = (mib(progress.bytes_done), mib(progress.bytes));
    match (progress.files, progress.bytes) {
        (0, 0) => None,
        (0, _) => Some(format!("copying: {done} of {bytes} MiB")),
        (files, _) => {
            let files_done = progress.files_done;
            Some(format!(
                "copying: {files_done} of {files} files, {done} of {bytes} MiB"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_copy_that_takes_long_says_how_far_it_is_and_a_short_one_nothing() {
        let (sender, mut receiver) = watch::channel(Progress::default());
        let mut said = Vec::new();
        let copy = async {
            sender.send_modify(|it| (it.files, it.bytes) = (3, 9 << 20));
            tokio::time::sleep(EVERY / 2).await;
            sender.send_modify(|it| (it.files_done, it.bytes_done) = (1, 4 << 20));
            tokio::time::sleep(EVERY).await;
            // It stands still.
            tokio::time::sleep(9 * EVERY).await;
        };
        tokio::pin!(copy);
        loop {
            tokio::select! {
                () = &mut copy => break,
                text = next(&mut receiver) => said.push(text),
            }
        }
        assert_eq!(said, ["copying: 1 of 3 files, 4 of 9 MiB"]);
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        assert_eq!(text(&Progress::default()), None);
        let bytes = Progress {
            bytes: 5 << 20,
            bytes_done: 2 << 20,
            ..Progress::default()
        };
        assert_eq!(text(&bytes).as_deref(), Some("copying: 2 of 5 MiB"));
    }
}
