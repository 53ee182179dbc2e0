//! `why`: from a unit's state back to its cause, and on to what can be done.

use muster_control::manager::{UnitCall, WhyReply, method};
use muster_unit_file::name::UnitType;

use super::{ActionError, VerbError, lists};
use crate::cli::{Format, Why};
use crate::console::{Console, Exit};
use crate::manager::Manager;
use crate::names;
use crate::render::Style;

pub(super) fn why(
    arguments: &Why,
    manager: &mut Manager,
    console: &mut Console,
) -> Result<Exit, VerbError> {
    let names = names::expand(&arguments.units, UnitType::Service, false, manager, console)?;
    let (mut exit, mut replies) = (Exit::Success, Vec::new());
    for unit in names {
        let call = UnitCall { unit: unit.clone() };
        let answer: Result<WhyReply, _> = manager.ask(method::WHY, &call);
        match answer {
            Ok(reply) => replies.push(reply),
            Err(source) => {
                let error = ActionError::new("explain", unit, source);
                exit = console.report(&error.into());
            }
        }
    }
    if arguments.output != Format::Short {
        lists::print_json(&replies, arguments.output, console)?;
        return Ok(exit);
    }
    for (n, reply) in replies.iter().enumerate() {
        if n > 0 {
            console.line("")?;
        }
        let text = explain(reply, console.style());
        console.print(&text)?;
    }
    Ok(exit)
}

fn explain(reply: &WhyReply, style: Style) -> String {
    let mut text = format!("{} is {}\n", style.paint("1", &reply.unit), reply.state);
    for line in &reply.lines {
        text.push_str(&format!("  {line}\n"));
    }
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text.push_str(&format!("{}\n", style.paint("1", title)));
            for line in lines {
                text.push_str(&format!("  {line}\n"));
            }
        }
    };
    let needed = reply.needed_by.iter();
    section(
        "Needed by",
        needed
            .map(|(unit, how)| format!("{unit} ({how})"))
            .collect(),
    );
    section("Waits for", reply.waits_for.clone());
    let facts = reply.facts.iter();
    section(
        "Facts",
        facts
            .map(|(name, value)| format!("{name}: {value}"))
            .collect(),
    );
    section("What to do", reply.advice.clone());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_stand_below_the_state() {
        let reply = WhyReply {
            unit: "a.service".to_owned(),
            state: "inactive".to_owned(),
            lines: vec!["Its job waits.".to_owned()],
            needed_by: vec![("multi-user.target".to_owned(), "Wants".to_owned())],
            waits_for: vec!["b.service".to_owned()],
            advice: vec!["sctl start b.service".to_owned()],
            ..WhyReply::default()
        };
        assert_eq!(
            explain(&reply, Style::default()),
            "a.service is inactive\n  Its job waits.\nNeeded by\n  multi-user.target (Wants)\nWaits for\n  b.service\nWhat to do\n  sctl start b.service\n"
        );
    }
}
