//! Switching a machine off, or booting it again, from inside.

use crate::command::Command;
use crate::error::{ExecutorError, FailureClass, Operation};
use crate::running::Output;

/// What is done with the power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerVerb {
    /// The machine is switched off.
    Off,
    /// The machine boots again.
    Reboot,
}

impl PowerVerb {
    /// Asks whichever service manager there is. None of these waits for the end of the machine, and what they begin
    /// cannot be undone by the end of the connection.
    const fn script(self) -> &'static str {
        match self {
            Self::Off => {
                "if command -v systemctl >/dev/null && systemctl --no-block poweroff; then exit 0; fi
                 if command -v shutdown >/dev/null && shutdown -P now; then exit 0; fi
                 exec poweroff"
            }
            Self::Reboot => {
                "if command -v systemctl >/dev/null && systemctl --no-block reboot; then exit 0; fi
                 if command -v shutdown >/dev/null && shutdown -r now; then exit 0; fi
                 exec reboot"
            }
        }
    }
}

pub(crate) async fn switch(
    verb: PowerVerb,
    run: impl AsyncFnOnce(&Command) -> Result<Output, ExecutorError>,
) -> Result<(), ExecutorError> {
    let command = Command::shell(verb.script()).user("root");
    match run(&command).await {
        Ok(output) if output.exit.is_success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let source = format!("it ended with {}: {said}", output.exit);
            let class = FailureClass::Refused;
            Err(ExecutorError::new(
                Operation::Power,
                "the machine",
                class,
                source,
            ))
        }
        // The machine went before it could say that it will.
        Err(error) if error.class == FailureClass::Interrupted => Ok(()),
        Err(error) => Err(error),
    }
}
