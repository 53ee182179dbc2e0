//! Which module files to load, in which order.

use std::collections::BTreeMap;
use std::path::Path;

/// Turns module names into module files, dependencies first, each once.
///
/// `dependencies` and `builtin` are the content of the kernel's `modules.dep` and `modules.builtin`.
/// What is built in needs no file. The name of an unknown module is the error.
pub(super) fn load_order(
    dependencies: &str,
    builtin: &str,
    wanted: &[String],
) -> Result<Vec<String>, String> {
    let table: BTreeMap<String, (&str, Vec<&str>)> = dependencies
        .lines()
        .filter_map(|line| {
            let (file, needs) = line.split_once(':')?;
            Some((name_of(file), (file, needs.split_whitespace().collect())))
        })
        .collect();
    let is_builtin = |name: &str| builtin.lines().any(|file| name_of(file) == name);
    let mut order: Vec<String> = Vec::new();
    for name in wanted.iter().map(|name| name.replace('-', "_")) {
        let Some((file, needs)) = table.get(&name) else {
            if is_builtin(&name) {
                continue;
            }
            return Err(name);
        };
        // depmod writes what must be there first last.
        for file in needs.iter().rev().chain([file]) {
            if !order.iter().any(|loaded| loaded == file) {
                order.push((*file).to_owned());
            }
        }
    }
    Ok(order)
}

/// A module's name: its file's, without folder and suffixes, with `_` for `-`.
fn name_of(file: &str) -> String {
    let base = Path::new(file)
        .file_name()
        .map_or(file.into(), |name| name.to_string_lossy());
    let stem = base.split_once(".ko").map_or(&*base, |(stem, _)| stem);
    stem.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "\
kernel/net/8021q/8021q.ko: kernel/net/802/garp.ko kernel/net/802/mrp.ko kernel/net/802/stp.ko kernel/net/llc/llc.ko
kernel/drivers/md/dm-flakey.ko: kernel/drivers/md/dm-mod.ko
kernel/drivers/md/dm-mod.ko:
kernel/net/802/stp.ko.xz: kernel/net/llc/llc.ko
";

    fn order(wanted: &[&str]) -> Result<Vec<String>, String> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        load_order(DEPENDENCIES, "kernel/fs/ext4/ext4.ko\n", &wanted)
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let files = order(&["8021q", "dm-flakey", "dm_mod", "ext4"]).unwrap();
        let names: Vec<String> = files.iter().map(|file| name_of(file)).collect();
        assert_eq!(
            names,
            ["llc", "stp", "mrp", "garp", "8021q", "dm_mod", "dm_flakey"]
        );
    }

    #[test]
    fn an_unknown_module_is_named() {
        assert_eq!(order(&["dm-flakey", "no-such"]), Err("no_such".to_owned()));
    }

    #[test]
    fn both_spellings_name_the_same_module() {
        assert_eq!(order(&["dm-flakey"]), order(&["dm_flakey"]));
    }
}
