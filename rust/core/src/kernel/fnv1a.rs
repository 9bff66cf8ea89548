//! `byte_fnv1a` over a stretch of one sequence.

use crate::addressing::{Column, MAX_ORDER};
use crate::hash::fnv1a;
use crate::reduce::Remainder;
use crate::symbols::Ids;

/// Positions a block: its symbols and one column of hashes stay in the first cache level.
const BLOCK: usize = 1024;
/// Positions that are hashed side by side; a multiple of every vector width.
const LANES: usize = 16;
const HISTORY: usize = MAX_ORDER - 1;

/// Fills `out`, `[positions, columns]`, for the positions of sequence `row` from `start` on.
pub(super) fn sequence(
    columns: &[Column],
    lookback: usize,
    ids: &dyn Ids,
    row: usize,
    start: usize,
    remainder: Remainder,
    out: &mut [i64],
) {
    let mut symbols = [0_u8; HISTORY + BLOCK + LANES];
    for (index, out) in out.chunks_mut(BLOCK * columns.len()).enumerate() {
        let position = start + index * BLOCK;
        let count = out.len() / columns.len();
        let history = position.min(lookback);
        ids.byte_symbols(row, position - history, &mut symbols[..history + count]);
        block(columns, &symbols, history, count, remainder, out);
    }
}

/// Hashes `count` positions that follow `history` symbols of their own sequence.
///
/// `symbols` must reach `LANES` beyond the last position; what stands there is read and not used.
fn block(columns: &[Column], symbols: &[u8], history: usize, count: usize, remainder: Remainder, out: &mut [i64]) {
    for (index, column) in columns.iter().enumerate() {
        // The block's first positions lack symbols only where the sequence itself begins.
        let missing = (column.order - 1).saturating_sub(history).min(count);
        for cell in out[index..].iter_mut().step_by(columns.len()).take(missing) {
            *cell = 0;
        }
        let mut done = missing;
        while done < count {
            let first = history + done + 1 - column.order;
            let hashes = lanes(&symbols[first..], column);
            let taken = LANES.min(count - done);
            let cells = out[done * columns.len() + index..].iter_mut().step_by(columns.len());
            for (cell, hash) in cells.zip(hashes).take(taken) {
                *cell = i64::from(remainder.of(hash));
            }
            done += taken;
        }
    }
}

/// The hashes of the `LANES` grams that begin at the first `LANES` symbols.
#[inline(always)]
fn lanes(symbols: &[u8], column: &Column) -> [u32; LANES] {
    let mut states = [fnv1a::start(column.seed); LANES];
    for window in symbols[..column.order - 1 + LANES].windows(LANES) {
        for (state, &symbol) in states.iter_mut().zip(window) {
            *state = fnv1a::step(*state, u32::from(symbol));
        }
    }
    states.map(fnv1a::finish)
}
