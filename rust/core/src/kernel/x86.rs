//! The loops of `fast.rs` for AVX2 and AVX-512, and the remainder by double precision for the latter.
//!
//! Elsewhere than on x86-64 the levels do not exist, and neither do these functions' bodies.

use crate::addressing::{Addressing, Quantity};

use super::block::ROOM;
use super::Address;

#[cfg(target_arch = "x86_64")]
pub(super) use vectors::*;

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use super::super::block::STRIP;
    use super::super::fast::{self, Weave};
    use super::*;

    macro_rules! compiled_for {
        ($name:ident, $inner:ident, $features:literal, $symbol:ty, $addressing:ident, $quantity:ident, $symbols:ident, $out:ident, $body:expr) => {
            #[target_feature(enable = $features)]
            fn $inner<O: Address>(
                $addressing: &Addressing,
                $quantity: Quantity,
                $symbols: &[$symbol; ROOM],
                $out: &mut [O],
            ) {
                $body
            }

            pub(in super::super) fn $name<O: Address>(
                addressing: &Addressing,
                quantity: Quantity,
                symbols: &[$symbol; ROOM],
                out: &mut [O],
            ) {
                // SAFETY: `level.rs` names a level only where it has found these features.
                unsafe { $inner(addressing, quantity, symbols, out) }
            }
        };
    }
    compiled_for!(bytes_avx2, bytes_with_avx2, "avx2,bmi2", u8, addressing, quantity, symbols, out, {
        fast::bytes_body(addressing, quantity, symbols, out, Avx2)
    });
    compiled_for!(
        bytes_avx512,
        bytes_with_avx512,
        "avx2,bmi2,avx512f,avx512bw,avx512dq,avx512vl",
        u8,
        addressing,
        quantity,
        symbols,
        out,
        fast::bytes_body(addressing, quantity, symbols, out, Avx512)
    );
    compiled_for!(
        tokens_avx512,
        tokens_with_avx512,
        "avx2,bmi2,avx512f,avx512bw,avx512dq,avx512vl",
        i64,
        addressing,
        quantity,
        symbols,
        out,
        fast::tokens_body(addressing, quantity, symbols, out, reduce_avx512)
    );

    macro_rules! grams_for {
        ($name:ident, $inner:ident, $features:literal) => {
            #[target_feature(enable = $features)]
            fn $inner(column: usize, lengths: &[u16; STRIP], symbols: &[u8], first: usize) -> [u32; STRIP] {
                fast::grams_body(column, lengths, symbols, first)
            }

            pub(in super::super) fn $name(
                column: usize,
                lengths: &[u16; STRIP],
                symbols: &[u8],
                first: usize,
            ) -> [u32; STRIP] {
                // SAFETY: `level.rs` names a level only where it has found these features.
                unsafe { $inner(column, lengths, symbols, first) }
            }
        };
    }
    grams_for!(grams_avx2, grams_with_avx2, "avx2,bmi2");
    grams_for!(grams_avx512, grams_with_avx512, "avx2,bmi2,avx512f,avx512bw,avx512dq,avx512vl");

    /// For each vector of the woven output: which lane of a column each of its lanes comes from, and which of
    /// its lanes come from each column.
    const fn pattern<const K: usize, const LANES: usize>() -> ([[u32; LANES]; K], [[[u32; LANES]; K]; K]) {
        let (mut lanes, mut masks) = ([[0; LANES]; K], [[[0; LANES]; K]; K]);
        let mut at = 0;
        while at < K * LANES {
            lanes[at / LANES][at % LANES] = (at / K) as u32;
            masks[at / LANES][at % K][at % LANES] = u32::MAX;
            at += 1;
        }
        (lanes, masks)
    }

    /// Weaves sixteen positions at a time.
    struct Avx512;

    impl Weave for Avx512 {
        #[inline(always)]
        fn announce<const K: usize, O: Address>(&self, cells: &[[O; K]]) {
            announce(cells.as_ptr_range());
        }

        #[inline(always)]
        fn weave<const K: usize, O: Address>(&self, rows: &[[u32; STRIP]; K], cells: &mut [[O; K]]) {
            // SAFETY: made by `bytes_with_avx512` alone, where the features are.
            unsafe { weave_avx512(rows, cells) }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn weave_avx512<const K: usize, O: Address>(rows: &[[u32; STRIP]; K], cells: &mut [[O; K]]) {
        assert!(cells.len() <= STRIP);
        let whole = cells.len() / 16 * 16;
        let (lanes, masks) = const { pattern::<K, 16>() };
        let to = cells.as_mut_ptr().cast::<O>();
        for first in (0..whole).step_by(16) {
            for part in 0..K {
                // SAFETY: a column has room for all cells, so each load stays within its column; the stores fill lanes
                // `16 part … 16 part + 15` of the `16 K` elements of these cells, whose size is O's: int64
                // where it is wide and int32 where it is not.
                unsafe {
                    let lanes = _mm512_loadu_si512(lanes[part].as_ptr().cast());
                    let mut woven = _mm512_setzero_si512();
                    for (column, rows) in rows.iter().enumerate() {
                        let mask = _mm512_movepi32_mask(_mm512_loadu_si512(masks[part][column].as_ptr().cast()));
                        let rows = _mm512_loadu_si512(rows.as_ptr().add(first).cast());
                        woven = _mm512_mask_permutexvar_epi32(woven, mask, lanes, rows);
                    }
                    let to = to.add(first * K + 16 * part);
                    if O::WIDE {
                        let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(woven));
                        let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(woven));
                        _mm512_storeu_si512(to.cast(), low);
                        _mm512_storeu_si512(to.add(8).cast(), high);
                    } else {
                        _mm512_storeu_si512(to.cast(), woven);
                    }
                }
            }
        }
        finish(whole, rows, cells);
    }

    /// Weaves eight positions at a time.
    struct Avx2;

    impl Weave for Avx2 {
        #[inline(always)]
        fn announce<const K: usize, O: Address>(&self, cells: &[[O; K]]) {
            announce(cells.as_ptr_range());
        }

        #[inline(always)]
        fn weave<const K: usize, O: Address>(&self, rows: &[[u32; STRIP]; K], cells: &mut [[O; K]]) {
            // SAFETY: made by `bytes_with_avx2` alone, where the feature is.
            unsafe { weave_avx2(rows, cells) }
        }
    }

    #[target_feature(enable = "avx2")]
    fn weave_avx2<const K: usize, O: Address>(rows: &[[u32; STRIP]; K], cells: &mut [[O; K]]) {
        assert!(cells.len() <= STRIP);
        let whole = cells.len() / 8 * 8;
        let (lanes, masks) = const { pattern::<K, 8>() };
        let to = cells.as_mut_ptr().cast::<O>();
        for first in (0..whole).step_by(8) {
            for part in 0..K {
                // SAFETY: as above, with eight lanes a vector.
                unsafe {
                    let lanes = _mm256_loadu_si256(lanes[part].as_ptr().cast());
                    let mut woven = _mm256_setzero_si256();
                    for (column, rows) in rows.iter().enumerate() {
                        let mask = _mm256_loadu_si256(masks[part][column].as_ptr().cast());
                        let rows = _mm256_loadu_si256(rows.as_ptr().add(first).cast());
                        let rows = _mm256_permutevar8x32_epi32(rows, lanes);
                        woven = _mm256_or_si256(woven, _mm256_and_si256(rows, mask));
                    }
                    let to = to.add(first * K + 8 * part);
                    if O::WIDE {
                        let low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(woven));
                        let high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(woven));
                        _mm256_storeu_si256(to.cast(), low);
                        _mm256_storeu_si256(to.add(4).cast(), high);
                    } else {
                        _mm256_storeu_si256(to.cast(), woven);
                    }
                }
            }
        }
        finish(whole, rows, cells);
    }

    /// Weaves the positions that fill no vector.
    #[inline(always)]
    fn finish<const K: usize, O: Address>(whole: usize, rows: &[[u32; STRIP]; K], cells: &mut [[O; K]]) {
        for (index, cell) in cells.iter_mut().enumerate().skip(whole) {
            for (cell, rows) in cell.iter_mut().zip(rows) {
                *cell = O::from_u32(rows[index]);
            }
        }
    }

    /// How far ahead of the stores their lines are asked for, in bytes: what is hashed meanwhile must take as
    /// long as memory does to answer.
    const AHEAD: usize = 3072;

    /// Asks for the lines that lie `AHEAD` of a range.
    #[inline(always)]
    fn announce<T>(range: std::ops::Range<*const T>) {
        let (mut line, end) = (range.start.cast::<i8>(), range.end.cast::<i8>());
        while line < end {
            // SAFETY: a prefetch reads nothing and faults nowhere, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(AHEAD)) };
            line = line.wrapping_add(64);
        }
    }

    /// Rows of eight columns at a time, where the plan says that double precision is exact enough.
    fn reduce_avx512<O: Address>(addressing: &Addressing, from: usize, to: usize, hashes: &[i64], out: &mut [O]) {
        if addressing.plan().doubles {
            // SAFETY: only `tokens_avx512` passes this function on, where the features are.
            unsafe { reduce_by_doubles(addressing, from, to, hashes, out) }
        } else {
            fast::reduce(addressing, from, to, hashes, out);
        }
    }

    /// With `q = trunc(x * (1 / p))` in doubles, each of the three roundings errs by 2^-53 of the quotient,
    /// which is below 2^63 / p; for p >= 2^12 that is below 3/4 in all, so `q` is at most one off and
    /// `x - q p` lies within `-2p … 2p`: two additions where it is negative, one subtraction where it is
    /// not below `p`, and the remainder is exact.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn reduce_by_doubles<O: Address>(addressing: &Addressing, from: usize, to: usize, hashes: &[i64], out: &mut [O]) {
        let columns = addressing.columns();
        let width = columns.len();
        let zero = _mm512_setzero_si512();
        let mut first = from;
        while first < to {
            let taken = (to - first).min(8);
            let mask = ((1_u16 << taken) - 1) as u8;
            let (mut rows, mut inverses, mut offsets) = ([1_i64; 8], [1.0_f64; 8], [0_i64; 8]);
            for (lane, column) in columns[first..first + taken].iter().enumerate() {
                rows[lane] = column.rows as i64;
                inverses[lane] = 1.0 / column.rows as f64;
                offsets[lane] = column.offset as i64;
            }
            // SAFETY: the arrays have the 64 bytes that each load reads.
            let (rows, inverses, offsets) = unsafe {
                (
                    _mm512_loadu_si512(rows.as_ptr().cast()),
                    _mm512_loadu_pd(inverses.as_ptr()),
                    _mm512_loadu_si512(offsets.as_ptr().cast()),
                )
            };
            for (cells, &hash) in out.chunks_exact_mut(width).zip(hashes) {
                let cells = &mut cells[first..first + taken];
                announce(cells.as_ptr_range());
                let hash = _mm512_set1_epi64(hash);
                let quotient = _mm512_cvttpd_epi64(_mm512_mul_pd(_mm512_cvtepi64_pd(hash), inverses));
                let mut rest = _mm512_sub_epi64(hash, _mm512_mullo_epi64(quotient, rows));
                for _ in 0..2 {
                    let negative = _mm512_cmplt_epi64_mask(rest, zero);
                    rest = _mm512_mask_add_epi64(rest, negative, rest, rows);
                }
                // Where it is below `rows` already, the difference wraps above it.
                rest = _mm512_min_epu64(rest, _mm512_sub_epi64(rest, rows));
                let address = _mm512_add_epi64(rest, offsets);
                // SAFETY: the mask has one bit for each of the cells, and the element's size is O's:
                // int64 where it is wide and int32 where it is not.
                unsafe {
                    if O::WIDE {
                        _mm512_mask_storeu_epi64(cells.as_mut_ptr().cast(), mask, address);
                    } else {
                        let narrow = _mm512_cvtepi64_epi32(address);
                        _mm256_mask_storeu_epi32(cells.as_mut_ptr().cast(), mask, narrow);
                    }
                }
            }
            first += taken;
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! absent {
    ($($name:ident: $symbol:ty),*) => {$(
        pub(super) fn $name<O: Address>(_: &Addressing, _: Quantity, _: &[$symbol; ROOM], _: &mut [O]) {
            unreachable!("this level is found on x86-64 only")
        }
    )*};
}
#[cfg(not(target_arch = "x86_64"))]
pub(super) use super::fast::{grams_body as grams_avx2, grams_body as grams_avx512};
#[cfg(not(target_arch = "x86_64"))]
absent!(bytes_avx2: u8, bytes_avx512: u8, tokens_avx512: i64);
