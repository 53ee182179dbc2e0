//! What a request of EC2's Query API is.

use super::fault::Ec2Fault;
use super::query::Query;
use super::xml::{Element, ReadXmlError};

/// The version of the interface that requests and answers are written for.
pub const VERSION: &str = "2016-11-15";

/// A request: what it is called, its parameters, and how its answer is read.
pub trait Action {
    /// EC2's name of it.
    const NAME: &'static str;

    /// The service that is asked, as its host and its signatures call it.
    const SERVICE: &'static str = "ec2";

    /// The version of that service's interface.
    const API: &'static str = VERSION;

    /// What is answered.
    type Answer;

    /// Adds the parameters.
    fn parameters(&self, query: &mut Query);

    /// Reads the answer.
    ///
    /// # Errors
    /// When something is missing without which the answer says nothing.
    fn read(answer: &Element) -> Result<Self::Answer, ReadAnswerError>;

    /// The whole request.
    fn query(&self) -> Query {
        let mut query = Query::default();
        query.push("Action", Self::NAME);
        query.push("Version", Self::API);
        self.parameters(&mut query);
        query
    }
}

/// Why an answer says nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadAnswerError {
    /// It is no document.
    #[error("the answer to {action} cannot be read")]
    Xml {
        /// What was asked.
        action: &'static str,
        /// What is wrong.
        #[source]
        source: ReadXmlError,
    },
    /// A document that lacks something.
    #[error("the answer has no {0}")]
    Missing(&'static str),
    /// Something in it is nothing that we know.
    #[error("the answer has the {what} {value:?}, which is none")]
    Unknown {
        /// What it was to be.
        what: &'static str,
        /// What it is.
        value: String,
    },
}

/// Reads the answer to a request that was answered with success.
///
/// # Errors
/// When it is not one.
pub fn read_answer<A: Action>(bytes: &[u8]) -> Result<A::Answer, ReadAnswerError> {
    let document = Element::parse(bytes).map_err(|source| ReadAnswerError::Xml {
        action: A::NAME,
        source,
    })?;
    A::read(&document)
}

/// Reads an answer of failure. Whatever it is, it is a fault: what cannot be read is one without a code.
#[must_use]
pub fn read_fault(status: u16, bytes: &[u8]) -> Ec2Fault {
    let document = Element::parse(bytes).unwrap_or_default();
    // EC2 has `Response/Errors/Error`, other services of the Query API `ErrorResponse/Error`.
    let error = document.child("Errors").unwrap_or(&document).child("Error");
    let part = |name| {
        error
            .and_then(|error| error.value(name))
            .unwrap_or_default()
    };
    Ec2Fault::new(status, part("Code"), part("Message"))
}
