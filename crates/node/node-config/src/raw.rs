//! The document as it is written, and how it becomes values that cannot be wrong.

use std::collections::BTreeSet;

use muster_api::domain::{AlertRule, AlertRules, Interval, PartitionName, Percent};
use muster_config::{Duration, Problems, Validate};
use semver::Version;

use crate::config::{NodeConfig, ResourceRatios};
use crate::document::Document;
use crate::tolerant::{Whole, tolerant};

/// Unknown keys named per document.
const UNKNOWN_NAMED: usize = 32;

tolerant! {
    /// The whole document.
    struct RawDocument {
        "version" => version: String,
        "node" => node: RawIdentity,
        "nodeGroupSubject" => group: RawIdentity,
        "alertRules" => alert_rules: RawRules,
        "resourceRatios" => ratios: RawRatios,
        "labels" => labels: Vec<String>,
        "priority" => priority: Whole,
    }

    /// Whom something is about.
    struct RawIdentity {
        "codename" => codename: String,
    }

    /// All rules.
    struct RawRules {
        "ram" => ram: RawPercentRule,
        "cpu" => cpu: RawPercentRule,
        "partitions" => partitions: Vec<RawPartitionRule>,
        "download" => download: RawPointRule,
        "upload" => upload: RawPointRule,
    }

    /// A rule about a share of what there is.
    struct RawPercentRule {
        "minTimeout" => min_timeout: Duration,
        "minThreshold" => min_threshold: f64,
        "maxThreshold" => max_threshold: f64,
    }

    /// The same for one partition.
    struct RawPartitionRule {
        "name" => name: String,
        "minTimeout" => min_timeout: Duration,
        "minThreshold" => min_threshold: f64,
        "maxThreshold" => max_threshold: f64,
    }

    /// A rule about an amount.
    struct RawPointRule {
        "minTimeout" => min_timeout: Duration,
        "minThreshold" => min_threshold: Whole,
        "maxThreshold" => max_threshold: Whole,
    }

    /// Shares.
    struct RawRatios {
        "cpu" => cpu: f64,
        "ram" => ram: f64,
        "storage" => storage: f64,
        "state" => state: f64,
    }
}

/// Paths of unknown keys.
#[derive(Default)]
struct Unknown(Vec<String>);

impl Unknown {
    fn note(&mut self, section: &str, keys: Vec<String>) {
        let dot = if section.is_empty() { "" } else { "." };
        let room = UNKNOWN_NAMED.saturating_sub(self.0.len());
        let shown = |key: String| {
            let key: String = key.chars().take(64).flat_map(char::escape_debug).collect();
            format!("{section}{dot}{key}")
        };
        self.0.extend(keys.into_iter().take(room).map(shown));
    }
}

impl Validate for RawDocument {
    type Valid = Document;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Document> {
        let mut unknown = Unknown::default();
        unknown.note("", self.unknown);
        let mut codename = |section: &str, identity: Option<RawIdentity>| {
            let identity = identity?;
            unknown.note(section, identity.unknown);
            // A controller that knows no name writes an empty one.
            identity.codename.filter(|name| !name.is_empty())
        };
        let node = codename("node", self.node);
        let node_type = codename("nodeGroupSubject", self.group);
        let version = self.version.filter(|text| !text.is_empty());
        let version = version.and_then(|text| {
            let parsed = Version::parse(&text);
            parsed
                .map_err(|error| {
                    problems.report(
                        "version",
                        format_args!("must be semantic, as 1.0.0: {error}"),
                    )
                })
                .ok()
        });
        let alert_rules = self.alert_rules.map_or_else(AlertRules::default, |raw| {
            problems.within("alertRules", |problems| rules(raw, problems, &mut unknown))
        });
        let resource_ratios = self.ratios.map_or_else(ResourceRatios::default, |raw| {
            problems.within("resourceRatios", |problems| {
                ratios(raw, problems, &mut unknown)
            })
        });
        let labels = self.labels.unwrap_or_default();
        if labels.iter().any(String::is_empty) {
            problems.report("labels", "must not hold an empty text");
        }
        problems.is_empty().then(|| Document {
            version,
            node,
            node_type,
            config: NodeConfig {
                alert_rules,
                resource_ratios,
                labels: labels.into_iter().collect(),
                priority: self.priority.map_or(0, |it| it.0),
            },
            unknown: unknown.0,
        })
    }
}

fn rules(raw: RawRules, problems: &mut Problems<'_>, unknown: &mut Unknown) -> AlertRules {
    unknown.note("alertRules", raw.unknown);
    let mut percents = |name: &str, raw: Option<RawPercentRule>| {
        let raw = raw?;
        unknown.note(&format!("alertRules.{name}"), raw.unknown);
        let bounds = (raw.min_threshold, raw.max_threshold);
        problems.within(name, |problems| {
            rule(raw.min_timeout, bounds, problems, percent)
        })
    };
    let (ram, cpu) = (percents("ram", raw.ram), percents("cpu", raw.cpu));
    let mut points = |name: &str, raw: Option<RawPointRule>| {
        let raw = raw?;
        unknown.note(&format!("alertRules.{name}"), raw.unknown);
        let bounds = (raw.min_threshold, raw.max_threshold);
        problems.within(name, |problems| {
            rule(
                raw.min_timeout,
                bounds,
                problems,
                |value: Whole| Ok(value.0),
            )
        })
    };
    let (download, upload) = (
        points("download", raw.download),
        points("upload", raw.upload),
    );
    let mut names = BTreeSet::new();
    let mut partitions = Vec::new();
    for (index, raw) in raw.partitions.unwrap_or_default().into_iter().enumerate() {
        let section = format!("partitions[{index}]");
        unknown.note(&format!("alertRules.{section}"), raw.unknown);
        let bounds = (raw.min_threshold, raw.max_threshold);
        problems.within(&section, |problems| {
            let name = partition(raw.name, &mut names, problems);
            let rule = rule(raw.min_timeout, bounds, problems, percent);
            partitions.extend(name.zip(rule));
        });
    }
    AlertRules {
        ram,
        cpu,
        partitions,
        download,
        upload,
    }
}

fn partition(
    name: Option<String>,
    names: &mut BTreeSet<PartitionName>,
    problems: &mut Problems<'_>,
) -> Option<PartitionName> {
    let name = match PartitionName::new(name.unwrap_or_default().as_str()) {
        Ok(name) => name,
        Err(error) => {
            problems.report("name", format_args!("is refused: {error}"));
            return None;
        }
    };
    if !names.insert(name.clone()) {
        problems.report("name", "stands in two rules");
        return None;
    }
    Some(name)
}

fn rule<R, T: Copy + PartialOrd>(
    min_timeout: Option<Duration>,
    (min, max): (Option<R>, Option<R>),
    problems: &mut Problems<'_>,
    convert: impl Fn(R) -> Result<T, String>,
) -> Option<AlertRule<T>> {
    let interval = Interval::try_from(min_timeout.unwrap_or_default().get());
    let interval = interval
        .map_err(|error| problems.report("minTimeout", format_args!("is refused: {error}")))
        .ok();
    let mut threshold = |key: &str, value: Option<R>| match value.map(&convert) {
        Some(Ok(value)) => Some(value),
        Some(Err(reason)) => {
            problems.report(key, reason);
            None
        }
        None => {
            problems.report(key, "must be given");
            None
        }
    };
    let (min, max) = (
        threshold("minThreshold", min),
        threshold("maxThreshold", max),
    );
    let rule = AlertRule::new(interval?, min?, max?);
    rule.map_err(|_| problems.report("minThreshold", "must not be above maxThreshold"))
        .ok()
}

fn percent(value: f64) -> Result<Percent, String> {
    Percent::new(value).map_err(|_| "must be between 0 and 100".to_owned())
}

fn ratios(raw: RawRatios, problems: &mut Problems<'_>, unknown: &mut Unknown) -> ResourceRatios {
    unknown.note("resourceRatios", raw.unknown);
    let mut ratio = |key: &str, value: Option<f64>| {
        percent(value?)
            .map_err(|reason| problems.report(key, reason))
            .ok()
    };
    ResourceRatios {
        cpu: ratio("cpu", raw.cpu),
        ram: ratio("ram", raw.ram),
        storage: ratio("storage", raw.storage),
        state: ratio("state", raw.state),
    }
}
