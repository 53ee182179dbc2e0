//! A folder goes to a machine, and what changed there comes back.

use std::path::PathBuf;

use muster_executor::Transfer as Copy;
use muster_executor::back::{Brought, Uploaded, bring_back};

use super::{Doing, judge, trouble, trouble_text};
use crate::entry::Why;
use crate::log;
use crate::uploaded::{self, UploadedError};
use crate::workflow::Transfer;

/// How many files are named that were kept; the others are counted.
const NAMED: usize = 50;

impl Doing<'_> {
    /// Where it is kept what a folder held; nothing if it does not come back by its changes alone.
    pub(super) fn kept_at(&self, here: &str, there: &str) -> Option<PathBuf> {
        let number = self.context.workflow.number_of_folder(here, there)?;
        let folder = log::folder(&self.context.shared.settings, &self.context.run);
        Some(uploaded::path(&folder, number, self.slot))
    }

    pub(super) async fn upload_and_remember(
        &mut self,
        copy: &Copy,
        is_folder: bool,
        kept: PathBuf,
    ) -> Result<(), Why> {
        if !is_folder {
            let text = format!("{} is no folder that could come back", copy.local.display());
            return Err(trouble_text(text));
        }
        let begun = Uploaded::begin(&copy.local).await;
        let begun = begun.map_err(|error| judge(&error))?;
        self.copy(copy, is_folder).await?;
        let ended = begun.end(&**self.executor, copy).await;
        let ended = ended.map_err(|error| judge(&error))?;
        blocking(move || uploaded::write(&kept, &ended)).await
    }

    pub(super) async fn bring_back(&mut self, transfer: &Transfer) -> Result<(), Why> {
        let kept = self.kept_at(&transfer.to, &transfer.from);
        let uploaded = match kept {
            Some(kept) => blocking(move || uploaded::read(&kept)).await?,
            None => None,
        };
        let Some(uploaded) = uploaded else {
            // Nothing can have changed in it.
            let text = format!(
                "{} was not brought there, and does not come back",
                transfer.to
            );
            self.context.log.note(text).await;
            return Ok(());
        };
        let from = self.there(&transfer.from).await?;
        let copy = Copy::download(from, self.local(&transfer.to));
        let brought = bring_back(&**self.executor, &copy, &uploaded).await;
        let Brought { report, kept } = brought.map_err(|error| judge(&error))?;
        self.note_copy(&copy, &report).await;
        let warnings = told(&kept);
        for warning in &warnings {
            self.context.log.note(format!("warning: {warning}")).await;
        }
        self.warnings.extend(warnings);
        Ok(())
    }
}

/// What is told of files that were kept: not more than somebody reads.
fn told(kept: &[muster_executor::back::Kept]) -> Vec<String> {
    let mut told: Vec<String> = kept.iter().take(NAMED).map(ToString::to_string).collect();
    let more = kept.len().saturating_sub(NAMED);
    if more > 0 {
        told.push(format!(
            "and {more} more that changed on both sides are kept as they are here"
        ));
    }
    told
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, UploadedError> + Send + 'static,
) -> Result<T, Why> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| trouble(&error)),
        Err(error) => Err(trouble(&error)),
    }
}

#[cfg(test)]
mod tests {
    use muster_executor::back::{Kept, KeptBecause};
    use muster_executor::files::RelPath;

    use super::*;

    #[test]
    fn some_are_named_and_the_others_counted() {
        let kept = |nth: usize| Kept {
            path: RelPath::new(format!("f{nth}")).expect("a name"),
            because: KeptBecause::ChangedOnBoth,
        };
        let few: Vec<Kept> = (0..NAMED).map(kept).collect();
        assert_eq!(told(&few).len(), NAMED);
        let many: Vec<Kept> = (0..NAMED + 7).map(kept).collect();
        let told = told(&many);
        assert_eq!(told.len(), NAMED + 1);
        assert!(told[0].starts_with("f0 ") && told[NAMED].contains("7 more"));
    }
}
