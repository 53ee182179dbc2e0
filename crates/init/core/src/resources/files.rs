//! File systems by their names.

use muster_cgroup::{FileFilter, FileLayout, FileSystems, Unapplied};
use muster_unit_file::config::UnitConfig;

use super::Asked;

const SETTING: &str = "RestrictFileSystems";

/// The filter that a unit asks for, if it asks for one. What it has to know of the kernel is found out only then.
pub(super) fn filter(
    config: &UnitConfig,
    layout: impl FnOnce() -> Result<FileLayout, String>,
    asked: &mut Asked,
) {
    let stated = &config.exec.sandbox.restrict_file_systems;
    let Some(is_allow_list) = stated.allow else {
        return;
    };
    let mut unapplied = |reason: String| {
        asked.unapplied.push(Unapplied {
            setting: SETTING,
            reason,
        });
    };
    let mut listed = FileSystems::default();
    for rule in &stated.rules {
        let done = match rule.removed {
            true => listed.remove(&rule.name),
            false => listed.add(&rule.name),
        };
        if let Err(error) = done {
            unapplied(error.to_string());
        }
    }
    // Nothing is refused then.
    if listed.is_empty() && !is_allow_list {
        return;
    }
    match layout() {
        Ok(layout) => {
            asked.resources.files = Some(FileFilter {
                is_allow_list,
                listed,
                layout,
            });
        }
        Err(reason) => unapplied(reason),
    }
}

#[cfg(test)]
mod tests {
    use muster_unit_file::fs::MemoryFs;
    use muster_unit_file::load::{Loader, SearchPath};
    use muster_unit_file::name::UnitName;
    use muster_unit_file::specifier::HostFacts;

    use super::*;

    const LAYOUT: FileLayout = FileLayout {
        function: 1,
        inode: 2,
        super_block: 3,
        magic: 4,
    };
    const TMPFS: u32 = 0x0102_1994;
    const EXT4: u32 = 0xef53;
    const PROC: u32 = 0x9fa0;

    fn asked_of(lines: &str, layout: Result<FileLayout, String>) -> Asked {
        let mut fs = MemoryFs::default();
        fs.write("/u/x.service", format!("[Service]\n{lines}\n"));
        let mut loader = Loader::new(fs, SearchPath::new(["/u"]), HostFacts::default());
        let config = loader.load(&UnitName::new("x.service").unwrap()).config;
        let mut asked = Asked::default();
        filter(&config, || layout, &mut asked);
        asked
    }

    /// Whether files on tmpfs, ext4 and proc may be opened.
    fn allowed(lines: &str) -> Option<[bool; 3]> {
        let asked = asked_of(lines, Ok(LAYOUT));
        assert!(asked.unapplied.is_empty(), "{:?}", asked.unapplied);
        let filter = asked.resources.files?;
        Some([TMPFS, EXT4, PROC].map(|number| filter.allows(number)))
    }

    #[test]
    fn lines_accumulate_and_the_first_decides_what_they_mean() {
        assert_eq!(allowed(""), None);
        let tmpfs = "RestrictFileSystems=tmpfs";
        assert_eq!(allowed(tmpfs), Some([true, false, false]));
        let more = format!("{tmpfs}\nRestrictFileSystems=@common-block proc");
        assert_eq!(allowed(&more), Some([true; 3]));
        let less = format!("{more}\nRestrictFileSystems=~ext4 tmpfs");
        assert_eq!(allowed(&less), Some([false, false, true]));
        let deny = "RestrictFileSystems=~@temporary ext4";
        assert_eq!(allowed(deny), Some([false, false, true]));
        let fewer = format!("{deny}\nRestrictFileSystems=ext4");
        assert_eq!(allowed(&fewer), Some([false, true, true]));
        assert_eq!(allowed(&format!("{more}\nRestrictFileSystems=")), None);
        assert_eq!(
            allowed("RestrictFileSystems=~proc\nRestrictFileSystems=proc"),
            None
        );
        let none_left = format!("{tmpfs}\nRestrictFileSystems=~tmpfs");
        assert_eq!(allowed(&none_left), Some([false; 3]));
    }

    #[test]
    fn unknown_names_are_said_and_passed_over() {
        let asked = asked_of("RestrictFileSystems=nonsense tmpfs @nothing", Ok(LAYOUT));
        let said: Vec<String> = asked.unapplied.iter().map(ToString::to_string).collect();
        let expected = ["nonsense", "@nothing"]
            .map(|name| format!("RestrictFileSystems: there is no file system {name}"));
        assert_eq!(said, expected);
        let filter = asked.resources.files.unwrap();
        assert!(filter.allows(TMPFS) && !filter.allows(EXT4));
    }

    #[test]
    fn a_kernel_without_it_is_named() {
        let lacks = Err("the kernel has no BPF LSM".to_owned());
        let asked = asked_of("RestrictFileSystems=tmpfs", lacks.clone());
        assert_eq!(asked.resources.files, None);
        let said = asked.unapplied[0].to_string();
        assert_eq!(said, "RestrictFileSystems: the kernel has no BPF LSM");
        assert!(asked_of("Nice=1", lacks).unapplied.is_empty());
    }
}
