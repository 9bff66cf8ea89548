//! The loops: a batch is cut into runs of positions, a run into blocks that fit the first cache level.
//!
//! Every family has one exact, slow way to hash one gram (`gram.rs`), which knows all boundaries, and a
//! fast way to hash a whole block as if nothing bounded it. Positions whose grams a boundary cuts are
//! then done again by the slow way.

mod block;
mod fast;
mod gram;
mod level;
mod utf8;
mod x86;

use rayon::prelude::*;

use crate::addressing::{Addressing, Family};
use crate::call::Call;
use crate::threads::pool;

pub(crate) use gram::position;
pub use level::{available_levels, force_level, Level};

/// Positions that one task takes at a time when several threads share a batch.
const RUN: usize = 1 << 14;

/// An integer type that addresses are written as.
pub trait Address: Copy + Default + Send + Sync + 'static {
    /// Whether it holds every address.
    const WIDE: bool;
    /// The address, which fits.
    fn from_i64(address: i64) -> Self;
    /// The address, which fits.
    fn from_u32(address: u32) -> Self;
}

impl Address for i64 {
    const WIDE: bool = true;

    #[inline(always)]
    fn from_i64(address: i64) -> Self {
        address
    }

    #[inline(always)]
    fn from_u32(address: u32) -> Self {
        i64::from(address)
    }
}

impl Address for i32 {
    const WIDE: bool = false;

    #[inline(always)]
    fn from_i64(address: i64) -> Self {
        address as i32
    }

    #[inline(always)]
    fn from_u32(address: u32) -> Self {
        address as i32
    }
}

/// Fills `out` for the whole batch.
pub(crate) fn run<O: Address>(addressing: &Addressing, call: &Call<'_>, out: &mut [O]) {
    let columns = addressing.columns().len();
    let positions = call.ids.batch() * call.ids.length();
    if positions == 0 {
        return;
    }
    let workers = call.threads.min(positions.div_ceil(RUN));
    let task = |(index, out): (usize, &mut [O])| span(addressing, call, index * RUN, out);
    match (workers > 1).then(|| pool(workers)).flatten() {
        Some(pool) => pool.install(|| out.par_chunks_mut(RUN * columns).enumerate().for_each(task)),
        None => span(addressing, call, 0, out),
    }
}

/// Fills positions `first …` of the flattened batch; a span may cross from one sequence into the next.
fn span<O: Address>(addressing: &Addressing, call: &Call<'_>, first: usize, mut out: &mut [O]) {
    let columns = addressing.columns().len();
    let length = call.ids.length();
    let (mut row, mut start) = (first / length, first % length);
    while !out.is_empty() {
        let count = (length - start).min(out.len() / columns);
        let (now, later) = out.split_at_mut(count * columns);
        match addressing.parts().family {
            Family::ByteFnv1a => block::sequence::<u8, O>(addressing, call, row, start, now),
            Family::Utf8Fnv1a => utf8::sequence(addressing, call, row, start, now),
            _ => block::sequence::<i64, O>(addressing, call, row, start, now),
        }
        (row, start, out) = (row + 1, 0, later);
    }
}
