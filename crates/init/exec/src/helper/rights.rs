//! Groups, user and capabilities, in the order in which each still may be changed.

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets as OwnSets, capabilities,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits, set_keep_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use super::outcome::{During, Leniency, Reporter, SetupError};
use crate::context::Identity;
use crate::sandbox::{CapabilitySets, Sandbox};
use crate::step::Step;

/// More capabilities than any kernel has.
const MAX_CAPABILITIES: u32 = 63;

/// The groups, before a namespace of users knows only some of them.
pub(super) fn take_groups(identity: &Identity, further: &[Gid]) -> Result<(), SetupError> {
    let cannot = || format!("cannot change to group {}", identity.gid);
    let mut groups: Vec<Gid> = identity.groups.iter().copied().map(Gid::from_raw).collect();
    let new = further
        .iter()
        .filter(|gid| !identity.groups.contains(&gid.as_raw()));
    groups.extend(new);
    set_thread_groups(&groups).during(Step::Group, cannot)?;
    let gid = Gid::from_raw(identity.gid);
    set_thread_res_gid(gid, gid, gid).during(Step::Group, cannot)
}

/// The user and the capabilities.
pub(super) fn take(
    sandbox: &Sandbox,
    identity: Option<&Identity>,
    reporter: &Reporter,
) -> Result<(), SetupError> {
    let ambient = sandbox.capabilities.map_or(0, |sets| sets.ambient);
    let mut raised = 0;
    if let Some(sets) = sandbox.capabilities {
        let bounded = drop_bounding(sets.bounding);
        reporter.lenient("CapabilityBoundingSet", Leniency::IfAsked, bounded)?;
        if ambient != 0 {
            let raise = raise_ambient(sets).map(|()| ambient);
            let raise = reporter.lenient("AmbientCapabilities", Leniency::IfAsked, raise)?;
            raised = raise.unwrap_or(0);
        }
    }
    let changes_user = identity.is_some_and(|identity| identity.uid != 0);
    let keeps = changes_user && (raised != 0 || sandbox.secure_bits != 0);
    if let Some(identity) = identity {
        take_user(identity, keeps)?;
    }
    if keeps {
        // The change of user has cleared what is in force, and all that is ambient.
        let restored = restore(raised);
        reporter.lenient("AmbientCapabilities", Leniency::IfAsked, restored)?;
    }
    if sandbox.secure_bits != 0 {
        let set = set_secure_bits(sandbox.secure_bits);
        reporter.lenient("SecureBits", Leniency::IfAsked, set)?;
    }
    Ok(())
}

/// Takes what is not listed out of what this process, or any that comes from it, can ever gain.
fn drop_bounding(kept: u64) -> Result<(), SetupError> {
    let kept = CapabilitySet::from_bits_retain(kept);
    let dropped = each(!kept).try_for_each(|capability| {
        match remove_capability_from_bounding_set(capability) {
            // The kernel knows no more of them.
            Err(Errno::INVAL) => Ok(()),
            // What was never there need not be taken away.
            Err(Errno::PERM) if !is_in_bounding_set(capability) => Ok(()),
            other => other,
        }
    });
    let inherits = |own: OwnSets| {
        set_capabilities(
            None,
            OwnSets {
                inheritable: own.inheritable & kept,
                ..own
            },
        )
    };
    dropped
        .and_then(|()| capabilities(None))
        .and_then(inherits)
        .during(Step::Capabilities, || {
            "cannot drop capabilities from the bounding set".to_owned()
        })
}

fn is_in_bounding_set(capability: CapabilitySet) -> bool {
    rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(true)
}

fn raise_ambient(sets: CapabilitySets) -> Result<(), SetupError> {
    let wanted = CapabilitySet::from_bits_retain(sets.ambient);
    let inherits = |own: OwnSets| {
        set_capabilities(
            None,
            OwnSets {
                inheritable: own.inheritable | wanted,
                ..own
            },
        )
    };
    let raised = capabilities(None).and_then(inherits);
    let raised = raised.and_then(|()| raise(wanted));
    raised.during(Step::Capabilities, || cannot_give(wanted))
}

fn raise(wanted: CapabilitySet) -> Result<(), Errno> {
    each(wanted).try_for_each(|one| configure_capability_in_ambient_set(one, true))
}

fn restore(ambient: u64) -> Result<(), SetupError> {
    let ambient = CapabilitySet::from_bits_retain(ambient);
    let own = capabilities(None);
    let restored = own.and_then(|own| {
        // Secure bits need the one, and the program will have the others.
        let needed = CapabilitySet::SETPCAP | ambient;
        set_capabilities(
            None,
            OwnSets {
                effective: own.permitted & needed,
                ..own
            },
        )
    });
    let restored = restored.and_then(|()| raise(ambient));
    restored.during(Step::Capabilities, || cannot_give(ambient))
}

fn cannot_give(wanted: CapabilitySet) -> String {
    format!("cannot give the capabilities {:#x}", wanted.bits())
}

fn take_user(identity: &Identity, keeps: bool) -> Result<(), SetupError> {
    if keeps {
        set_keep_capabilities(true).during(Step::User, || {
            "cannot keep capabilities over a change of user".to_owned()
        })?;
    }
    let uid = Uid::from_raw(identity.uid);
    set_thread_res_uid(uid, uid, uid).during(Step::User, || {
        format!("cannot change to user {}", identity.uid)
    })
}

fn set_secure_bits(bits: u8) -> Result<(), SetupError> {
    let bits = CapabilitiesSecureBits::from_bits_retain(u32::from(bits));
    set_capabilities_secure_bits(bits)
        .during(Step::SecureBits, || "cannot set the secure bits".to_owned())
}

/// The single capabilities of a set.
fn each(set: CapabilitySet) -> impl Iterator<Item = CapabilitySet> {
    (0..=MAX_CAPABILITIES)
        .map(|number| CapabilitySet::from_bits_retain(1 << number))
        .filter(move |one| set.contains(*one))
}
