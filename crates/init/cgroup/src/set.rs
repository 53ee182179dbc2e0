//! Small sets of controllers, of either version of control groups.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{BitOr, BitOrAssign};

/// What can be in a set.
pub trait Member: Copy + fmt::Debug + 'static {
    /// Everything that can be, in the order of iteration: eight at most.
    const MEMBERS: &'static [Self];

    /// Its number, below eight.
    fn number(self) -> u8;
}

/// A set of them, as bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Set<M> {
    bits: u8,
    members: PhantomData<M>,
}

impl<M: Member> Set<M> {
    /// None of them.
    pub const NONE: Self = Self::of(0);

    pub(crate) const fn of(bits: u8) -> Self {
        Self {
            bits,
            members: PhantomData,
        }
    }

    /// Whether it is in the set.
    #[must_use]
    pub fn contains(self, member: M) -> bool {
        self.bits & Self::from(member).bits != 0
    }

    /// Those that are not in the other set.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self::of(self.bits & !other.bits)
    }

    /// Those that are in both sets.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self::of(self.bits & other.bits)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// One by one.
    pub fn iter(self) -> impl Iterator<Item = M> {
        M::MEMBERS
            .iter()
            .copied()
            .filter(move |member| self.contains(*member))
    }
}

impl<M: Member> Default for Set<M> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<M: Member> From<M> for Set<M> {
    fn from(member: M) -> Self {
        Self::of(1 << member.number())
    }
}

impl<M: Member> FromIterator<M> for Set<M> {
    fn from_iter<I: IntoIterator<Item = M>>(members: I) -> Self {
        let sets = members.into_iter().map(Self::from);
        sets.fold(Self::NONE, BitOr::bitor)
    }
}

impl<M: Member> BitOr for Set<M> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self::of(self.bits | other.bits)
    }
}

impl<M: Member> BitOrAssign for Set<M> {
    fn bitor_assign(&mut self, other: Self) {
        self.bits |= other.bits;
    }
}

impl<M: Member> fmt::Debug for Set<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
