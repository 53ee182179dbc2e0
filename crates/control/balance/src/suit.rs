//! Which runtimes of which nodes suit an item, whoever else runs there.
//!
//! Wanted items that ask for the same share one answer, so that thousands of items over thousands of nodes cost little.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{NodeId, RuntimeType};
use muster_item::{Fit, Platform};

use crate::explain::RuntimeVerdict;
use crate::refusal::{NodeRefusal, RefusalKind, RuntimeRefusal};
use crate::request::{Node, Wanted};

/// A runtime that can run an item, and the image that suits it best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fitting {
    pub(crate) runtime: usize,
    pub(crate) image: usize,
}

/// Runtimes that only differ in who they belong to.
struct Kind<'r> {
    runtime_type: &'r RuntimeType,
    platform: Platform,
}

/// What one class of wanted items finds on each node.
struct Suits {
    /// By node; `fittings` of node `n` start at `starts[n]`.
    starts: Vec<usize>,
    fittings: Vec<Fitting>,
    /// By node: why nothing fits there.
    refusals: Vec<Option<RefusalKind>>,
}

/// The answers for all wanted items.
pub(crate) struct SuitTable {
    classes: Vec<Suits>,
    of_wanted: Vec<usize>,
}

impl SuitTable {
    pub(crate) fn new(nodes: &[&Node], wanted: &[&Wanted]) -> Self {
        let (kinds, kind_of) = kinds(nodes);
        let mut known = BTreeMap::new();
        let mut classes = Vec::new();
        let mut of_wanted = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let class = *known.entry(ClassKey::of(wanted)).or_insert_with(|| {
                classes.push(Suits::new(nodes, &kinds, &kind_of, wanted));
                classes.len() - 1
            });
            of_wanted.push(class);
        }
        Self { classes, of_wanted }
    }

    /// The node's runtimes that suit, best first.
    pub(crate) fn fittings(&self, wanted: usize, node: usize) -> &[Fitting] {
        let suits = &self.classes[self.of_wanted[wanted]];
        &suits.fittings[suits.starts[node]..suits.starts[node + 1]]
    }

    /// Why none suits, if none does.
    pub(crate) fn refusal(&self, wanted: usize, node: usize) -> Option<RefusalKind> {
        self.classes[self.of_wanted[wanted]].refusals[node]
    }
}

type PlatformKey<'r> = Option<(
    &'r str,
    &'r str,
    Option<&'r str>,
    Option<&'r str>,
    &'r [String],
)>;

/// All that [`Suits`] depends on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ClassKey<'r> {
    pin: Option<&'r NodeId>,
    labels: &'r BTreeSet<String>,
    resources: &'r BTreeSet<String>,
    runtimes: &'r [RuntimeType],
    platforms: Vec<PlatformKey<'r>>,
}

impl<'r> ClassKey<'r> {
    fn of(wanted: &'r Wanted) -> Self {
        fn key(platform: &Platform) -> (&str, &str, Option<&str>, Option<&str>, &[String]) {
            (
                &platform.os,
                &platform.architecture,
                platform.variant.as_deref(),
                platform.os_version.as_deref(),
                &platform.os_features,
            )
        }
        let platforms = wanted.images.iter();
        Self {
            pin: wanted.pin.as_ref(),
            labels: &wanted.labels,
            resources: &wanted.resources,
            runtimes: &wanted.runtimes,
            platforms: platforms
                .map(|image| image.platform.as_ref().map(key))
                .collect(),
        }
    }
}

/// The kinds of runtimes that there are, and which of them each node's runtimes are.
fn kinds<'r>(nodes: &[&'r Node]) -> (Vec<Kind<'r>>, Vec<Vec<usize>>) {
    let mut kinds: Vec<Kind<'r>> = Vec::new();
    let mut kind_of = Vec::with_capacity(nodes.len());
    for node in nodes {
        let own = node.runtimes.iter().map(|runtime| {
            let platform = Platform::of_runtime(&runtime.os_info, &runtime.arch_info);
            let runtime_type = &runtime.runtime_type;
            let same =
                |kind: &Kind<'_>| kind.runtime_type == runtime_type && kind.platform == platform;
            kinds.iter().position(same).unwrap_or_else(|| {
                kinds.push(Kind {
                    runtime_type,
                    platform,
                });
                kinds.len() - 1
            })
        });
        kind_of.push(own.collect());
    }
    (kinds, kind_of)
}

/// How well an image suits, and which one it is; less is better.
type ImageRating = (Reverse<Fit>, usize);

/// What an item finds in a kind of runtimes: nothing, a wanted type without an image, or its preference and an image.
type Rating = Option<(usize, Option<ImageRating>)>;

/// How well a platform runs one of the item's images, and which.
fn best_image(wanted: &Wanted, platform: &Platform) -> Option<ImageRating> {
    let fit = |(index, image): (usize, &crate::request::Image)| {
        let fit = match &image.platform {
            Some(built_for) => platform.fit(built_for)?,
            None => Fit::Unsaid,
        };
        Some((Reverse(fit), index))
    };
    wanted.images.iter().enumerate().filter_map(fit).min()
}

fn preference(wanted: &Wanted, runtime_type: &RuntimeType) -> Option<usize> {
    wanted.runtimes.iter().position(|own| own == runtime_type)
}

fn lacks_resource(node: &Node, name: &str) -> bool {
    node.resources
        .iter()
        .all(|resource| resource.name() != name)
}

impl Suits {
    fn new(nodes: &[&Node], kinds: &[Kind<'_>], kind_of: &[Vec<usize>], wanted: &Wanted) -> Self {
        let rated: Vec<Rating> = kinds
            .iter()
            .map(|kind| {
                let preference = preference(wanted, kind.runtime_type);
                preference.map(|place| (place, best_image(wanted, &kind.platform)))
            })
            .collect();
        let mut suits = Self {
            starts: vec![0],
            fittings: Vec::new(),
            refusals: Vec::with_capacity(nodes.len()),
        };
        for (node, own) in nodes.iter().zip(kind_of) {
            let refusal = match excluded(node, wanted) {
                Some(kind) => Some(kind),
                None => suits.add_runtimes(node, own, &rated),
            };
            suits.refusals.push(refusal);
            suits.starts.push(suits.fittings.len());
        }
        suits
    }

    /// Adds what fits on the node, or says why nothing does.
    fn add_runtimes(
        &mut self,
        node: &Node,
        own: &[usize],
        rated: &[Rating],
    ) -> Option<RefusalKind> {
        let mut found = Vec::new();
        let mut refusal = RefusalKind::NoRuntime;
        for (runtime, kind) in own.iter().enumerate() {
            match rated[*kind] {
                None => refusal = refusal.max(RefusalKind::RuntimeType),
                Some((_, None)) => refusal = refusal.max(RefusalKind::Platform),
                Some((place, Some((fit, image)))) => {
                    let id = &node.runtimes[runtime].runtime_id;
                    found.push(((place, fit, id), Fitting { runtime, image }));
                }
            }
        }
        found.sort_unstable_by_key(|(order, _)| *order);
        let nothing = found.is_empty();
        self.fittings
            .extend(found.into_iter().map(|(_, fitting)| fitting));
        nothing.then_some(refusal)
    }
}

/// What rules a node out before its runtimes are looked at.
fn excluded(node: &Node, wanted: &Wanted) -> Option<RefusalKind> {
    if wanted.pin.as_ref().is_some_and(|pin| *pin != node.id) {
        return Some(RefusalKind::PinnedElsewhere);
    }
    if !wanted.labels.is_subset(&node.labels) {
        return Some(RefusalKind::LabelMissing);
    }
    let lacks = |name: &String| lacks_resource(node, name);
    wanted
        .resources
        .iter()
        .any(lacks)
        .then_some(RefusalKind::ResourceMissing)
}

/// The same at length, for explanations.
pub(crate) fn exclusion(node: &Node, wanted: &Wanted) -> Option<NodeRefusal> {
    match (excluded(node, wanted)?, &wanted.pin) {
        (RefusalKind::PinnedElsewhere, Some(pin)) => {
            Some(NodeRefusal::PinnedElsewhere { node: pin.clone() })
        }
        (RefusalKind::LabelMissing, _) => Some(NodeRefusal::LabelMissing {
            labels: wanted.labels.difference(&node.labels).cloned().collect(),
        }),
        _ => {
            let lacks = |name: &&String| lacks_resource(node, name);
            let resources = wanted.resources.iter().filter(lacks).cloned();
            Some(NodeRefusal::ResourceMissing {
                resources: resources.collect(),
            })
        }
    }
}

/// Why one runtime does not suit, if it does not.
pub(crate) fn unsuited(node: &Node, runtime: usize, wanted: &Wanted) -> Option<RuntimeVerdict> {
    let info = &node.runtimes[runtime];
    let platform = Platform::of_runtime(&info.os_info, &info.arch_info);
    let refusal = if preference(wanted, &info.runtime_type).is_none() {
        RuntimeRefusal::Type {
            wanted: wanted.runtimes.clone(),
        }
    } else if best_image(wanted, &platform).is_none() {
        let images = wanted
            .images
            .iter()
            .filter_map(|image| image.platform.as_ref());
        RuntimeRefusal::Platform {
            offers: platform.to_string(),
            images: images.map(Platform::to_string).collect(),
        }
    } else {
        return None;
    };
    Some(RuntimeVerdict {
        runtime: info.runtime_id.clone(),
        runtime_type: info.runtime_type.clone(),
        refusal,
    })
}
