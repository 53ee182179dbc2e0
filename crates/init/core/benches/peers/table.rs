//! The table that is printed.

use std::time::Duration;

/// One line: what was measured, by whom, and what was to be reached.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) bare: Option<Figure>,
    pub(crate) systemd: Result<Figure, String>,
    pub(crate) muster: Result<Figure, String>,
    pub(crate) target: Target,
}

/// Something measured, of which less is better.
#[derive(Clone, Copy)]
pub(crate) enum Figure {
    Time(Duration),
    Bytes(u64),
}

/// What Muster is to reach.
pub(crate) struct Target {
    pub(crate) at_most: Limit,
    /// How often it must fit into the peer's figure of the same run.
    pub(crate) times_better: Option<f64>,
}

/// What a figure must not exceed.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// This.
    Of(Figure),
    /// So many times what the same programs take without any manager, in the same run.
    TimesBare(f64),
}

impl Figure {
    fn value(self) -> f64 {
        match self {
            Self::Time(time) => time.as_secs_f64(),
            #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
            Self::Bytes(bytes) => bytes as f64,
        }
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Time(time) if *time < Duration::from_millis(1) => {
                format!("{:.3} ms", time.as_secs_f64() * 1e3)
            }
            Self::Time(time) if *time < Duration::from_millis(10) => {
                format!("{:.2} ms", time.as_secs_f64() * 1e3)
            }
            Self::Time(time) if *time < Duration::from_secs(1) => {
                format!("{:.0} ms", time.as_secs_f64() * 1e3)
            }
            Self::Time(time) => format!("{:.2} s", time.as_secs_f64()),
            Self::Bytes(bytes) if *bytes < 100_000 => format!("{bytes} B"),
            Self::Bytes(_) => format!("{:.1} MB", self.value() / 1e6),
        };
        f.pad(&text)
    }
}

impl Row {
    /// Whether Muster reached what it was to reach; unknown when it, or what it is held against, could not be measured.
    pub(crate) fn met(&self) -> Option<bool> {
        let muster = self.muster.as_ref().ok()?.value();
        let better = match self.target.times_better {
            Some(times) => muster * times <= self.systemd.as_ref().ok()?.value(),
            None => true,
        };
        let most = match self.target.at_most {
            Limit::Of(figure) => figure.value(),
            Limit::TimesBare(times) => times * self.bare?.value(),
        };
        Some(better && muster <= most)
    }

    fn cells(&self) -> [String; 7] {
        let shown = |figure: &Result<Figure, String>| match figure {
            Ok(figure) => figure.to_string(),
            Err(reason) => reason.clone(),
        };
        let ratio = match (&self.systemd, &self.muster) {
            (Ok(systemd), Ok(muster)) => format!("{:.1}x", systemd.value() / muster.value()),
            _ => "-".to_owned(),
        };
        let times = self
            .target
            .times_better
            .map_or_else(String::new, |times| format!(", {times}x"));
        [
            self.what.to_owned(),
            match (self.bare, &self.muster) {
                (Some(bare), Ok(muster)) => {
                    format!("{bare}, {:.2}x", muster.value() / bare.value())
                }
                (Some(bare), Err(_)) => bare.to_string(),
                (None, _) => "-".to_owned(),
            },
            shown(&self.systemd),
            shown(&self.muster),
            ratio,
            match self.target.at_most {
                Limit::Of(figure) => format!("<= {figure}{times}"),
                Limit::TimesBare(most) => format!("<= {most}x bare{times}"),
            },
            match self.met() {
                Some(true) => "yes".to_owned(),
                Some(false) => "NO".to_owned(),
                None => "not measured".to_owned(),
            },
        ]
    }
}

pub(crate) fn print(rows: &[Row]) {
    let heads = [
        "",
        "bare",
        "systemd 252",
        "Muster",
        "ratio",
        "to reach",
        "reached",
    ]
    .map(str::to_owned);
    let lines: Vec<[String; 7]> = std::iter::once(heads)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..7).map(width).collect();
    for (number, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        println!("| {} |", cells.join(" | "));
        if number == 0 {
            println!(
                "|{}|",
                widths
                    .iter()
                    .map(|width| "-".repeat(width + 2))
                    .collect::<Vec<_>>()
                    .join("|")
            );
        }
    }
}
