//! Which node runs which instance: the balancer of a Unit, pure.
//!
//! # Entry points
//! * [`plan`] takes a [`Request`] (nodes, what is wanted, what runs where, why the question is asked) and the [`Ledger`] of
//!   the last plan, and answers with a [`Plan`]: a place, user and group for every instance that can run, and for every other
//!   one why it cannot.
//! * [`explain`] answers the same question again for one instance and tells for each node, and each of its runtimes, why it
//!   was or was not chosen. Decision and explanation come from the same code, so they cannot disagree.
//!
//! There are no tasks and no channels here: no I/O, no clock, no randomness. The same request and ledger give the same plan,
//! in whatever order nodes and wanted items are listed.
//!
//! # Rules
//! 1. *Who may run where.* A node must be [`Standing::Ready`], be the one that the instance is pinned to, carry all labels
//!    and have all resources that it asks for, and have a runtime of a wanted type for which the item has an image. Then CPU,
//!    memory and number of instances must fit, in the runtime and in the node.
//! 2. *How much it needs.* What the item requests, but never more than its quota; without a request a share of the quota
//!    ([`Ratios`], one half unless the node's configuration says otherwise); without both, nothing.
//! 3. *Who stays.* What runs and still fits is left where it is. What the node's system itself uses counts for newcomers only,
//!    so a busy moment drives nobody away.
//! 4. *Who comes next.* The rest by priority, highest first, then by item, subject and number. Of the nodes that fit, the one
//!    with the highest priority wins, then most free CPU, most free memory, lowest node id. For [`Distribution::Spread`] the
//!    number of instances of the same item on the node counts before all that. Of a node's runtimes, the type that the item
//!    prefers wins, then the best image, then the lowest runtime id.
//! 5. *Who yields.* If nothing fits, instances of a strictly lower priority are displaced: on the node where fewest have to
//!    go, and of them the least important ones. They are then placed like others. Nobody is displaced without need, and never
//!    by an equal.
//! 6. *Who is bound.* Components, and services with `balancingPolicy: disabled`, stay on the node where they were first
//!    placed (the ledger remembers it), and wait while it is away. A pin overrules that for services. Components are never
//!    displaced either.
//! 7. *Paused and absent nodes.* A node that is paused, or away for a short time, keeps what it has, whatever changed, and gets
//!    nothing new. What a node had that went offline is placed elsewhere.
//! 8. *Quota alerts.* A node in [`Reason::QuotaAlert`] gives instances away, least important and largest first, until measured
//!    use is low enough, as far as others have room for what they really use. An instance for which nobody has room stays: an
//!    alert moves, it never stops anything. Such a node is the last choice for newcomers.
//! 9. *Roll-back.* With [`Reason::Rollback`] the places of an earlier plan come first, then those of now, then the rules above.
//!
//! # Invariants
//! * Requests of the instances on a ready node never exceed the capacity of the node or runtime, nor the count of a resource.
//! * Planning again with the places of a plan moves nothing.
//! * An unplaced instance would not fit even if everything less important than it was gone (components excepted). What a
//!   quota alert has just cleared is not filled again by the same plan.
//! * Users and groups of an instance and an item never change while the ledger knows them.
//!
//! # What this crate does not do
//! It does not decide when to balance, how long a silent node counts as away, or when an instance is forgotten
//! ([`Ledger::retain`]); it does not stop or start anything, and knows nothing about subjects that are not active: the caller
//! leaves them out.

#![forbid(unsafe_code)]

mod demand;
mod explain;
mod ledger;
mod outcome;
mod planner;
mod refusal;
mod request;
mod suit;
mod text;
mod world;

pub use self::demand::{Amounts, DataPools, Ratio, Ratios};
pub use self::explain::{
    ChosenBecause, Explanation, NodeVerdict, PassedOver, RuntimeVerdict, Verdict,
};
pub use self::ledger::{IdRange, InvalidIdRange, Ledger, RestoreLedgerError};
pub use self::outcome::{Change, Placed, Plan, Tally, WhyNot};
pub use self::planner::{ExplainInstanceError, explain, plan};
pub use self::refusal::{NodeRefusal, RefusalKind, RuntimeRefusal};
pub use self::request::{
    Capacity, Distribution, Image, Limits, Node, Place, Placement, Reason, Relief, Request,
    RequestError, Standing, Wanted,
};
