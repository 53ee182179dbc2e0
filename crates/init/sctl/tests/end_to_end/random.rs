//! Random commands on random roots: the links must be those that the real `systemctl` makes.

use crate::common::{Outcome, Root, have_real_tools, run};

const ROOTS: u64 = 30;
const COMMANDS: usize = 8;

/// Numbers that are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let high = usize::try_from(self.0 >> 33).expect("31 bits fit");
        high % limit
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const UNITS: [&str; 8] = [
    "a.service",
    "b.service",
    "c.service",
    "a.socket",
    "t@.service",
    "u@.service",
    "m.target",
    "n.target",
];

/// Names that commands are given beside those.
const OTHERS: [&str; 6] = [
    "t@x.service",
    "t@y.service",
    "u@x.service",
    "vendor.service",
    "masked.service",
    "gone.service",
];

fn install_section(unit: &str, chance: &mut Chance) -> String {
    let targets = ["m.target", "n.target", "gone.target"];
    let (template, suffix) = (
        unit.contains('@'),
        unit.rsplit('.').next().unwrap_or_default(),
    );
    let mut lines = String::new();
    if chance.percent(60) {
        lines += &format!(
            "WantedBy={} {}\n",
            chance.pick(&targets),
            chance.pick(&targets)
        );
    }
    if chance.percent(25) {
        lines += &format!("RequiredBy={}\n", chance.pick(&targets[..2]));
    }
    if chance.percent(30) && !template {
        lines += &format!("Alias={}.{suffix}\n", chance.pick(&["x", "y"]));
    }
    if chance.percent(25) {
        lines += &format!("Also={} {}\n", chance.pick(&UNITS), chance.pick(&OTHERS));
    }
    if chance.percent(50) && template {
        lines += "DefaultInstance=i\n";
    }
    if lines.is_empty() {
        lines
    } else {
        format!("[Install]\n{lines}")
    }
}

fn random_root(seed: u64) -> Root {
    let mut chance = Chance(seed);
    let root = Root::new();
    std::fs::create_dir_all(root.at("etc/systemd/system")).unwrap();
    for unit in UNITS {
        let body = match unit.rsplit('.').next() {
            Some("service") => "[Service]\nExecStart=/bin/true\n",
            Some("socket") => "[Socket]\nListenStream=/run/x\n",
            _ => "[Unit]\nDescription=x\n",
        };
        let folder = chance.pick(&["lib", "lib", "lib", "etc"]);
        let text = format!("{body}{}", install_section(unit, &mut chance));
        root.write(&format!("{folder}/systemd/system/{unit}"), &text);
    }
    if chance.percent(50) && root.at("lib/systemd/system/b.service").exists() {
        root.link("lib/systemd/system/vendor.service", "b.service");
        root.link(
            "lib/systemd/system/m.target.wants/b.service",
            "../b.service",
        );
    }
    root.link("lib/systemd/system/masked.service", "/dev/null");
    let mut presets = String::new();
    for _ in 0..chance.below(4) {
        let verb = chance.pick(&["enable", "disable"]);
        let pattern = chance.pick(&["a.*", "b*", "*.socket", "t@.service", "t@.service x y", "*"]);
        presets += &format!("{verb} {pattern}\n");
    }
    root.write("lib/systemd/system-preset/1.preset", &presets);
    root
}

fn random_command(chance: &mut Chance) -> Vec<&'static str> {
    let verb = chance.pick(&[
        "enable",
        "enable",
        "enable",
        "disable",
        "disable",
        "reenable",
        "preset",
        "preset-all",
        "mask",
        "unmask",
        "revert",
        "add-wants",
        "list-unit-files",
    ]);
    let mut words = vec![verb];
    if verb == "list-unit-files" {
        return words;
    }
    if chance.percent(10) {
        words.push("--runtime");
    }
    if verb == "add-wants" {
        words.push(chance.pick(&["m.target", "n.target"]));
    }
    // systemctl 252 enables the template when it is asked to reenable an instance, and takes the masks
    // of instances away when their template is disabled. It does not revert a vendor's alias.
    if verb != "preset-all" {
        let pool: Vec<&str> = UNITS.iter().chain(&OTHERS).copied().collect();
        let usable: Vec<&str> = pool
            .into_iter()
            .filter(|name| match verb {
                "reenable" | "mask" => !name.contains('@'),
                "revert" => *name != "vendor.service",
                _ => true,
            })
            .collect();
        words.push(chance.pick(&usable));
        if chance.percent(30) {
            words.push(chance.pick(&usable));
        }
    }
    words
}

/// After a failure systemctl may have made some of the links, sctl none; and which of two units gets
/// an alias that both want is chance in systemctl.
fn is_comparable(real: &Outcome, own: &Outcome) -> bool {
    let both_failed = real.code == 1 && own.code == 1;
    let rivals = real.stderr.contains("already exists") || own.stderr.contains("already exists");
    !both_failed && !rivals
}

#[test]
fn random_commands_leave_the_same_links() {
    if !have_real_tools() {
        println!(
            "random_commands_leave_the_same_links: skipped, systemd 252's tools are not installed"
        );
        return;
    }
    let mut compared = 0;
    for seed in 0..ROOTS {
        let (theirs, ours) = (random_root(seed), random_root(seed));
        let mut chance = Chance(seed ^ 0x5eed);
        let mut history = Vec::new();
        for _ in 0..COMMANDS {
            let words = random_command(&mut chance);
            history.push(words.join(" "));
            let folder = format!("--root={}", theirs.path().display());
            let mut all = vec![folder.as_str()];
            all.extend(&words);
            let real = theirs.hide(run("systemctl", &all, theirs.path()));
            let own = ours.sctl(&words);
            if !is_comparable(&real, &own) {
                ours.copy_changes_of(&theirs);
                continue;
            }
            compared += 1;
            let context = format!("root {seed}, {history:?}: {real:?} became {own:?}");
            assert_eq!(
                (real.code, &real.stdout),
                (own.code, &own.stdout),
                "{context}"
            );
            assert_eq!(theirs.tree(), ours.tree(), "{context}");
        }
    }
    assert!(compared > 150, "only {compared} commands could be compared");
    println!("{compared} random commands compared");
}
