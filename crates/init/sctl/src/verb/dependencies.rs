//! `list-dependencies`: the tree of what units need.

use std::collections::HashSet;

use muster_engine::dep::DepKind;
use muster_unit_file::name::{UnitName, UnitType};
use muster_units::Graph;
use muster_units::closure::Closure;
use thiserror::Error;

use super::VerbError;
use crate::cli::ListDependencies;
use crate::console::{Console, Exit};
use crate::system::System;

/// Lines of one tree. With `--all` a tree can grow beyond all bounds, since shared parts are drawn
/// again and again.
const MAX_LINES: usize = 200_000;

/// Why there is no tree.
#[derive(Debug, Error)]
pub(crate) enum DependenciesError {
    /// Two directions at once.
    #[error("Only one of --reverse, --after and --before can be used.")]
    Directions,
    /// No unit was named and there is no default.
    #[error("There is no default target in this system; name a unit.")]
    NoDefault,
    /// A template has no dependencies, its instances do.
    #[error("{name} is a template; name an instance of it.")]
    Template {
        /// Which.
        name: UnitName,
    },
    /// `--type=`
    #[error("Unknown unit type '{text}'.")]
    UnknownType {
        /// What was given.
        text: String,
    },
    /// The tree is larger than anyone reads.
    #[error("The tree has more than {MAX_LINES} lines; --plain lists every unit once.")]
    TooLarge,
}

/// Which edges are followed.
fn kinds(arguments: &ListDependencies) -> Result<&'static [DepKind], DependenciesError> {
    match (arguments.reverse, arguments.after, arguments.before) {
        (false, false, false) => Ok(&[
            DepKind::Requires,
            DepKind::Requisite,
            DepKind::Wants,
            DepKind::ConsistsOf,
            DepKind::BindsTo,
            DepKind::Upholds,
        ]),
        (true, false, false) => Ok(&[
            DepKind::RequiredBy,
            DepKind::RequisiteOf,
            DepKind::WantedBy,
            DepKind::PartOf,
            DepKind::BoundBy,
            DepKind::UpheldBy,
        ]),
        (false, true, false) => Ok(&[DepKind::After]),
        (false, false, true) => Ok(&[DepKind::Before]),
        _ => Err(DependenciesError::Directions),
    }
}

pub(super) fn list(arguments: &ListDependencies, console: &mut Console) -> Result<Exit, VerbError> {
    let kinds = kinds(arguments)?;
    let types = arguments
        .types
        .iter()
        .map(|text| {
            UnitType::from_suffix(text)
                .ok_or_else(|| DependenciesError::UnknownType { text: text.clone() })
        })
        .collect::<Result<Vec<UnitType>, DependenciesError>>()?;
    let system = System::open(&arguments.common)?;
    let machine = system.machine();
    let mut loader = system.loader();
    let mut roots = system.units_by_pattern(&arguments.units, loader.index(), console)?;
    if arguments.units.is_empty() {
        let default = system.installer().default_target();
        roots.push(default.map_err(|_| DependenciesError::NoDefault)?);
    }
    if let Some(name) = roots.iter().find(|name| name.is_template()) {
        return Err(DependenciesError::Template { name: name.clone() }.into());
    }
    // Who needs a unit stands in the other units' files.
    let everything: Vec<UnitName> = loader
        .index()
        .names()
        .filter(|name| !name.is_template())
        .chain(&roots)
        .cloned()
        .collect();
    let graph = Graph::new(Closure::new(&mut loader, &machine).of(everything), &machine);
    for (n, root) in roots.iter().enumerate() {
        if n > 0 {
            console.line("")?;
        }
        console.line(graph.unit(root).map_or(root, |unit| unit.name()))?;
        let tree = Tree {
            graph: &graph,
            kinds,
            types: &types,
            all: arguments.all,
            plain: arguments.plain,
        };
        tree.draw(root, console)?;
    }
    Ok(Exit::Success)
}

/// How one tree is drawn.
struct Tree<'a> {
    graph: &'a Graph,
    kinds: &'a [DepKind],
    types: &'a [UnitType],
    all: bool,
    plain: bool,
}

/// One unit on the way from the root to the current line.
struct Level<'a> {
    unit: &'a UnitName,
    /// Its dependencies that are still to be drawn, the next one last.
    rest: Vec<&'a UnitName>,
}

impl<'a> Tree<'a> {
    /// What hangs below a unit: targets last, otherwise by name without regard to case.
    fn below(&self, name: &UnitName) -> Option<Level<'a>> {
        let unit = self.graph.unit(name)?;
        let mut rest: Vec<&UnitName> = self
            .kinds
            .iter()
            .flat_map(|kind| unit.dependencies(*kind))
            .filter(|other| self.types.is_empty() || self.types.contains(&other.unit_type()))
            .collect();
        let key = |name: &UnitName| {
            let is_target = name.unit_type() == UnitType::Target;
            (is_target, name.as_str().to_ascii_lowercase())
        };
        rest.sort_by_cached_key(|name| key(name));
        rest.dedup();
        rest.reverse();
        Some(Level {
            unit: unit.name(),
            rest,
        })
    }

    /// Depth first and without recursion: a chain may be as long as there are units.
    fn draw(&self, root: &UnitName, console: &mut Console) -> Result<(), VerbError> {
        let mut path: Vec<Level<'a>> = self.below(root).into_iter().collect();
        let mut listed: HashSet<&UnitName> = path.iter().map(|level| level.unit).collect();
        let mut lines = 0;
        while let Some(level) = path.last_mut() {
            let Some(next) = level.rest.pop() else {
                path.pop();
                continue;
            };
            if self.plain && !listed.insert(next) {
                continue;
            }
            lines += 1;
            if lines > MAX_LINES {
                return Err(DependenciesError::TooLarge.into());
            }
            // Nothing is running here, so the column of states stays empty.
            let lead = if self.plain {
                String::new()
            } else {
                branches(&path)
            };
            console.line(format_args!("  {lead}{next}"))?;
            let opens = self.all || next.unit_type() == UnitType::Target;
            let Some(below) = self
                .below(next)
                .filter(|level| opens && !level.rest.is_empty())
            else {
                continue;
            };
            if !self.plain && path.iter().any(|level| level.unit == below.unit) {
                path.push(below);
                console.line(format_args!("  {}...", ellipsis(&path)))?;
                path.pop();
            } else {
                path.push(below);
            }
        }
        Ok(())
    }
}

/// The lines that lead to the entry that was just taken from the last level.
fn branches(path: &[Level<'_>]) -> String {
    let mut lead = String::new();
    for (n, level) in path.iter().enumerate() {
        let last_level = n + 1 == path.len();
        lead.push_str(match (level.rest.is_empty(), last_level) {
            (true, true) => "\u{2514}\u{2500}",
            (false, true) => "\u{251c}\u{2500}",
            (true, false) => "  ",
            (false, false) => "\u{2502} ",
        });
    }
    lead
}

/// The lines that lead to the mark for "and so on" below an entry that was drawn above.
fn ellipsis(path: &[Level<'_>]) -> String {
    let above = &path[..path.len() - 1];
    let mut lead: String = above
        .iter()
        .map(|level| {
            if level.rest.is_empty() {
                "  "
            } else {
                "\u{2502} "
            }
        })
        .collect();
    lead.push_str("\u{2514}\u{2500}");
    lead
}
