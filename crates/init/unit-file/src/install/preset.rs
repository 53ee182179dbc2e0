//! Presets: which units a distribution wants enabled.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, InstallError, InstallOptions, Installer, Note, Plan};
use crate::fs::{FileKind, UnitFs, link_destination};
use crate::name::UnitName;

/// Rules that are kept; more than any distribution has.
const MAX_RULES: usize = 10_000;

/// What a preset says about a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresetAction {
    /// Enable it; a template with these instances.
    Enable {
        /// Empty for units that are not templates.
        instances: Vec<Box<str>>,
    },
    /// Disable it.
    Disable,
}

/// Which half of a preset is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PresetMode {
    /// Both.
    #[default]
    Full,
    /// Nothing is disabled.
    EnableOnly,
    /// Nothing is enabled.
    DisableOnly,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Box<str>,
    action: PresetAction,
}

/// Preset rules in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub struct PresetRules {
    rules: Vec<Rule>,
}

impl PresetRules {
    /// Reads `*.preset` files. They are sorted by name; of equal names the first folder's counts.
    pub fn read(fs: &impl UnitFs, folders: &[Box<str>]) -> Self {
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        for folder in folders {
            for (name, kind) in fs.list(folder).unwrap_or_default() {
                if name.ends_with(".preset") && kind != FileKind::Folder {
                    let path = format!("{folder}/{name}");
                    files.entry(name).or_insert(path);
                }
            }
        }
        let mut rules = Self::default();
        for path in files.into_values() {
            let content = fs.read(&path).unwrap_or_default();
            rules.add(&String::from_utf8_lossy(&content));
        }
        rules
    }

    /// Adds the rules of one file.
    pub fn add(&mut self, text: &str) {
        for line in text.lines().map(str::trim) {
            let mut words = line.split_whitespace();
            let (verb, pattern) = (words.next(), words.next());
            let action = match verb {
                Some("enable") => PresetAction::Enable {
                    instances: words.map(Into::into).collect(),
                },
                // Only enabling takes instances; with more words this is a pattern that fits nothing.
                Some("disable") if words.next().is_none() => PresetAction::Disable,
                _ => continue,
            };
            if let Some(pattern) = pattern.filter(|_| self.rules.len() < MAX_RULES) {
                self.rules.push(Rule {
                    pattern: pattern.into(),
                    action,
                });
            }
        }
    }

    /// What the first fitting rule says; a unit that no rule names is enabled.
    #[must_use]
    pub fn action(&self, name: &UnitName) -> PresetAction {
        for rule in &self.rules {
            // A rule for a template that lists instances is about these instances only.
            if let PresetAction::Enable { instances } = &rule.action
                && !instances.is_empty()
                && name.is_instance()
            {
                let template = name.template();
                let fits = template.is_some_and(|template| glob(&rule.pattern, template.as_str()));
                if fits
                    && name
                        .instance()
                        .is_some_and(|own| instances.iter().any(|i| **i == *own))
                {
                    return PresetAction::Enable {
                        instances: Vec::new(),
                    };
                }
                continue;
            }
            if glob(&rule.pattern, name.as_str()) {
                return rule.action.clone();
            }
        }
        PresetAction::Enable {
            instances: Vec::new(),
        }
    }
}

/// Whether a text fits a shell pattern with `*`, `?`, `[a-z]`, `[!a-z]`. Linear in practice: one way
/// back at a time.
#[must_use]
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p + 1, t));
            p += 1;
        } else if let Some(next) = match_one(&pattern, p, text[t]) {
            p = next;
            t += 1;
        } else if let Some((after, from)) = star {
            star = Some((after, from + 1));
            p = after;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The position after the pattern element at `p`, if it matches `c`.
fn match_one(pattern: &[char], p: usize, c: char) -> Option<usize> {
    match *pattern.get(p)? {
        '?' => Some(p + 1),
        '[' => {
            let end = pattern
                .iter()
                .skip(p + 2)
                .position(|c| *c == ']')
                .map(|n| p + 2 + n);
            let Some(end) = end else {
                return (c == '[').then_some(p + 1);
            };
            let set = &pattern[p + 1..end];
            let (negated, set) = match set {
                ['!' | '^', rest @ ..] => (true, rest),
                _ => (false, set),
            };
            let mut hit = false;
            let mut n = 0;
            while n < set.len() {
                if n + 2 < set.len() && set[n + 1] == '-' {
                    hit |= (set[n]..=set[n + 2]).contains(&c);
                    n += 3;
                } else {
                    hit |= set[n] == c;
                    n += 1;
                }
            }
            (hit != negated).then_some(end + 1)
        }
        '\\' => (pattern.get(p + 1) == Some(&c)).then_some(p + 2),
        other => (other == c).then_some(p + 1),
    }
}

impl<F: UnitFs> Installer<'_, F> {
    /// The preset rules of the machine.
    pub fn presets(&self) -> PresetRules {
        PresetRules::read(self.fs(), &self.paths.presets)
    }

    /// Enables and disables units as the presets say.
    ///
    /// # Errors
    /// As for [`Installer::enable`].
    pub fn preset(
        &mut self,
        units: &[UnitName],
        mode: PresetMode,
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        let rules = self.presets();
        self.planned(|installer, plan| {
            let (mut plus, mut minus) = (Vec::new(), Vec::new());
            for name in units {
                installer.sort_by_preset(name, &rules, &mut plus, &mut minus)?;
            }
            installer.carry_out_preset(plus, &minus, mode, options, plan)
        })
    }

    /// Enables and disables every unit as the presets say. Those that cannot be are left alone, and
    /// the plan notes why.
    ///
    /// # Errors
    /// None at present.
    pub fn preset_all(
        &mut self,
        mode: PresetMode,
        options: InstallOptions,
    ) -> Result<Plan, InstallError> {
        let rules = self.presets();
        let names: Vec<UnitName> = self.loader.index().names().cloned().collect();
        self.planned(|installer, plan| {
            let (mut plus, mut minus) = (Vec::new(), Vec::new());
            for name in &names {
                // An alias goes with its unit, a dangling link with nothing.
                if installer.loader.index().alias_of(name).is_some() {
                    continue;
                }
                let sorted = installer.sort_by_preset(name, &rules, &mut plus, &mut minus);
                if let Err(InstallError::Masked { path }) = sorted {
                    match rules.action(name) {
                        PresetAction::Disable if mode != PresetMode::EnableOnly => {
                            plan.notes.push(Note::Masked { path });
                        }
                        PresetAction::Enable { .. } if mode != PresetMode::DisableOnly => {
                            let error = InstallError::Masked { path };
                            plan.notes.push(Note::Refused { error });
                        }
                        PresetAction::Disable | PresetAction::Enable { .. } => {}
                    }
                }
            }
            if mode != PresetMode::EnableOnly {
                installer.remove_links(&minus, options.runtime, plan);
            }
            if mode != PresetMode::DisableOnly {
                for name in &plus {
                    installer.preset_one(name, options, plan);
                }
            }
            installer.drop_detours(plan);
            Ok(())
        })
    }

    /// A link that one unit's preset removes and another's `Also=` makes again can stay.
    fn drop_detours(&self, plan: &mut Plan) {
        let base = self.fs().base();
        let made_again: BTreeSet<Box<str>> = plan
            .changes
            .iter()
            .filter_map(|change| match change {
                Change::Link { path, target } => base
                    .read_link(path)
                    .is_ok_and(|old| link_destination(path, &old) == **target)
                    .then(|| path.clone()),
                Change::Remove { .. } | Change::RemoveFolder { .. } => None,
            })
            .collect();
        plan.changes.retain(|change| match change {
            Change::Link { path, .. } | Change::Remove { path } => !made_again.contains(path),
            Change::RemoveFolder { .. } => true,
        });
    }

    /// Enables one unit of many. One that cannot be enabled stays as it is, and the others go on.
    fn preset_one(&mut self, name: &UnitName, options: InstallOptions, plan: &mut Plan) {
        let Ok(found) = self.discover(name) else {
            return;
        };
        let (overlay, before) = (self.loader.fs().overlay(), plan.clone());
        if let Err(error) = self.apply(vec![found], options, true, plan) {
            self.loader.fs_mut().restore(overlay);
            *plan = before;
            plan.notes.push(Note::Refused { error });
        }
    }

    fn sort_by_preset(
        &mut self,
        name: &UnitName,
        rules: &PresetRules,
        plus: &mut Vec<UnitName>,
        minus: &mut Vec<UnitName>,
    ) -> Result<(), InstallError> {
        // An alias has the presets of its unit.
        let name = &self.discover(name)?.name;
        match rules.action(name) {
            PresetAction::Enable { instances } if !instances.is_empty() && name.is_template() => {
                plus.extend(
                    instances
                        .iter()
                        .filter_map(|instance| name.with_instance(instance).ok()),
                );
            }
            PresetAction::Enable { .. } => plus.push(name.clone()),
            PresetAction::Disable => minus.push(name.clone()),
        }
        Ok(())
    }

    fn carry_out_preset(
        &mut self,
        plus: Vec<UnitName>,
        minus: &[UnitName],
        mode: PresetMode,
        options: InstallOptions,
        plan: &mut Plan,
    ) -> Result<(), InstallError> {
        if mode != PresetMode::EnableOnly {
            self.remove_links(minus, options.runtime, plan);
        }
        if mode != PresetMode::DisableOnly {
            let found = plus
                .iter()
                .filter_map(|name| self.discover(name).ok())
                .collect();
            self.apply(found, options, true, plan)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_are_the_shells() {
        for (pattern, text, fits) in [
            ("*", "a", true),
            ("a*c", "abc", true),
            ("a*c", "abd", false),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("a\\*", "a*", true),
            ("[x", "[x", true),
            ("*a*b*", "xxaxxbxx", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_rule_counts() {
        let mut rules = PresetRules::default();
        rules.add(
            "# c\nenable a.service\ndisable a*\nenable t@.service one two\nnonsense x\ndisable *\n",
        );
        let action = |name: &str| rules.action(&UnitName::new(name).unwrap());
        assert_eq!(
            action("a.service"),
            PresetAction::Enable { instances: vec![] }
        );
        assert_eq!(action("ab.service"), PresetAction::Disable);
        assert_eq!(
            action("t@one.service"),
            PresetAction::Enable { instances: vec![] }
        );
        assert_eq!(action("t@three.service"), PresetAction::Disable);
        assert_eq!(
            PresetRules::default().action(&UnitName::new("x.service").unwrap()),
            PresetAction::Enable { instances: vec![] }
        );
    }

    proptest! {
        #[test]
        fn any_pattern_is_taken_without_panic(pattern in "[a\\[\\]*?!\\\\-]{0,12}", text in "[a\\[*-]{0,12}") {
            let _ = glob(&pattern, &text);
        }
    }
}
