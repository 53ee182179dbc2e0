//! What a machine is, as it says itself.

use std::path::PathBuf;
use std::time::Duration;

use muster_executor::{Command, Executor, ExecutorError};

/// A virtual machine without hardware to help it may still be busy with its boot.
const TIME: Duration = Duration::from_secs(120);
/// Far more than it says.
const LONGEST: usize = 4096;

/// One line for each fact, so that whatever a shell prints before is left out.
const LOOK: &str = r#"echo "muster:arch=$(uname -m)"
echo "muster:uid=$(id -u)"
if [ "$(id -u)" = 0 ]; then echo muster:root=yes
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then echo muster:root=sudo
else echo muster:root=no; fi
[ -d /run/systemd/system ] && echo muster:systemd=yes
command -v setsid >/dev/null && echo muster:setsid=yes
home=$(cd 2>/dev/null && pwd) && echo "muster:home=$home"
for folder in /var/lib/muster /run; do
    there=$folder
    while [ ! -d "$there" ]; do there=$(dirname "$there"); done
    if [ "$(stat -f -c %t "$there" 2>/dev/null)" = 794c7630 ]; then echo "muster:layered=$folder"; break; fi
done
exit 0
"#;

/// How commands become root's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// They are.
    Own,
    /// By `sudo`, which asks for no password.
    Sudo,
}

/// What a machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// As `uname -m` says.
    pub architecture: String,
    /// How commands become root's, if they can.
    pub root: Option<Root>,
    /// Whether systemd starts what is to run there.
    pub has_systemd: bool,
    /// Whether a program can be given a session of its own.
    pub has_setsid: bool,
    /// The home of whoever logs in there.
    pub home: Option<PathBuf>,
    /// A folder of the node that is on a file system of layers, which can be no layer of another.
    pub layered: Option<String>,
}

/// Why nothing is known about a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FactsError {
    /// It cannot be asked.
    #[error("cannot look at the machine")]
    Ask(#[source] ExecutorError),
    /// It said something else.
    #[error("the machine does not say what it is; it said {0:?}")]
    Unclear(String),
}

impl Facts {
    /// Looks at a machine.
    ///
    /// # Errors
    /// When it does not answer, or has no shell.
    pub async fn ask(executor: &dyn Executor) -> Result<Self, FactsError> {
        let command = Command::shell(LOOK).timeout(TIME);
        let running = executor.run(&command).await.map_err(FactsError::Ask)?;
        let output = running.output(LONGEST).await.map_err(FactsError::Ask)?;
        let said = String::from_utf8_lossy(&output.stdout);
        Self::read(&said).ok_or_else(|| FactsError::Unclear(said.chars().take(200).collect()))
    }

    fn read(said: &str) -> Option<Self> {
        let fact = |name: &str| {
            let mut lines = said
                .lines()
                .filter_map(|line| line.strip_prefix("muster:")?.split_once('='));
            lines.find_map(|(key, value)| (key == name).then_some(value.trim()))
        };
        let root = match fact("root")? {
            "yes" => Some(Root::Own),
            "sudo" => Some(Root::Sudo),
            _ => None,
        };
        Some(Self {
            architecture: fact("arch").filter(|it| !it.is_empty())?.to_owned(),
            root,
            has_systemd: fact("systemd").is_some(),
            has_setsid: fact("setsid").is_some(),
            home: fact("home")
                .map(PathBuf::from)
                .filter(|home| home.is_absolute()),
            layered: fact("layered").map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_executor::local::LocalExecutor;

    use super::*;

    #[test]
    fn facts_are_read_from_among_whatever_else_is_printed() {
        let said = "Welcome!\nmuster:arch=x86_64\nmuster:root=sudo\nmuster:systemd=yes\nmuster:home=/home/a b\nmuster:layered=/run\n";
        let facts = Facts::read(said).unwrap();
        assert_eq!(facts.architecture, "x86_64");
        assert_eq!(facts.root, Some(Root::Sudo));
        assert!(facts.has_systemd && !facts.has_setsid);
        assert_eq!(facts.layered.as_deref(), Some("/run"));
        assert_eq!(facts.home.as_deref(), Some(Path::new("/home/a b")));
        let nowhere = Facts::read("muster:arch=x\nmuster:root=yes\nmuster:home=\n").unwrap();
        assert_eq!(nowhere.home, None);
        assert_eq!(Facts::read("sh: not found"), None);
    }

    #[tokio::test]
    async fn this_machine_says_what_it_is() {
        let facts = Facts::ask(&LocalExecutor::new()).await.unwrap();
        assert_eq!(facts.architecture, std::env::consts::ARCH);
        assert!(facts.has_setsid);
    }
}
