//! What is to be remembered about the keys of one type, and how that is brought into line with what the
//! key module really has. Pure.
//!
//! The module is the truth about what exists; the index adds what a module cannot tell: the order of
//! certificates, what the waiting key was made for, and what is to go. A lost index costs no
//! certificate.
//!
//! ```text
//! create_key:  index names the key -> key made -> request recorded
//! apply_cert:  certificate stored -> index: newest, what it displaces is to go -> that is removed
//! ```
//!
//! A process that dies between any two of these leaves something that [`reconcile`] knows what to do
//! with.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::names::KeyId;
use crate::request::Wanted;

/// Memory of one certificate type, as it is kept on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    /// Keys that have a certificate, the one applied last at the end.
    pub(crate) order: Vec<KeyId>,
    /// The key that waits for a certificate.
    pub(crate) pending: Option<Pending>,
    /// Keys and certificates that are to be removed.
    pub(crate) dropping: BTreeSet<KeyId>,
}

/// A key without a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) id: KeyId,
    /// What it was made for; not known when the index was lost.
    pub(crate) request: Option<Request>,
}

/// What was asked for, and the answer once there was one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) wanted: Wanted,
    pub(crate) csr: Option<String>,
}

impl Index {
    /// Makes `id`, which has a certificate now, the newest, and lists what no longer has room.
    pub(crate) fn add_newest(&mut self, id: KeyId, max_items: usize) {
        self.order.retain(|other| *other != id);
        self.order.push(id);
        if self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.id == id)
        {
            self.pending = None;
        }
        self.trim(max_items);
    }

    /// Names a key that is to be made; one that waited before is to go.
    pub(crate) fn supersede_pending(&mut self, id: KeyId, wanted: Wanted) {
        let request = Some(Request { wanted, csr: None });
        if let Some(old) = self.pending.replace(Pending { id, request }) {
            self.dropping.insert(old.id);
        }
    }

    fn trim(&mut self, max_items: usize) {
        let surplus = self.order.len().saturating_sub(max_items);
        self.dropping.extend(self.order.drain(..surplus));
    }
}

/// Something about the stock that the operator should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A certificate that the index does not know was taken in.
    Adopted(KeyId),
    /// A certificate without a key is removed.
    CertWithoutKey(KeyId),
    /// A key that nothing is known about is removed.
    StrayKey(KeyId),
    /// The index knows a certificate that is gone.
    CertGone(KeyId),
}

/// Brings the index into line with what there is: `keys`, and `certs` with the time each is valid from.
///
/// What is to be removed is in the returned index's `dropping`.
pub(crate) fn reconcile(
    index: Option<Index>,
    keys: &BTreeSet<KeyId>,
    certs: &BTreeMap<KeyId, i64>,
    max_items: usize,
) -> (Index, Vec<Finding>) {
    let mut findings = Vec::new();
    let Index {
        order: known,
        pending,
        mut dropping,
    } = index.unwrap_or_default();
    dropping.retain(|id| keys.contains(id) || certs.contains_key(id));

    let whole = |id: &KeyId| keys.contains(id) && certs.contains_key(id) && !dropping.contains(id);
    let mut order: Vec<KeyId> = Vec::new();
    for id in known {
        if whole(&id) && !order.contains(&id) {
            order.push(id);
        } else if !certs.contains_key(&id) {
            findings.push(Finding::CertGone(id));
        }
    }
    // Stored, and the process died before it could say so: this is the newest.
    let just_stored = pending.as_ref().map(|pending| pending.id);
    let just_stored = just_stored.filter(|id| whole(id) && !order.contains(id));
    let mut adopted: Vec<KeyId> = certs
        .keys()
        .filter(|id| whole(id) && !order.contains(id) && Some(**id) != just_stored)
        .copied()
        .collect();
    adopted.sort_by_key(|id| (certs[id], *id));
    findings.extend(adopted.iter().copied().map(Finding::Adopted));
    order.splice(0..0, adopted);
    order.extend(just_stored);

    for id in certs.keys().filter(|id| !keys.contains(id)) {
        findings.push(Finding::CertWithoutKey(*id));
    }
    let keyless = certs.keys().filter(|id| !keys.contains(id)).copied();
    let mut doomed: BTreeSet<KeyId> = keyless.collect();

    let mut waiting = keys
        .iter()
        .filter(|id| !certs.contains_key(id) && !dropping.contains(id))
        .copied();
    // A pending key that was never made is forgotten.
    let pending = pending.filter(|pending| {
        keys.contains(&pending.id)
            && !certs.contains_key(&pending.id)
            && !dropping.contains(&pending.id)
    });
    let pending = pending.or_else(|| {
        waiting
            .clone()
            .next()
            .map(|id| Pending { id, request: None })
    });
    let kept = pending.as_ref().map(|pending| pending.id);
    for id in waiting.by_ref().filter(|id| Some(*id) != kept) {
        findings.push(Finding::StrayKey(id));
        doomed.insert(id);
    }
    dropping.append(&mut doomed);
    let mut index = Index {
        order,
        pending,
        dropping,
    };
    index.trim(max_items);
    (index, findings)
}

#[cfg(test)]
mod tests;
