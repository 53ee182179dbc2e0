//! The screen of `top`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use super::load::{Load, Order};
use crate::console::{Paint, Tone};
use crate::text::{count, shown, size};

/// How wide a bar is.
const BAR: usize = 10;
/// Nodes get at most this part of the screen, so that instances are seen too.
const NODES_SHARE: u16 = 3;

/// Draws everything; scrolling beyond what fits is undone.
pub(super) fn draw(frame: &mut Frame<'_>, load: &mut Load, paint: Paint) {
    let area = frame.area();
    let wanted = u16::try_from(load.nodes().len()).unwrap_or(u16::MAX);
    let node_lines = wanted.min(area.height / NODES_SHARE).saturating_add(1);
    let [head, nodes, _, instances, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(node_lines),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let title = format!(
        "muster top: {}, {}, by {}",
        count(load.nodes().len(), "node"),
        count(load.instances().len(), "instance"),
        match load.order {
            Order::Cpu => "CPU",
            Order::Ram => "RAM",
            Order::Name => "name",
        }
    );
    frame.render_widget(Line::from(title).style(bold()), head);
    draw_nodes(frame, nodes, load, paint);
    draw_instances(frame, instances, load, paint);
    let help = "q leave   c by CPU   m by RAM   n by name   arrows scroll";
    frame.render_widget(
        Line::from(help).style(Style::new().add_modifier(Modifier::DIM)),
        foot,
    );
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn header(names: &[&'static str]) -> Row<'static> {
    Row::new(
        names
            .iter()
            .map(|&name| Cell::from(name))
            .collect::<Vec<_>>(),
    )
    .style(bold())
}

/// A bar and a number, in the colour of how near the end is.
fn gauge(used: u64, all: u64, paint: Paint) -> Cell<'static> {
    let percent = match all {
        0 => return Cell::from("-"),
        all => used.saturating_mul(100) / all,
    };
    let filled = usize::try_from(percent.min(100)).unwrap_or(100) * BAR / 100;
    let bar = format!(
        "{}{} {percent:>3}%",
        "|".repeat(filled),
        " ".repeat(BAR - filled)
    );
    let colour = match percent {
        90.. => Color::Red,
        70.. => Color::Yellow,
        _ => Color::Green,
    };
    Cell::from(bar).style(coloured(colour, paint))
}

fn coloured(colour: Color, paint: Paint) -> Style {
    match paint.0 {
        true => Style::new().fg(colour),
        false => Style::new(),
    }
}

fn draw_nodes(frame: &mut Frame<'_>, area: Rect, load: &Load, paint: Paint) {
    let rows = load.nodes().map(|node| {
        Row::new([
            Cell::from(shown(&node.id)),
            gauge(node.cpu, node.max_cpu, paint),
            Cell::from(format!("{} DMIPS", node.cpu)),
            gauge(node.ram, node.max_ram, paint),
            Cell::from(size(node.ram)),
            Cell::from(format!("{} / {}", size(node.download), size(node.upload))),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(16),
        Constraint::Length(12),
        Constraint::Length(16),
        Constraint::Length(11),
        Constraint::Fill(1),
    ];
    let names = ["NODE", "CPU", "", "RAM", "", "IN / OUT"];
    frame.render_widget(Table::new(rows, widths).header(header(&names)), area);
}

fn draw_instances(frame: &mut Frame<'_>, area: Rect, load: &mut Load, paint: Paint) {
    let lines = usize::from(area.height.saturating_sub(1));
    let count = load.instances().len();
    load.first = load.first.min(count.saturating_sub(lines));
    let all = load.instances();
    let rows = all.into_iter().skip(load.first).take(lines).map(|it| {
        let state = match Tone::of_state(&it.state) {
            Some(Tone::Good) => coloured(Color::Green, paint),
            Some(Tone::Unsettled) => coloured(Color::Yellow, paint),
            Some(Tone::Bad) => coloured(Color::Red, paint),
            Some(Tone::Quiet) | None => Style::new(),
        };
        Row::new([
            Cell::from(shown(&it.name)),
            Cell::from(shown(&it.node)),
            Cell::from(shown(&it.state)).style(state),
            Cell::from(format!("{} DMIPS", it.cpu)),
            Cell::from(size(it.ram)),
            Cell::from(format!("{} / {}", size(it.download), size(it.upload))),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(12),
        Constraint::Length(12),
        Constraint::Length(11),
        Constraint::Fill(1),
    ];
    let names = ["INSTANCE", "NODE", "STATE", "CPU", "RAM", "IN / OUT"];
    frame.render_widget(Table::new(rows, widths).header(header(&names)), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::load::tests::snapshot;
    use super::*;

    fn drawn(load: &mut Load, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| draw(frame, load, Paint(false)))
            .unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| -> String {
            let cells = (0..width).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }

    #[test]
    fn the_busiest_come_first_and_the_rest_is_scrolled_to() {
        let mut load = Load::default();
        load.take(snapshot(
            "node-1",
            &[
                ("web", 10, 2 << 20),
                ("worker", 20, 1 << 20),
                ("idle", 0, 0),
            ],
        ));
        let lines = drawn(&mut load, 100, 9);
        assert_eq!(lines[0], "muster top: 1 node, 3 instances, by CPU");
        assert!(lines[2].starts_with("node-1"), "{lines:?}");
        assert!(lines[2].contains("|||||       50%  500 DMIPS"), "{lines:?}");
        assert!(lines[5].starts_with("worker/local/0"), "{lines:?}");
        assert!(lines[6].starts_with("web/local/0"), "{lines:?}");
        assert!(lines[8].starts_with("q leave"), "{lines:?}");
        load.scroll(2);
        let lines = drawn(&mut load, 100, 9);
        assert!(
            lines[5].starts_with("worker/local/0"),
            "all of them fit: {lines:?}"
        );
    }

    #[test]
    fn the_smallest_screen_is_no_error() {
        let mut load = Load::default();
        load.take(snapshot("node-1", &[("web", 10, 2)]));
        for (width, height) in [(1, 1), (5, 2), (20, 3)] {
            drawn(&mut load, width, height);
        }
    }
}
