//! The loops: a batch is cut into runs of positions, a run into blocks that fit the first cache level.

mod fnv1a;

use rayon::prelude::*;

use crate::addressing::Addressing;
use crate::reduce::Remainder;
use crate::symbols::Ids;
use crate::threads::pool;

/// Positions that one task takes at a time when several threads share a batch.
const RUN: usize = 1 << 14;

/// Fills `out` for the whole batch.
pub(crate) fn run(addressing: &Addressing, ids: &dyn Ids, remainder: Remainder, out: &mut [i64], threads: usize) {
    let columns = addressing.columns().len();
    let positions = ids.batch() * ids.length();
    assert_eq!(out.len(), positions * columns, "the output must have batch * length * columns elements");
    if positions == 0 {
        return;
    }
    let workers = threads.min(positions.div_ceil(RUN));
    let task = |(index, out): (usize, &mut [i64])| span(addressing, ids, remainder, index * RUN, out);
    match (workers > 1).then(|| pool(workers)).flatten() {
        Some(pool) => pool.install(|| out.par_chunks_mut(RUN * columns).enumerate().for_each(task)),
        None => span(addressing, ids, remainder, 0, out),
    }
}

/// Fills positions `first …` of the flattened batch; a span may cross from one sequence into the next.
fn span(addressing: &Addressing, ids: &dyn Ids, remainder: Remainder, first: usize, mut out: &mut [i64]) {
    let columns = addressing.columns();
    let length = ids.length();
    let (mut row, mut start) = (first / length, first % length);
    while !out.is_empty() {
        let count = (length - start).min(out.len() / columns.len());
        let (now, later) = out.split_at_mut(count * columns.len());
        fnv1a::sequence(columns, addressing.lookback(), ids, row, start, remainder, now);
        (row, start, out) = (row + 1, 0, later);
    }
}
