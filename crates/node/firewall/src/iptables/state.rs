//! Reading back what the kernel has.

use std::net::Ipv4Addr;

use crate::model::{Amounts, Counters, Installed};
use crate::names::{InstanceId, LinkName};
use crate::policy::NetworkPolicy;

/// Chains of others, each with a jump to `MUSTER-` and its own name.
pub(super) const HOOKS: [(&str, &str); 4] = [
    ("filter", "FORWARD"),
    ("filter", "INPUT"),
    ("filter", "OUTPUT"),
    ("nat", "POSTROUTING"),
];

const PREFIX: &str = "MUSTER-";

/// Whether a chain is one that the script makes.
pub(super) fn is_ours(chain: &str) -> bool {
    chain.starts_with(PREFIX)
}

/// Reads the output of `iptables-save`. The error is the line that Muster did not write.
pub(super) fn installed(saved: &str) -> Result<Installed, String> {
    let mut installed = Installed {
        missing_hooks: HOOKS.iter().map(|(_, chain)| *chain).collect(),
        ..Installed::default()
    };
    let mut table = "";
    for line in saved.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if table == "filter" && line.starts_with(":MUSTER-FORWARD ") {
            installed.founded = true;
        } else if let Some(rule) = line.strip_prefix("-A ") {
            let hook = |(of, chain): &&(&str, &str)| {
                *of == table && rule == format!("{chain} -j {PREFIX}{chain}")
            };
            if let Some((_, chain)) = HOOKS.iter().find(hook) {
                installed.missing_hooks.retain(|missing| missing != chain);
            } else if table == "filter" {
                note(&mut installed, rule)
                    .ok_or_else(|| line.chars().take(200).collect::<String>())?;
            }
        }
    }
    Ok(installed)
}

/// Takes a rule in, if it says something; `None` if it should and does not.
fn note(installed: &mut Installed, rule: &str) -> Option<()> {
    let words = words(rule);
    let is_jump = |mark: &str| words.iter().any(|word| word == mark);
    match words.first().map(String::as_str) {
        Some("MUSTER-FROM") => {
            let bridge = LinkName::new(after(&words, "-i")?).ok()?;
            let network = NetworkPolicy::from_record(bridge, after(&words, "--comment")?)?;
            installed.networks.insert(network.bridge().clone(), network);
        }
        Some("MUSTER-LEAVE") if is_jump("-g") => {
            let (instance, address) = commented(&words, "-s")?;
            installed.instances.insert(instance, address);
        }
        Some("MUSTER-DOWN") if is_jump("-d") => {
            let (instance, address) = commented(&words, "-d")?;
            installed.meters.insert(instance, address);
        }
        _ => {}
    }
    Some(())
}

fn commented(words: &[String], field: &str) -> Option<(InstanceId, Ipv4Addr)> {
    let address = after(words, field)?.strip_suffix("/32")?.parse().ok()?;
    Some((InstanceId::new(after(words, "--comment")?).ok()?, address))
}

fn after<'a>(words: &'a [String], option: &str) -> Option<&'a str> {
    let position = words.iter().position(|word| word == option)?;
    words.get(position + 1).map(String::as_str)
}

/// Splits at spaces outside of quotes; what Muster writes has no backslashes.
fn words(rule: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in rule.chars() {
        match character {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("there is always one").push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Reads the output of `iptables-save -c`.
pub(super) fn counters(saved: &str) -> Counters {
    let mut counters = Counters::default();
    for line in saved.lines() {
        let Some((bytes, rule)) = counted(line) else {
            continue;
        };
        let words = words(rule);
        let (Some(chain), Some(comment)) = (words.first(), after(&words, "--comment")) else {
            continue;
        };
        let kind = chain.strip_prefix(PREFIX).unwrap_or_default();
        let (direction, amounts): (&str, &mut Amounts) = match (kind.split_once('-'), comment) {
            (None, "system") => (kind, &mut counters.system),
            (Some((direction, tag)), "counted") => (
                direction,
                counters.instances.entry(tag.to_owned()).or_default(),
            ),
            _ => continue,
        };
        match direction {
            "D" | "DOWN" => amounts.download = bytes,
            "U" | "UP" => amounts.upload = bytes,
            _ => {}
        }
    }
    counters
}

/// `[packets:bytes] -A rule`
fn counted(line: &str) -> Option<(u64, &str)> {
    let (counts, rule) = line.strip_prefix('[')?.split_once("] -A ")?;
    Some((counts.split_once(':')?.1.parse().ok()?, rule))
}

#[cfg(test)]
mod tests;
