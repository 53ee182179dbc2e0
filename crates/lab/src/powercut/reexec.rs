//! A test binary that plays the program under test as well.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROLE: &str = "MUSTER_LAB_ROLE";
const FOLDER: &str = "MUSTER_LAB_FOLDER";

/// The part that this process was started to play by [`reexec`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name given to [`reexec`].
    pub name: String,
    /// The folder to work in: where the logged disk is mounted.
    pub folder: PathBuf,
}

/// The part to play, or `None` in a test process started by the test runner.
///
/// A test that uses [`reexec`] on itself begins with it:
///
/// ```ignore
/// #[test]
/// fn rows_survive() {
///     if let Some(role) = powercut::role() {
///         return write_rows(&role.folder);
///     }
///     CutTest::new(|mount| powercut::reexec("store::rows_survive", "writer", mount), check).run()
/// }
/// ```
pub fn role() -> Option<Role> {
    Some(Role {
        name: env::var(ROLE).ok()?,
        folder: PathBuf::from(env::var_os(FOLDER)?),
    })
}

/// A command that runs one test of the running test binary again, in a role.
///
/// `test` is the full name of the test, as the test runner shows it.
pub fn reexec(test: &str, role: &str, folder: &Path) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args([test, "--exact", "--nocapture", "--include-ignored"])
        .env(ROLE, role)
        .env(FOLDER, folder);
    Ok(command)
}
