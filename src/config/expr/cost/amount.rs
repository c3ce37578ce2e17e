//! What a part of an expression costs at most.
//!
//! The weight of a value is its text, in bytes, and [`OF_VALUE`] for each value in it. That is also the memory it takes. To
//! copy a value takes less than one nanosecond for each unit of its weight.

/// The weight of a value, beside its text: of a number, a text, a list or map, a member of a map.
pub(super) const OF_VALUE: u64 = 256;

/// The weight of a part of a text that becomes an element of a list.
pub(super) const OF_PART: u64 = 128;

/// A number that can grow with the weight of the element that a macro has reached. The weights of all elements together are
/// at most the weight of the list, so what grows with them is counted once for the list, not once for each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) fixed: u64,
    /// How much is added for each unit of the element's weight.
    pub(super) each: u64,
}

impl Amount {
    /// A number that does not grow.
    pub(super) const fn fixed(fixed: u64) -> Self {
        Self { fixed, each: 0 }
    }

    /// The weight of the element itself.
    pub(super) const ELEMENT: Self = Self { fixed: 0, each: 1 };

    pub(super) fn and(self, other: Self) -> Self {
        Self { fixed: self.fixed.saturating_add(other.fixed), each: self.each.saturating_add(other.each) }
    }

    pub(super) fn times(self, factor: u64) -> Self {
        Self { fixed: self.fixed.saturating_mul(factor), each: self.each.saturating_mul(factor) }
    }

    /// The most that it is where no element weighs more than `element`.
    pub(super) fn most(self, element: u64) -> u64 {
        self.fixed.saturating_add(self.each.saturating_mul(element))
    }

    /// The sum over `number` elements that weigh `weight` together.
    pub(super) fn sum(self, number: u64, weight: u64) -> u64 {
        self.fixed.saturating_mul(number).saturating_add(self.each.saturating_mul(weight))
    }
}

/// Upper bounds of what a part of an expression costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    /// The weight of its result.
    pub(super) size: Amount,
    /// The nanoseconds that it takes.
    pub(super) time: Amount,
    /// The most memory that it takes at a time, with its result, in bytes.
    pub(super) peak: u64,
    /// The memory that its result takes, in bytes: none for a variable, which is not copied.
    pub(super) kept: u64,
}
