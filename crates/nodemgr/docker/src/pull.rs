//! Fetching images that the engine does not have.
//!
//! An engine fetches an image while somebody reads how far it is. Whoever hangs up ends it, and what had come of a layer is thrown
//! away; so an image that takes longer than a call may would never come. Each is therefore fetched in a task of its own, which all
//! who want it wait for, and which goes on when they have lost patience.

use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt as _;
use muster_provider::{FailureClass, Ongoing};

use crate::creation::Creation;
use crate::engine::EngineError;
use crate::failure::Failure;
use crate::image::split;

/// How long one call waits; well below what a call may take.
const WAIT: Duration = Duration::from_secs(20);
/// How long an engine may say nothing about a pull before it is given up.
const STILL: Duration = Duration::from_secs(300);

/// The engine has not got an image, and cannot get it, or not yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PullError {
    #[error("image {image} is not here, and cannot be pulled")]
    Failed {
        image: String,
        #[source]
        source: EngineError,
    },
    #[error("image {image} is not here, and pulling it came to a stop: nothing happened for {} s", STILL.as_secs())]
    Still { image: String },
    #[error("image {image} is being pulled")]
    Underway { image: String },
}

/// Why a pull failed, for everybody who waited.
type Failed = (FailureClass, Arc<PullError>);

/// The images that are being fetched, by name and platform.
#[derive(Debug)]
pub(crate) struct Pulls {
    ongoing: Ongoing<(String, String), Result<(), Failed>>,
    wait: Duration,
}

impl Default for Pulls {
    fn default() -> Self {
        Self {
            ongoing: Ongoing::default(),
            wait: WAIT,
        }
    }
}

impl Pulls {
    /// Fetches the image of a container, without credentials of our own. What takes long is said to be under way, and goes on.
    pub(crate) async fn pull(&self, docker: &Docker, creation: &Creation) -> Result<(), Failure> {
        let image = creation.image.clone();
        let platform = creation.platform.clone().unwrap_or_default();
        let key = (image.clone(), platform.clone());
        let work = || pull(docker.clone(), image.clone(), platform);
        match self.ongoing.wait(key, self.wait, work).await {
            Some(done) => done.map_err(|(class, error)| Failure::new(class, error)),
            None => {
                let error = PullError::Underway { image };
                Err(Failure::new(FailureClass::Underway, error))
            }
        }
    }
}

async fn pull(docker: Docker, image: String, platform: String) -> Result<(), Failed> {
    let (name, tag) = split(&image);
    let options = CreateImageOptions {
        from_image: Some(name.to_owned()),
        tag: Some(tag.to_owned()),
        platform,
        ..CreateImageOptions::default()
    };
    let mut progress = std::pin::pin!(docker.create_image(Some(options), None, None));
    loop {
        let Ok(step) = tokio::time::timeout(STILL, progress.next()).await else {
            let still = PullError::Still { image };
            return Err((FailureClass::Retryable, Arc::new(still)));
        };
        let source = match step {
            None => return Ok(()),
            Some(Ok(step)) => match step.error_detail.and_then(|detail| detail.message) {
                None => continue,
                Some(message) => EngineError::Answered {
                    operation: "pull the image",
                    status: 500,
                    message,
                },
            },
            Some(Err(error)) => EngineError::new("pull the image", error),
        };
        // A registry that knows no such image, or does not show it to everybody, will not know it later either.
        let class = match source.status() {
            Some(400..=404) => FailureClass::Refused,
            _ => FailureClass::Retryable,
        };
        return Err((class, Arc::new(PullError::Failed { image, source })));
    }
}

#[cfg(test)]
mod tests;
