//! One gram at a time: the exact way that knows every boundary.

use crate::addressing::{Addressing, Family, Quantity};
use crate::boundary::Missing;
use crate::hash::{fnv1a, multiply_xor, polynomial, vocabulary_radix};

use super::Address;

/// Writes the addresses of one position, whose newest `reach` symbols can be reached; `symbol(k)` is
/// the one `k` positions back.
pub(crate) fn position<O: Address>(
    addressing: &Addressing,
    quantity: Quantity,
    reach: usize,
    symbol: impl Fn(usize) -> i64,
    out: &mut [O],
) {
    let parts = addressing.parts();
    let back = |lookback: usize| match parts.boundary.missing {
        Missing::Pad(pad) if lookback >= reach => pad,
        _ => symbol(lookback),
    };
    for (index, (column, out)) in parts.columns.iter().zip(out).enumerate() {
        *out = if parts.boundary.missing == Missing::NullRow && reach < column.order {
            O::default()
        } else {
            finish(addressing, quantity, index, hash(addressing, index, column.order, &back))
        };
    }
}

/// The hash of one gram of `length` symbols.
#[inline]
fn hash(addressing: &Addressing, index: usize, length: usize, back: &impl Fn(usize) -> i64) -> i64 {
    match &addressing.parts().family {
        Family::ByteFnv1a | Family::Utf8Fnv1a => {
            let start = fnv1a::start(index as u32 + 1);
            let state = (0..length).rev().fold(start, |state, k| fnv1a::step(state, back(k) as u32));
            i64::from(fnv1a::finish(state))
        }
        Family::MultiplyXor { multipliers } => {
            (0..length).fold(0, |mix, k| multiply_xor::step(mix, back(k), multipliers[k]))
        }
        Family::Polynomial { primes } => (0..length).fold(0, |hash, k| polynomial::step(hash, back(k), primes[index])),
        Family::VocabularyRadix { .. } => {
            let factors = &addressing.plan().factors[index];
            (0..length).fold(0, |id, k| vocabulary_radix::step(id, back(k), factors[k]))
        }
    }
}

/// A hash as it is written: itself, or its row.
#[inline]
pub(super) fn finish<O: Address>(addressing: &Addressing, quantity: Quantity, index: usize, hash: i64) -> O {
    if quantity == Quantity::Hashes {
        return O::from_i64(hash);
    }
    let plan = addressing.plan();
    if addressing.parts().family.is_fnv() {
        return O::from_u32(plan.narrow.of(hash as u32));
    }
    let column = &addressing.columns()[index];
    O::from_i64((plan.wide[index].of(hash) + column.offset) as i64)
}

/// The hash of a gram whose symbols all can be reached, however many they are.
pub(super) fn whole<O: Address>(
    addressing: &Addressing,
    quantity: Quantity,
    index: usize,
    length: usize,
    symbol: impl Fn(usize) -> i64,
) -> O {
    finish(addressing, quantity, index, hash(addressing, index, length, &symbol))
}
