//! Where paths of a machine lead, which depends on whom the manager logs in as.

use muster_executor::Command;

use super::{Doing, judge, trouble_text};
use crate::entry::Why;
use crate::workflow::there::{Login, TherePath};

/// The longest answer that is read.
const MOST_ANSWER: usize = 8 * 1024;

impl Doing<'_> {
    /// A path of the machine as the machine has it.
    pub(super) async fn there(&self, path: &str) -> Result<String, Why> {
        match TherePath::read(path) {
            None | Some(TherePath::Absolute(_)) => Ok(path.to_owned()),
            Some(named) => Ok(named.resolve(&self.login().await?)),
        }
    }

    async fn login(&self) -> Result<Login, Why> {
        if let Some(login) = self.context.executors.login(self.slot) {
            return Ok(login);
        }
        let question = Command::shell(Login::QUESTION);
        let asked = async {
            self.executor
                .run(&question)
                .await?
                .output(MOST_ANSWER)
                .await
        };
        let answer = asked.await.map_err(|error| judge(&error))?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let login = Login::read(&text).filter(|_| answer.exit.is_success());
        let Some(login) = login else {
            let text =
                "the machine does not say whose home `~` is: write absolute paths of the machine";
            return Err(trouble_text(text.to_owned()));
        };
        self.context.executors.set_login(self.slot, &login);
        Ok(login)
    }
}
