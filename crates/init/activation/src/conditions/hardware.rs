//! Processors, memory, firmware, power, pressure.

use std::fs;

use muster_unit_file::install::glob;
use muster_unit_file::name::{UnitName, UnitType};
use muster_unit_file::value::number::{parse_permyriad, parse_size};

use super::compare::Operator;
use super::virtualization::Virtualization;
use super::{Check, EvaluateConditionError};

impl Check<'_> {
    pub(super) fn architecture(&self) -> bool {
        let found = self.host.facts.host.architecture.as_deref();
        self.parameter == "native" || found == Some(self.parameter)
    }

    pub(super) fn virtualization(&self) -> bool {
        let found = self.host.virtualization();
        match self.parameter {
            "private-users" => self.has_private_users(),
            word => match muster_unit_file::value::number::parse_boolean(word) {
                Ok(wanted) => wanted == (*found != Virtualization::None),
                Err(_) => found.fits(word),
            },
        }
    }

    /// Whether users here are other users outside.
    fn has_private_users(&self) -> bool {
        let all = |path: &str| {
            let map = self.host.read(path).unwrap_or_default();
            let mut lines = map.lines();
            let first: Vec<&str> = lines.next().unwrap_or("").split_whitespace().collect();
            first == ["0", "0", "4294967295"] && lines.next().is_none()
        };
        let known = self.host.below("/proc/self/uid_map").exists();
        known && !(all("/proc/self/uid_map") && all("/proc/self/gid_map"))
    }

    pub(super) fn memory(&self) -> Result<bool, EvaluateConditionError> {
        let (operator, size) = Operator::split(self.parameter);
        let wanted = parse_size(size.trim(), 1024);
        let wanted = wanted.map_err(|_| self.bad_parameter("a size such as >=1G"))?;
        self.compare(operator, self.memory_size(), wanted)
    }

    fn memory_size(&self) -> u64 {
        let text = self.host.read("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0).saturating_mul(1024)
    }

    pub(super) fn cpus(&self) -> Result<bool, EvaluateConditionError> {
        let (operator, count) = Operator::split(self.parameter);
        let wanted = count.trim().parse::<u64>();
        let wanted = wanted.map_err(|_| self.bad_parameter("a number such as >=2"))?;
        let mask = self.status_field("Cpus_allowed").unwrap_or_default();
        let digits = mask.chars().filter_map(|c| c.to_digit(16));
        let found: u32 = digits.map(u32::count_ones).sum();
        self.compare(operator, found.into(), wanted)
    }

    fn compare(
        &self,
        operator: Option<Operator>,
        found: u64,
        wanted: u64,
    ) -> Result<bool, EvaluateConditionError> {
        let operator = operator.unwrap_or(Operator::GreaterOrEqual);
        let held = operator.accepts(found.cmp(&wanted));
        held.ok_or_else(|| self.bad_parameter("one of < <= = != >= >"))
    }

    /// A line of this process's own status.
    pub(super) fn status_field(&self, name: &str) -> Option<String> {
        let text = self.host.read("/proc/self/status")?;
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key == name).then(|| value.trim().to_owned())
        })
    }

    pub(super) fn cpu_feature(&self) -> bool {
        let wanted = self.parameter.to_ascii_lowercase();
        // The kernel names some of them in another way than the maker does.
        let wanted = match wanted.as_str() {
            "sse3" => "pni",
            "pclmul" => "pclmulqdq",
            "lahf" => "lahf_lm",
            other => other,
        };
        let text = self.host.read("/proc/cpuinfo").unwrap_or_default();
        let lines = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter(|(key, _)| matches!(key.trim(), "flags" | "Features"));
        let mut features = lines.flat_map(|(_, features)| features.split_whitespace());
        features.any(|feature| feature == wanted)
    }

    pub(super) fn firmware(&self) -> Result<bool, EvaluateConditionError> {
        let there = |path| self.host.below(path).exists();
        if let Some(wanted) = argument(self.parameter, "device-tree-compatible") {
            let list = self.host.read("/proc/device-tree/compatible");
            let list = list.unwrap_or_default();
            return Ok(list.split('\0').any(|name| name == wanted));
        }
        if let Some(expression) = argument(self.parameter, "smbios-field") {
            return self.smbios_field(expression);
        }
        match self.parameter {
            "uefi" => Ok(there("/sys/firmware/efi")),
            "device-tree" => Ok(there("/sys/firmware/devicetree")),
            _ => Err(self.bad_parameter(
                "uefi, device-tree, device-tree-compatible(name) or smbios-field(field=value)",
            )),
        }
    }

    fn smbios_field(&self, expression: &str) -> Result<bool, EvaluateConditionError> {
        let bad = || self.bad_parameter("smbios-field(field=value)");
        let end = expression
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .ok_or_else(bad)?;
        let (field, rest) = expression.split_at(end);
        let (operator, wanted) = Operator::split(rest.trim());
        let operator = operator.ok_or_else(bad)?;
        let found = self.host.read(&format!("/sys/class/dmi/id/{field}"));
        let wanted = wanted.trim().trim_matches('"');
        Ok(found.is_some_and(|found| operator.holds_for_texts(found.trim_end(), wanted)))
    }

    pub(super) fn ac_power(&self) -> Result<bool, EvaluateConditionError> {
        Ok(self.boolean()? == self.is_on_ac_power())
    }

    /// Whether some mains supply is on. A machine without any has no battery that could run out.
    fn is_on_ac_power(&self) -> bool {
        let folder = self.host.below("/sys/class/power_supply");
        let Ok(supplies) = fs::read_dir(folder) else {
            return true;
        };
        let mut found_offline = false;
        for supply in supplies.filter_map(Result::ok) {
            let read = |name: &str| {
                crate::files::read_text(&supply.path().join(name), 4096).unwrap_or_default()
            };
            if read("scope").trim() == "Device" || !matches!(read("type").trim(), "Mains" | "USB") {
                continue;
            }
            match read("online").trim() {
                "1" => return true,
                "0" => found_offline = true,
                _ => {}
            }
        }
        !found_offline
    }

    /// Whether so little is waited for a resource: `[slice:]PERCENT[/10s|/1min|/5min]`.
    pub(super) fn pressure(&self, resource: &str) -> Result<bool, EvaluateConditionError> {
        let bad = || self.bad_parameter("[slice:]percentage[/10s|1min|5min]");
        let (slice, limit) = match self.parameter.rsplit_once(':') {
            Some((slice, limit)) => (Some(slice.trim()), limit),
            None => (None, self.parameter),
        };
        let (percent, window) = match limit.split_once('/') {
            Some((percent, window)) => (percent.trim(), window.trim()),
            None => (limit.trim(), "5min"),
        };
        let average = match window {
            "10s" | "10sec" => "avg10",
            "1min" | "60s" => "avg60",
            "5min" | "300s" => "avg300",
            _ => return Err(bad()),
        };
        let limit = parse_permyriad(percent, true).map_err(|_| bad())?;
        let text = match slice {
            None => self.host.read(&format!("/proc/pressure/{resource}")),
            Some(slice) => {
                let slice = UnitName::new(slice).map_err(|_| bad())?;
                if slice.unit_type() != UnitType::Slice || !slice.is_valid_slice() {
                    return Err(bad());
                }
                self.slice_pressure(&slice, resource)
            }
        };
        // A kernel that does not measure has nothing against it.
        let Some(text) = text else {
            return Ok(true);
        };
        Ok(average_of(&text, average).is_none_or(|found| found <= limit.0))
    }

    fn slice_pressure(&self, slice: &UnitName, resource: &str) -> Option<String> {
        let mut place = self.host.facts.cgroup_root.clone()?;
        // foo-bar.slice lies in foo.slice.
        let stem = slice.stem();
        if stem != "-" {
            for (end, _) in stem.match_indices('-') {
                place.push(format!("{}.slice", &stem[..end]));
            }
            place.push(slice.as_str());
        }
        let file = place.join(format!("{resource}.pressure"));
        crate::files::read_text(&file, 4096).ok()
    }
}

/// The average of the line `some avg10=0.12 avg60=...`, in hundredths of a percent.
fn average_of(text: &str, average: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let value = line.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=')?;
        (key == average).then_some(value)
    })?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let hundredths = format!("{fraction:0<2}");
    let hundredths: u32 = hundredths.get(..2)?.parse().ok()?;
    whole
        .parse::<u32>()
        .ok()?
        .checked_mul(100)?
        .checked_add(hundredths)
}

/// The argument of `name(argument)`.
fn argument<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?
        .strip_prefix('(')?
        .strip_suffix(')')
}

impl Check<'_> {
    pub(super) fn host(&self) -> bool {
        let facts = &self.host.facts.host;
        let wanted = self.parameter;
        let as_id = wanted.replace('-', "");
        let is_id = as_id.len() == 32 && as_id.bytes().all(|b| b.is_ascii_hexdigit());
        if is_id {
            let id = facts.machine_id.as_deref();
            return id.is_some_and(|id| id.eq_ignore_ascii_case(&as_id));
        }
        let name = facts.hostname.as_deref();
        name.is_some_and(|name| glob(&wanted.to_lowercase(), &name.to_lowercase()))
    }
}
