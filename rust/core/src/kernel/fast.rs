//! Whole blocks as if nothing bounded them, in plain loops that compilers turn into vectors.
//!
//! `x86.rs` compiles the same loops once more for wider vectors.

use crate::addressing::{Addressing, Family, Quantity};
use crate::hash::{fnv1a, multiply_xor, polynomial, vocabulary_radix};
use crate::reduce::Remainder32;

use super::block::{BLOCK, LEAD, ROOM, STRIP};
use super::level::{current, Level};
use super::{x86, Address};

/// `byte_fnv1a` for `out.len() / columns` positions that follow `LEAD` symbols.
#[inline]
pub(super) fn bytes<O: Address>(addressing: &Addressing, quantity: Quantity, symbols: &[u8; ROOM], out: &mut [O]) {
    match current() {
        Level::Portable => bytes_body(addressing, quantity, symbols, out, Plain),
        Level::Avx2 => x86::bytes_avx2(addressing, quantity, symbols, out),
        Level::Avx512 => x86::bytes_avx512(addressing, quantity, symbols, out),
    }
}

/// The token families, likewise.
#[inline]
pub(super) fn tokens<O: Address>(addressing: &Addressing, quantity: Quantity, symbols: &[i64; ROOM], out: &mut [O]) {
    match current() {
        // AVX2 has no 64-bit products, and one compiled for it was slower.
        Level::Portable | Level::Avx2 => tokens_body(addressing, quantity, symbols, out, reduce),
        Level::Avx512 => x86::tokens_avx512(addressing, quantity, symbols, out),
    }
}

#[inline(always)]
pub(super) fn bytes_body<O: Address>(
    addressing: &Addressing,
    quantity: Quantity,
    symbols: &[u8; ROOM],
    out: &mut [O],
    weave: impl Weave,
) {
    let remainder = match quantity {
        Quantity::Rows => addressing.plan().narrow,
        Quantity::Hashes => Remainder32::IDENTITY,
    };
    // The usual numbers of columns are written side by side; more go one after the other.
    match addressing.columns().len() {
        1 => interleaved::<1, O>(addressing, remainder, symbols, out, weave),
        2 => interleaved::<2, O>(addressing, remainder, symbols, out, weave),
        3 => interleaved::<3, O>(addressing, remainder, symbols, out, weave),
        4 => interleaved::<4, O>(addressing, remainder, symbols, out, weave),
        columns => {
            let mut rows = [0_u32; BLOCK];
            let count = out.len() / columns;
            for index in 0..columns {
                column(addressing, index, remainder, symbols, &mut rows[..count]);
                for (cell, &row) in out[index..].iter_mut().step_by(columns).zip(&rows[..count]) {
                    *cell = O::from_u32(row);
                }
            }
        }
    }
}

#[inline(always)]
fn interleaved<const K: usize, O: Address>(
    addressing: &Addressing,
    remainder: Remainder32,
    symbols: &[u8; ROOM],
    out: &mut [O],
    weave: impl Weave,
) {
    let (cells, _) = out.as_chunks_mut::<K>();
    let mut rows = [[0_u32; STRIP]; K];
    for (strip, cells) in cells.chunks_mut(STRIP).enumerate() {
        weave.announce(cells);
        let symbols = &symbols[strip * STRIP..];
        for (index, rows) in rows.iter_mut().enumerate() {
            column(addressing, index, remainder, symbols, rows);
        }
        weave.weave(&rows, cells);
    }
}

/// Puts columns side by side.
pub(super) trait Weave {
    /// Says that memory some way after these cells will be written soon, so that it comes while others
    /// are hashed: a store to a line that is not in the cache reads it first.
    fn announce<const K: usize, O: Address>(&self, cells: &[[O; K]]);
    /// Writes `rows[c][i]` to `cells[i][c]`.
    fn weave<const K: usize, O: Address>(&self, rows: &[[u32; STRIP]; K], cells: &mut [[O; K]]);
}

/// One element after another.
pub(super) struct Plain;

impl Weave for Plain {
    #[inline(always)]
    fn announce<const K: usize, O: Address>(&self, _: &[[O; K]]) {}

    #[inline(always)]
    fn weave<const K: usize, O: Address>(&self, rows: &[[u32; STRIP]; K], cells: &mut [[O; K]]) {
        for (index, cell) in cells.iter_mut().enumerate() {
            for (cell, rows) in cell.iter_mut().zip(rows) {
                *cell = O::from_u32(rows[index]);
            }
        }
    }
}

/// The rows of one column.
#[inline(always)]
fn column(addressing: &Addressing, index: usize, remainder: Remainder32, symbols: &[u8], rows: &mut [u32]) {
    let order = addressing.columns()[index].order;
    let oldest = &symbols[LEAD + 1 - order..];
    let count = rows.len();
    rows.fill(fnv1a::start(index as u32 + 1));
    let mut at = 0;
    // Two symbols a pass halve the traffic with the cache.
    while at + 2 <= order {
        let (first, second) = (&oldest[at..at + count], &oldest[at + 1..at + 1 + count]);
        for ((row, &first), &second) in rows.iter_mut().zip(first).zip(second) {
            *row = fnv1a::step(fnv1a::step(*row, u32::from(first)), u32::from(second));
        }
        at += 2;
    }
    if at < order {
        for (row, &symbol) in rows.iter_mut().zip(&oldest[at..at + count]) {
            *row = fnv1a::step(*row, u32::from(symbol));
        }
    }
    if remainder.is_mask() {
        for row in rows {
            *row = remainder.masked(fnv1a::finish(*row));
        }
    } else {
        for row in rows {
            *row = remainder.multiplied(fnv1a::finish(*row));
        }
    }
}

/// The hashes of one column's grams of unequal lengths, which end at the symbols from `first` on.
#[inline]
pub(super) fn grams(column: usize, lengths: &[u16; STRIP], symbols: &[u8], first: usize) -> [u32; STRIP] {
    match current() {
        Level::Portable => grams_body(column, lengths, symbols, first),
        Level::Avx2 => x86::grams_avx2(column, lengths, symbols, first),
        Level::Avx512 => x86::grams_avx512(column, lengths, symbols, first),
    }
}

#[inline(always)]
pub(super) fn grams_body(column: usize, lengths: &[u16; STRIP], symbols: &[u8], first: usize) -> [u32; STRIP] {
    let mut hashes = [fnv1a::start(column as u32 + 1); STRIP];
    let longest = lengths.iter().copied().max().unwrap_or(0);
    for lookback in (0..longest).rev() {
        let symbols = &symbols[first - usize::from(lookback)..][..STRIP];
        for ((hash, &symbol), &length) in hashes.iter_mut().zip(symbols).zip(lengths) {
            let longer = fnv1a::step(*hash, u32::from(symbol));
            *hash = if lookback < length { longer } else { *hash };
        }
    }
    hashes.map(fnv1a::finish)
}

/// How a strip of hashes becomes rows of the columns `from … to`.
pub(super) type Reduce<O> = fn(&Addressing, usize, usize, &[i64], &mut [O]);

#[inline(always)]
pub(super) fn tokens_body<O: Address>(
    addressing: &Addressing,
    quantity: Quantity,
    symbols: &[i64; ROOM],
    out: &mut [O],
    reduce: Reduce<O>,
) {
    let columns = addressing.columns().len();
    for (strip, out) in out.chunks_mut(STRIP * columns).enumerate() {
        let newest = LEAD + strip * STRIP;
        let mut hashes = [0_i64; STRIP];
        let hashes = &mut hashes[..out.len() / columns];
        for visit in &addressing.plan().visits {
            if visit.done == 0 {
                hashes.fill(0);
            }
            for lookback in visit.done..visit.order {
                let symbols = &symbols[newest - lookback..][..hashes.len()];
                lengthen(addressing, visit.from, lookback, symbols, hashes);
            }
            if quantity == Quantity::Hashes {
                for (cells, &hash) in out.chunks_exact_mut(columns).zip(&*hashes) {
                    cells[visit.from..visit.to].fill(O::from_i64(hash));
                }
            } else {
                reduce(addressing, visit.from, visit.to, hashes, out);
            }
        }
    }
}

/// Makes the grams of a strip one symbol longer at their old end.
#[inline(always)]
fn lengthen(addressing: &Addressing, column: usize, lookback: usize, symbols: &[i64], hashes: &mut [i64]) {
    let cells = hashes.iter_mut().zip(symbols);
    match &addressing.parts().family {
        Family::MultiplyXor { multipliers } => {
            let multiplier = multipliers[lookback];
            cells.for_each(|(hash, &symbol)| *hash = multiply_xor::step(*hash, symbol, multiplier));
        }
        Family::Polynomial { primes } => {
            let prime = primes[column];
            cells.for_each(|(hash, &symbol)| *hash = polynomial::step(*hash, symbol, prime));
        }
        Family::VocabularyRadix { .. } => {
            let factor = addressing.plan().factors[column][lookback];
            cells.for_each(|(hash, &symbol)| *hash = vocabulary_radix::step(*hash, symbol, factor));
        }
        Family::ByteFnv1a | Family::Utf8Fnv1a => unreachable!("their symbols are bytes"),
    }
}

/// Rows by two multiplications each.
#[inline(always)]
pub(super) fn reduce<O: Address>(addressing: &Addressing, from: usize, to: usize, hashes: &[i64], out: &mut [O]) {
    let columns = addressing.columns();
    let wide = &addressing.plan().wide[from..to];
    for (cells, &hash) in out.chunks_exact_mut(columns.len()).zip(hashes) {
        for ((cell, remainder), column) in cells[from..to].iter_mut().zip(wide).zip(&columns[from..to]) {
            *cell = O::from_i64((remainder.of(hash) + column.offset) as i64);
        }
    }
}
