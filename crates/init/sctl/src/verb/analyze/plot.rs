//! The start of the machine as a picture: one bar per unit, over time.

use muster_control::manager::MachineStatus;

use super::times::UnitTimes;
use crate::render::time::span;

/// Pixels for a second.
const SCALE: f64 = 100.0;
const ROW: f64 = 20.0;
const TOP: f64 = 80.0;
const LEFT: f64 = 20.0;
/// Names of units that come up at the very end need room behind their bars.
const RIGHT: f64 = 360.0;
/// A line every so many microseconds; coarser for starts that take long, so that there are never many.
const STEPS: [u64; 6] = [
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    30_000_000,
    300_000_000,
];

const STYLE: &str = "\
  rect.back { fill: #ffffff; }
  rect.activating { fill: #d95f02; }
  rect.active { fill: #a6cee3; }
  rect.deactivating { fill: #7570b3; }
  rect.manager { fill: #66a61e; }
  rect.loading { fill: #1b9e77; }
  line { stroke: #dddddd; stroke-width: 1; }
  line.second { stroke: #999999; }
  text { font-family: sans-serif; font-size: 13px; }
  text.axis { font-size: 10px; fill: #666666; }
";

struct Picture {
    text: String,
    origin: u64,
}

impl Picture {
    fn x(&self, micros: u64) -> f64 {
        LEFT + pixels(micros.saturating_sub(self.origin))
    }

    fn bar(&mut self, class: &str, row: f64, from: u64, to: u64) {
        if from == 0 || to <= from {
            return;
        }
        let (x, width) = (self.x(from), (self.x(to) - self.x(from)).max(0.5));
        let (y, height) = (TOP + row * ROW, ROW - 2.0);
        self.text.push_str(&format!(
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\"/>\n"
        ));
    }

    fn label(&mut self, row: f64, at: u64, label: &str) {
        let (x, y) = (self.x(at) + 4.0, TOP + row * ROW + 14.0);
        let label = escaped(label);
        self.text
            .push_str(&format!("<text x=\"{x:.2}\" y=\"{y:.1}\">{label}</text>\n"));
    }

    fn grid(&mut self, end: u64, rows: f64) {
        let long = end.saturating_sub(self.origin);
        let last = STEPS[STEPS.len() - 1];
        let step = STEPS
            .into_iter()
            .find(|step| long / step <= 200)
            .unwrap_or(last);
        let (from, to) = (TOP - 6.0, TOP + rows * ROW);
        for n in 0..=(long / step).min(2000) {
            let at = n * step;
            let x = self.x(self.origin + at);
            let is_second = at % 1_000_000 == 0;
            let class = if is_second { " class=\"second\"" } else { "" };
            self.text.push_str(&format!(
                "<line{class} x1=\"{x:.2}\" y1=\"{from:.1}\" x2=\"{x:.2}\" y2=\"{to:.1}\"/>\n"
            ));
            if is_second || long < 1_000_000 {
                let (y, label) = (from - 4.0, span(at));
                self.text.push_str(&format!(
                    "<text class=\"axis\" x=\"{x:.2}\" y=\"{y:.1}\">{label}</text>\n"
                ));
            }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a picture is exact to a pixel, not to a microsecond in a year"
)]
fn pixels(micros: u64) -> f64 {
    micros as f64 / 1_000_000.0 * SCALE
}

/// A text inside an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The picture.
pub(super) fn svg(machine: &MachineStatus, units: &[UnitTimes], host: &str) -> String {
    let origin = machine.userspace.monotonic;
    let end = if machine.finish.monotonic > 0 {
        machine.finish.monotonic
    } else {
        units.iter().map(UnitTimes::up).max().unwrap_or(origin)
    };
    let mut shown: Vec<&UnitTimes> = units
        .iter()
        .filter(|unit| unit.activating >= origin.max(1) && unit.activating <= end)
        .collect();
    shown.sort_by(|a, b| {
        a.activating
            .cmp(&b.activating)
            .then_with(|| a.name.cmp(&b.name))
    });
    let mut picture = Picture {
        text: String::new(),
        origin,
    };
    let rows = f64::from(u32::try_from(shown.len() + 1).unwrap_or(u32::MAX));
    picture.grid(end, rows);
    picture.bar("manager", 0.0, machine.manager.monotonic, end);
    picture.bar(
        "loading",
        0.0,
        machine.load_start.monotonic,
        machine.load_finish.monotonic,
    );
    picture.label(0.0, machine.manager.monotonic.max(origin), "muster-core");
    for (n, unit) in shown.into_iter().enumerate() {
        let row = f64::from(u32::try_from(n + 1).unwrap_or(u32::MAX));
        let up = unit.up().max(unit.activating);
        let down = if unit.deactivating > up {
            unit.deactivating.min(end)
        } else {
            end
        };
        picture.bar("activating", row, unit.activating, up.min(end));
        if unit.activated > 0 {
            picture.bar("active", row, up, down);
        }
        picture.bar("deactivating", row, down, unit.deactivated.min(end));
        let took = match unit.took() {
            0 => unit.name.clone(),
            took => format!("{} ({})", unit.name, span(took)),
        };
        picture.label(row, unit.activating, &took);
    }
    let width = LEFT + pixels(end.saturating_sub(origin)) + RIGHT;
    let height = TOP + rows * ROW + 20.0;
    let title = escaped(&format!(
        "{host}: start of user space in {}",
        span(end.saturating_sub(origin))
    ));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{width:.0}\" height=\"{height:.0}\">\n\
         <style>\n{STYLE}</style>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n\
         <text x=\"{LEFT}\" y=\"30\">{title}</text>\n{}</svg>\n",
        picture.text
    )
}
