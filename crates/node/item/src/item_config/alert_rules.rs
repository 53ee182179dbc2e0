//! Rules for alerts, as an item writes them.

use muster_api::domain::{AlertRule, AlertRules, Interval, Percent};

use crate::read::{At, ReadDocumentError};

pub(super) fn read(at: &At<'_>) -> Result<AlertRules, ReadDocumentError> {
    Ok(AlertRules {
        ram: at.optional("ram", |at| rule(&at, percent))?,
        cpu: at.optional("cpu", |at| rule(&at, percent))?,
        partitions: at.each("partitions", |at| {
            Ok((at.required("name")?.parse()?, rule(&at, percent)?))
        })?,
        download: at.optional("download", |at| rule(&at, |at| at.unsigned()))?,
        upload: at.optional("upload", |at| rule(&at, |at| at.unsigned()))?,
    })
}

fn rule<T: Copy + PartialOrd>(
    at: &At<'_>,
    threshold: impl Fn(&At<'_>) -> Result<T, ReadDocumentError>,
) -> Result<AlertRule<T>, ReadDocumentError> {
    let duration = match at.field("minTimeout")? {
        Some(at) => Interval::try_from(at.duration()?)
            .map_err(|error| at.invalid(format_args!("is refused ({error})")))?,
        None => Interval::default(),
    };
    let min = threshold(&at.required("minThreshold")?)?;
    let max = threshold(&at.required("maxThreshold")?)?;
    AlertRule::new(duration, min, max)
        .map_err(|error| at.invalid(format_args!("is refused ({error})")))
}

fn percent(at: &At<'_>) -> Result<Percent, ReadDocumentError> {
    Percent::new(at.number()?).map_err(|error| at.invalid(format_args!("is refused ({error})")))
}
