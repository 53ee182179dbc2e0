//! The client, and how a call is made.

use std::error::Error as StdError;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use muster_api::common::v2::ErrorInfo;
use muster_api::domain::fault_from_wire;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::error::IamCallError;
use crate::target::IamTarget;

/// Calls that IAM answers by itself.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// Calls for which IAM may ask another node, for up to a minute.
pub(crate) const OF_NODE: Duration = Duration::from_secs(70);
/// Calls for which IAM may ask another node, for up to five minutes.
pub(crate) const PROVISIONING: Duration = Duration::from_secs(310);

/// A client of IAM. Cheap to clone; clones share connections.
///
/// Connections are made at the first call and again after every loss; a call that finds IAM
/// unreachable fails at once.
#[derive(Debug, Clone)]
pub struct IamClient {
    pub(crate) public: Channel,
    protected: Option<Channel>,
}

impl IamClient {
    /// A client of the public port. Needs a tokio runtime around it.
    #[must_use]
    pub fn new(public: IamTarget) -> Self {
        Self {
            public: public.channel(),
            protected: None,
        }
    }

    /// With the protected port as well.
    #[must_use]
    pub fn with_protected(self, protected: IamTarget) -> Self {
        Self {
            protected: Some(protected.channel()),
            ..self
        }
    }

    /// A client of the unix socket of IAM on the same node, which serves everything.
    #[must_use]
    pub fn local(socket: impl Into<PathBuf>) -> Self {
        let channel = IamTarget::Unix(socket.into()).channel();
        Self {
            public: channel.clone(),
            protected: Some(channel),
        }
    }

    pub(crate) fn protected(&self, call: &'static str) -> Result<Channel, IamCallError> {
        let protected = self.protected.clone();
        protected.ok_or(IamCallError::NoProtectedPort { call })
    }
}

/// One call: what it is named in errors, and how long it may take.
#[derive(Debug)]
pub(crate) struct Call {
    name: &'static str,
    object: String,
    deadline: Duration,
}

impl Call {
    pub(crate) fn new(name: &'static str, object: impl Display, deadline: Duration) -> Self {
        Self {
            name,
            object: object.to_string(),
            deadline,
        }
    }

    pub(crate) async fn make<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, IamCallError> {
        match timeout(self.deadline, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(IamCallError::Call {
                call: self.name,
                object: self.object.clone(),
                source: Box::new(status),
            }),
            Err(_) => Err(IamCallError::Late {
                call: self.name,
                object: self.object.clone(),
                after: self.deadline,
            }),
        }
    }

    /// The answer as what it stands for.
    pub(crate) fn read<W, T>(&self, answer: W) -> Result<T, IamCallError>
    where
        T: TryFrom<W>,
        T::Error: StdError + Send + Sync + 'static,
    {
        T::try_from(answer).map_err(|error| self.unusable(error))
    }

    pub(crate) fn unusable(&self, error: impl StdError + Send + Sync + 'static) -> IamCallError {
        IamCallError::Answer {
            call: self.name,
            object: self.object.clone(),
            source: Box::new(error),
        }
    }

    /// The failure that an answer reports, if it does.
    pub(crate) fn check(&self, error: Option<ErrorInfo>) -> Result<(), IamCallError> {
        match fault_from_wire(error) {
            None => Ok(()),
            Some(source) => Err(IamCallError::NotCarriedOut {
                call: self.name,
                object: self.object.clone(),
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_by_its_deadline() {
        let call = Call::new("Deprovision", "second", PROVISIONING);
        let start = Instant::now();
        let error = call
            .make(std::future::pending::<Result<Response<()>, Status>>())
            .await;
        assert_eq!(start.elapsed(), PROVISIONING);
        let error = error.expect_err("never answered");
        assert_eq!(
            error.to_string(),
            "Deprovision(second) was not answered within 310s"
        );
        assert!(error.is_unreachable());
    }
}
