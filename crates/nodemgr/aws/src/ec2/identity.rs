//! Whose credentials requests are signed with: the one question to the Security Token Service, which has the Query API too.

use super::action::{Action, ReadAnswerError};
use super::query::Query;
use super::xml::Element;

/// Asks for the account. Nobody has to be allowed that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GetCallerIdentity;

impl Action for GetCallerIdentity {
    const NAME: &'static str = "GetCallerIdentity";
    const SERVICE: &'static str = "sts";
    const API: &'static str = "2011-06-15";

    /// The account's number.
    type Answer = String;

    fn parameters(&self, _: &mut Query) {}

    fn read(answer: &Element) -> Result<String, ReadAnswerError> {
        let result = answer.child("GetCallerIdentityResult");
        let account = result.and_then(|result| result.value("Account"));
        account
            .map(str::to_owned)
            .ok_or(ReadAnswerError::Missing("account"))
    }
}
