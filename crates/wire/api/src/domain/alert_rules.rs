//! When use of a resource becomes an alert.

use thiserror::Error;

use crate::servicemanager::v5 as wire;

use super::error::{ConvertError, Excerpt, InvalidValue, Problem, each, optional, text};
use super::id::PartitionName;
use super::time::Interval;

/// A share of what there is: 0 to 100, never NaN.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    /// Refuses NaN and what lies outside 0 to 100.
    pub fn new(value: f64) -> Result<Self, InvalidValue> {
        if (0.0..=100.0).contains(&value) {
            // Adding zero turns -0 into 0, so that equal values are also written equally.
            return Ok(Self(value + 0.0));
        }
        let problem = Problem::OutOfRange {
            value: Excerpt::number(value),
            expected: "between 0 and 100",
        };
        Err(InvalidValue::new("percentage", problem))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

// Sound because NaN is refused.
impl Eq for Percent {}

/// Thresholds on one resource: raised at or above the maximum, over when below the minimum, each
/// for the whole duration. The minimum is never above the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertRule<T> {
    duration: Interval,
    min_threshold: T,
    max_threshold: T,
}

/// The lower threshold of an alert rule lies above the upper one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the minimum threshold lies above the maximum threshold")]
pub struct InvertedThresholds;

impl<T: Copy + PartialOrd> AlertRule<T> {
    /// Refuses a minimum above the maximum.
    pub fn new(
        duration: Interval,
        min_threshold: T,
        max_threshold: T,
    ) -> Result<Self, InvertedThresholds> {
        if min_threshold > max_threshold {
            return Err(InvertedThresholds);
        }
        Ok(Self {
            duration,
            min_threshold,
            max_threshold,
        })
    }

    /// How long a threshold must be passed before anything is said.
    pub fn duration(&self) -> Interval {
        self.duration
    }

    /// The alert is over below this.
    pub fn min_threshold(&self) -> T {
        self.min_threshold
    }

    /// The alert is raised at or above this.
    pub fn max_threshold(&self) -> T {
        self.max_threshold
    }
}

/// The rules of one node or one instance. Without a rule there is no alert.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlertRules {
    /// Memory.
    pub ram: Option<AlertRule<Percent>>,
    /// Processors.
    pub cpu: Option<AlertRule<Percent>>,
    /// Partitions, by name.
    pub partitions: Vec<(PartitionName, AlertRule<Percent>)>,
    /// Bytes received.
    pub download: Option<AlertRule<u64>>,
    /// Bytes sent.
    pub upload: Option<AlertRule<u64>>,
}

/// Builds a percentage rule from the fields of `message`. An absent duration is none.
fn percent_rule(
    message: &'static str,
    duration: Option<prost_types::Duration>,
    min: f64,
    max: f64,
) -> Result<AlertRule<Percent>, ConvertError> {
    let duration = optional(message, "duration", duration)?.unwrap_or_default();
    let min = Percent::new(min).map_err(|error| error.at(message, "min_threshold"))?;
    let max = Percent::new(max).map_err(|error| error.at(message, "max_threshold"))?;
    AlertRule::new(duration, min, max).map_err(|_| inverted(message, min.get()))
}

fn inverted(message: &'static str, min: impl ToString) -> ConvertError {
    let problem = Problem::OutOfRange {
        value: Excerpt::number(min),
        expected: "at most the maximum threshold",
    };
    ConvertError::new(message, "min_threshold", problem)
}

impl TryFrom<wire::AlertRulePercents> for AlertRule<Percent> {
    type Error = ConvertError;

    fn try_from(wire: wire::AlertRulePercents) -> Result<Self, ConvertError> {
        percent_rule(
            "AlertRulePercents",
            wire.duration,
            wire.min_threshold,
            wire.max_threshold,
        )
    }
}

impl From<AlertRule<Percent>> for wire::AlertRulePercents {
    fn from(rule: AlertRule<Percent>) -> Self {
        Self {
            duration: Some(rule.duration.into()),
            min_threshold: rule.min_threshold.get(),
            max_threshold: rule.max_threshold.get(),
        }
    }
}

impl TryFrom<wire::AlertRulePoints> for AlertRule<u64> {
    type Error = ConvertError;

    fn try_from(wire: wire::AlertRulePoints) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "AlertRulePoints";
        let duration = optional(MESSAGE, "duration", wire.duration)?.unwrap_or_default();
        Self::new(duration, wire.min_threshold, wire.max_threshold)
            .map_err(|_| inverted(MESSAGE, wire.min_threshold))
    }
}

impl From<AlertRule<u64>> for wire::AlertRulePoints {
    fn from(rule: AlertRule<u64>) -> Self {
        Self {
            duration: Some(rule.duration.into()),
            min_threshold: rule.min_threshold,
            max_threshold: rule.max_threshold,
        }
    }
}

/// A partition's rule on its way between a wire message and a pair.
struct PartitionRule(PartitionName, AlertRule<Percent>);

impl TryFrom<wire::PartitionAlertRule> for PartitionRule {
    type Error = ConvertError;

    fn try_from(wire: wire::PartitionAlertRule) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "PartitionAlertRule";
        let name = text(MESSAGE, "name", &wire.name)?;
        percent_rule(
            MESSAGE,
            wire.duration,
            wire.min_threshold,
            wire.max_threshold,
        )
        .map(|rule| Self(name, rule))
    }
}

impl TryFrom<wire::AlertRules> for AlertRules {
    type Error = ConvertError;

    fn try_from(wire: wire::AlertRules) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "AlertRules";
        let partitions: Vec<PartitionRule> = each(MESSAGE, "partitions", wire.partitions)?;
        Ok(Self {
            ram: optional(MESSAGE, "ram", wire.ram)?,
            cpu: optional(MESSAGE, "cpu", wire.cpu)?,
            partitions: partitions
                .into_iter()
                .map(|rule| (rule.0, rule.1))
                .collect(),
            download: optional(MESSAGE, "download", wire.download)?,
            upload: optional(MESSAGE, "upload", wire.upload)?,
        })
    }
}

impl From<AlertRules> for wire::AlertRules {
    fn from(rules: AlertRules) -> Self {
        let partition =
            |(name, rule): (PartitionName, AlertRule<Percent>)| wire::PartitionAlertRule {
                name: name.into(),
                duration: Some(rule.duration.into()),
                min_threshold: rule.min_threshold.get(),
                max_threshold: rule.max_threshold.get(),
            };
        Self {
            ram: rules.ram.map(Into::into),
            cpu: rules.cpu.map(Into::into),
            partitions: rules.partitions.into_iter().map(partition).collect(),
            download: rules.download.map(Into::into),
            upload: rules.upload.map(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{alert_rules, round_trip};

    #[test]
    fn thresholds_that_are_no_percentage_are_refused_by_name() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1, 100.1] {
            let ram = wire::AlertRulePercents {
                max_threshold: value,
                ..Default::default()
            };
            let wire = wire::AlertRules {
                ram: Some(ram),
                ..Default::default()
            };
            let error = AlertRules::try_from(wire).unwrap_err().to_string();
            assert!(
                error.starts_with("AlertRules.ram.max_threshold: "),
                "{error}"
            );
        }
    }

    #[test]
    fn inverted_thresholds_are_refused() {
        let rule = wire::AlertRulePoints {
            min_threshold: 2,
            max_threshold: 1,
            duration: None,
        };
        let wire = wire::AlertRules {
            upload: Some(rule),
            ..Default::default()
        };
        assert_eq!(
            AlertRules::try_from(wire).unwrap_err().to_string(),
            "AlertRules.upload.min_threshold: \"2\" is not at most the maximum threshold"
        );
    }

    proptest! {
        #[test]
        fn survives_the_wire(rules in alert_rules()) {
            round_trip::<wire::AlertRules, _>(&rules)?;
        }
    }
}
