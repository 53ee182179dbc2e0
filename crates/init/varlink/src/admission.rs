//! Who gets a connection when there are few left.
//!
//! Root and the service's own user are never kept out by others: for them, somebody else's idle connection is closed. A
//! user cannot have more than its share, whatever the total.

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Altogether.
    pub total: usize,
    /// Of one user that is neither root nor the service's own.
    pub per_user: usize,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            total: 2048,
            per_user: 64,
        }
    }
}

/// What is known of a connection, or of one that asks to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Its user.
    pub uid: u32,
    /// Root or the service's own user.
    pub privileged: bool,
}

/// A connection that has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seated<K> {
    /// Which.
    pub key: K,
    /// Whose.
    pub guest: Guest,
    /// Since when it does nothing; `None` while it is at work. In any unit that grows.
    pub idle_since: Option<u64>,
}

/// What becomes of one that asks to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<K> {
    /// There is room.
    Admit,
    /// There is room once this one is closed.
    Replace(K),
    /// There is none.
    Refuse,
}

/// How many connections there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Altogether.
    pub total: usize,
    /// Of the newcomer's user.
    pub same_user: usize,
}

/// Decides about `newcomer`. Everybody who is there is looked at only if there is no room.
pub fn decide<K: Copy>(
    places: Places,
    newcomer: Guest,
    census: Census,
    seated: impl Iterator<Item = Seated<K>> + Clone,
) -> Verdict<K> {
    let place = if !newcomer.privileged && census.same_user >= places.per_user {
        oldest_idle(seated.filter(|one| one.guest.uid == newcomer.uid))
    } else if census.total < places.total {
        return Verdict::Admit;
    } else {
        let others = seated.clone().filter(|one| !one.guest.privileged);
        match oldest_idle(others.clone()) {
            // Then somebody's own idle connection, then one that is at work for somebody else.
            None if newcomer.privileged => {
                oldest_idle(seated).or_else(|| others.map(|one| one.key).next())
            }
            found => found,
        }
    };
    place.map_or(Verdict::Refuse, Verdict::Replace)
}

/// Which connection to close when the process has no descriptors left: the one that [`decide`] would close for root.
pub fn least_needed<K: Copy>(seated: impl Iterator<Item = Seated<K>> + Clone) -> Option<K> {
    oldest_idle(seated.clone().filter(|one| !one.guest.privileged)).or_else(|| oldest_idle(seated))
}

fn oldest_idle<K: Copy>(seated: impl Iterator<Item = Seated<K>>) -> Option<K> {
    seated
        .filter_map(|one| Some((one.idle_since?, one.key)))
        .min_by_key(|(since, _)| *since)
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests;
