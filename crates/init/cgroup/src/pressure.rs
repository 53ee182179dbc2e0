//! How a service is told to watch the pressure on its memory.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The time over which the kernel measures, in microseconds.
const WINDOW: u64 = 2_000_000;
/// What a service opens to find that nothing is to be watched.
const NOTHING: &str = "/dev/null";
const WATCH: &str = "MEMORY_PRESSURE_WATCH";
const WRITE: &str = "MEMORY_PRESSURE_WRITE";

/// What a unit says about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PressureWish {
    /// If the kernel measures it, and memory is counted for the unit.
    #[default]
    Auto,
    /// Whatever else the unit says.
    On,
    /// The service is told not to.
    Off,
    /// The service is told nothing.
    Skip,
}

/// What a service is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PressureWatch {
    /// The file to be watched.
    pub file: String,
    /// What is to be written into it first; nothing where there is nothing to watch.
    pub write: Option<String>,
}

impl PressureWatch {
    /// What a service is to be told: `folder` is that of its group, where the kernel measures pressure by groups; `counted` is
    /// whether its memory is counted; `threshold` is in microseconds of each two seconds.
    #[must_use]
    pub fn new(
        wish: PressureWish,
        counted: bool,
        threshold: u64,
        folder: Option<&Path>,
    ) -> Option<Self> {
        let is_wanted = match wish {
            PressureWish::Auto => counted,
            PressureWish::On => true,
            PressureWish::Off => {
                return Some(Self {
                    file: NOTHING.to_owned(),
                    write: None,
                });
            }
            PressureWish::Skip => false,
        };
        let folder = folder.filter(|_| is_wanted)?;
        Some(Self {
            file: folder.join("memory.pressure").display().to_string(),
            write: Some(format!("some {} {WINDOW}\0", threshold.min(WINDOW))),
        })
    }

    /// As variables of the environment; what is to be written is in base64 there.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![(WATCH, self.file.clone())];
        if let Some(write) = &self.write {
            variables.push((WRITE, STANDARD.encode(write)));
        }
        variables
    }
}

/// The file that a service with these variables writes into; nothing where there is nothing to watch.
#[must_use]
pub fn pressure_file<'a>(variables: &'a [(&'static str, String)]) -> Option<&'a str> {
    let value = |wanted| {
        let mut found = variables.iter().filter(|(name, _)| *name == wanted);
        found.next().map(|(_, value)| value.as_str())
    };
    value(WRITE).and_then(|_| value(WATCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_told_where_to_look_and_what_to_write() {
        let folder = Path::new("/sys/fs/cgroup/a.service");
        let told = PressureWatch::new(PressureWish::Auto, true, 200_000, Some(folder)).unwrap();
        let variables = told.variables();
        assert_eq!(variables[0].1, "/sys/fs/cgroup/a.service/memory.pressure");
        // `printf 'some 200000 2000000\0' | base64`
        assert_eq!(variables[1].1, "c29tZSAyMDAwMDAgMjAwMDAwMAA=");
        assert_eq!(pressure_file(&variables), Some(variables[0].1.as_str()));
    }

    #[test]
    fn where_nothing_is_measured_nothing_is_said() {
        let folder = Some(Path::new("/x"));
        let told = |wish, counted, folder| PressureWatch::new(wish, counted, 1, folder);
        assert_eq!(told(PressureWish::Auto, true, None), None);
        assert_eq!(told(PressureWish::Auto, false, folder), None);
        assert_eq!(told(PressureWish::Skip, true, folder), None);
        assert!(told(PressureWish::On, false, folder).is_some());
        let off = told(PressureWish::Off, true, folder).unwrap();
        assert_eq!(
            off.variables(),
            [("MEMORY_PRESSURE_WATCH", "/dev/null".to_owned())]
        );
        assert_eq!(pressure_file(&off.variables()), None);
    }
}
