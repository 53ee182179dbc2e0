//! What Debian's packages ship, listed and preset by `sctl` and by the real `systemctl`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::common::{Root, have_real_tools, run};

/// Of two units that claim one alias only one is enabled; which one is chance in systemctl, so one of
/// them is left out.
const PRESETS: &str = "\
disable a*\ndisable greetd.service\nenable *.timer\nenable *d.service\ndisable *@.service\nenable s*\ndisable *.socket\nenable n*\ndisable *\n";

/// All shipped files in one root, `None` if the corpus is not on this machine.
fn corpus_root() -> Option<Root> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../../shared/corpus/debian-units.tar.gz");
    let file = std::fs::File::open(path).ok()?;
    let root = Root::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let Some((folder, rest)) = path.split_once("/systemd/system/") else {
            continue;
        };
        // Several packages may ship a name; the first one counts. What goes to /etc is the user's.
        let place = root.at("lib/systemd/system").join(rest);
        if rest.is_empty() || folder.ends_with("/etc") || std::fs::symlink_metadata(&place).is_ok()
        {
            continue;
        }
        if !entry.header().entry_type().is_dir() {
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            entry.unpack(&place).unwrap();
        }
    }
    // A link that leads nowhere makes systemctl 252 give up on all units.
    remove_dangling(&root, &root.at("lib/systemd/system"));
    std::fs::create_dir_all(root.at("etc/systemd/system")).unwrap();
    root.write("lib/systemd/system-preset/50-x.preset", PRESETS);
    Some(root)
}

fn remove_dangling(root: &Root, folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(target) = std::fs::read_link(&path) else {
            continue;
        };
        let inside = match target.strip_prefix("/") {
            Ok(rest) => root.path().join(rest),
            Err(_) => path.parent().unwrap().join(&target),
        };
        if target != Path::new("/dev/null") && !inside.exists() {
            std::fs::remove_file(&path).unwrap();
        }
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn lists_and_presets_of_all_shipped_units() {
    let (Some(theirs), Some(ours)) = (corpus_root(), corpus_root()) else {
        println!(
            "lists_and_presets_of_all_shipped_units: skipped, the corpus is not on this machine"
        );
        return;
    };
    if !have_real_tools() {
        println!(
            "lists_and_presets_of_all_shipped_units: skipped, systemd 252's tools are not installed"
        );
        return;
    }
    let mut presets_done = false;
    for words in [
        &["list-unit-files"][..],
        &["preset-all"],
        &["list-unit-files"],
        &["preset-all"],
        &["list-unit-files", "-o", "json", "--state=enabled,indirect"],
    ] {
        let root = format!("--root={}", theirs.path().display());
        let mut all = vec![root.as_str()];
        all.extend(words);
        let begin = Instant::now();
        let real = theirs.hide(run("systemctl", &all, theirs.path()));
        let middle = Instant::now();
        let own = ours.sctl(words);
        println!(
            "{words:?}: systemctl {:?}, sctl {:?}",
            middle - begin,
            middle.elapsed()
        );
        // Permission bits of files do not matter to what is enabled.
        let lines = |text: &str| -> Vec<String> {
            let mut lines = sorted(text);
            lines.retain(|line| !line.contains("is marked executable"));
            // systemctl says of some masked units twice that they are masked.
            lines.retain(|line| !line.ends_with("is masked, ignoring."));
            lines
        };
        let differing = |a: &str, b: &str| -> Vec<String> {
            let (a, b) = (lines(a), lines(b));
            let only_a = a
                .iter()
                .filter(|line| !b.contains(line))
                .map(|l| format!("- {l}"));
            let only_b = b
                .iter()
                .filter(|line| !a.contains(line))
                .map(|l| format!("+ {l}"));
            only_a.chain(only_b).collect()
        };
        assert_eq!(
            differing(&real.stdout, &own.stdout),
            Vec::<String>::new(),
            "{words:?}"
        );
        assert!(real.stdout == own.stdout, "{words:?}: another order");
        // The second time systemctl removes some links and makes them again; sctl lets them be.
        if presets_done && words[0] == "preset-all" {
            assert!(
                !own.stderr.contains("symlink") && !own.stderr.contains("Removed"),
                "{own:?}"
            );
            assert_eq!((real.code, theirs.tree()), (own.code, ours.tree()));
            continue;
        }
        presets_done |= words[0] == "preset-all";
        assert_eq!(
            differing(&real.stderr, &own.stderr),
            Vec::<String>::new(),
            "{words:?}"
        );
        assert_eq!(real.code, own.code, "{words:?}");
        assert_eq!(theirs.tree(), ours.tree(), "{words:?}");
    }
    assert!(
        ours.tree().len() > 200,
        "the presets enabled next to nothing"
    );
}
