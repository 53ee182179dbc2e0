//! A bar for each item and a line for each instance, on the terminal.

use std::collections::BTreeMap;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::super::facts::{InstanceFacts, ItemFacts, Listed as _};
use super::seen::Seen;
use crate::text::shown;

/// More do not fit on a screen; the last line counts all of them.
const MOST: usize = 16;

/// Drawn on standard error, and left standing at the end.
pub(super) struct Bars {
    all: MultiProgress,
    items: BTreeMap<String, ProgressBar>,
    instances: BTreeMap<String, ProgressBar>,
    sum: ProgressBar,
}

impl Bars {
    pub(super) fn new() -> Self {
        let all = MultiProgress::new();
        let sum = all.add(ProgressBar::new(0));
        sum.set_style(style(
            "{prefix:32!} [{bar:24}] {pos} of {len} active, {msg}",
        ));
        sum.set_prefix("instances");
        Self {
            all,
            items: BTreeMap::new(),
            instances: BTreeMap::new(),
            sum,
        }
    }

    pub(super) fn say(&self, news: &[String]) {
        for line in news {
            // A terminal that is gone has nobody to tell it to.
            let _ = self.all.println(line);
        }
    }

    pub(super) fn show(&mut self, seen: &Seen) {
        for item in seen.items() {
            if let Some(bar) = self.bar_of_item(item) {
                bar.set_length(item.total_size);
                bar.set_position(item.downloaded);
                bar.set_message(shown(&item.state));
                if matches!(item.state.as_str(), "installed" | "failed" | "removed") {
                    bar.abandon();
                }
            }
        }
        for instance in seen.instances() {
            if let Some(bar) = self.bar_of_instance(instance) {
                let node = instance.node.as_deref().unwrap_or("-");
                bar.set_message(shown(&format!("{:12} {node}", instance.state)));
            }
        }
        let all = seen.instances().count();
        self.sum.set_length(u64::try_from(all).unwrap_or(u64::MAX));
        self.sum
            .set_position(u64::try_from(seen.active()).unwrap_or(u64::MAX));
        self.sum.set_message(shown(seen.step()));
        if seen.is_over() {
            self.finish();
        }
    }

    fn finish(&self) {
        let bars = self.items.values().chain(self.instances.values());
        bars.chain([&self.sum]).for_each(ProgressBar::abandon);
    }

    fn bar_of_item(&mut self, item: &ItemFacts) -> Option<&ProgressBar> {
        let key = item.key();
        if !self.items.contains_key(&key) {
            if self.items.len() >= MOST {
                return None;
            }
            let before = self.items.len();
            let bar = self.all.insert(before, ProgressBar::new(item.total_size));
            bar.set_style(style(
                "{prefix:32!} [{bar:24}] {binary_bytes:>11} of {binary_total_bytes:11} {binary_bytes_per_sec:>13} {msg}",
            ));
            bar.set_prefix(shown(&format!("{} {}", item.id, item.version)));
            self.items.insert(key.clone(), bar);
        }
        self.items.get(&key)
    }

    fn bar_of_instance(&mut self, instance: &InstanceFacts) -> Option<&ProgressBar> {
        if !self.instances.contains_key(&instance.name) {
            if self.instances.len() >= MOST {
                return None;
            }
            let before = self.items.len() + self.instances.len();
            let bar = self.all.insert(before, ProgressBar::new_spinner());
            bar.set_style(style("{prefix:32!} {msg}"));
            bar.set_prefix(shown(&instance.name));
            self.instances.insert(instance.name.clone(), bar);
        }
        self.instances.get(&instance.name)
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.finish();
    }
}

fn style(template: &'static str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the templates are written here")
        .progress_chars("=> ")
}
