//! Ids to symbols: what a position contributes to a hash.

use std::collections::TryReserveError;

/// Byte `b` has id `b + BYTE_OFFSET`.
pub const BYTE_OFFSET: u8 = 3;
/// The id that pads a batch.
pub const PAD: i64 = 0;
/// The id that ends a sequence.
pub const EOS: i64 = 1;
/// The id of an unknown symbol.
pub const UNK: i64 = 2;

/// An integer type that ids come in.
pub trait Id: Copy + Ord + Send + Sync {
    /// The id modulo 256. Two's complement makes this its lowest byte, whatever the width or sign.
    fn low_byte(self) -> u8;
    /// The id as int64; above its range the bits are kept, and [`Id::wide`] tells.
    fn bits(self) -> i64;
    /// The id as it is.
    fn wide(self) -> i128;
}

macro_rules! id {
    ($($t:ty),*) => {$(
        impl Id for $t {
            #[inline(always)]
            fn low_byte(self) -> u8 {
                self as u8
            }

            #[inline(always)]
            fn bits(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            fn wide(self) -> i128 {
                self as i128
            }
        }
    )*};
}
id!(i8, u8, i16, u16, i32, u32, i64, u64);

/// A batch of id sequences, wherever it lies and however it is strided.
///
/// The kernels read it in blocks that fit the first cache level, so a layout or a type costs one
/// pass over a block and never a copy of the whole.
pub trait Ids: Sync {
    /// How many sequences there are.
    fn batch(&self) -> usize;
    /// How many ids each sequence has.
    fn length(&self) -> usize;
    /// Writes the byte symbols `(id - BYTE_OFFSET) mod 256` of `out.len()` positions of sequence
    /// `row`, from position `start` on.
    fn bytes(&self, row: usize, start: usize, out: &mut [u8]);
    /// Writes the ids of `out.len()` positions of sequence `row`, from position `start` on.
    fn tokens(&self, row: usize, start: usize, out: &mut [i64]);
    /// The smallest and the largest id; `None` where there are none.
    fn bounds(&self) -> Option<(i128, i128)>;
}

/// Ids in one contiguous slice, sequence after sequence.
pub struct Contiguous<'a, T> {
    ids: &'a [T],
    batch: usize,
    length: usize,
}

impl<'a, T: Id> Contiguous<'a, T> {
    /// One sequence.
    pub fn sequence(ids: &'a [T]) -> Self {
        Self { ids, batch: 1, length: ids.len() }
    }

    /// `batch` sequences of equal length; `None` if the slice cannot be cut so.
    pub fn batch(ids: &'a [T], batch: usize, length: usize) -> Option<Self> {
        (batch.checked_mul(length)? == ids.len()).then_some(Self { ids, batch, length })
    }
}

impl<T: Id> Ids for Contiguous<'_, T> {
    fn batch(&self) -> usize {
        self.batch
    }

    fn length(&self) -> usize {
        self.length
    }

    fn bytes(&self, row: usize, start: usize, out: &mut [u8]) {
        let from = row * self.length + start;
        for (symbol, &id) in out.iter_mut().zip(&self.ids[from..]) {
            *symbol = byte_symbol(id);
        }
    }

    fn tokens(&self, row: usize, start: usize, out: &mut [i64]) {
        let from = row * self.length + start;
        for (symbol, &id) in out.iter_mut().zip(&self.ids[from..]) {
            *symbol = id.bits();
        }
    }

    fn bounds(&self) -> Option<(i128, i128)> {
        bounds(self.ids.iter().copied())
    }
}

/// The smallest and the largest of some ids.
pub fn bounds<T: Id>(mut ids: impl Iterator<Item = T>) -> Option<(i128, i128)> {
    let first = ids.next()?;
    let (low, high) = ids.fold((first, first), |(low, high), id| (low.min(id), high.max(id)));
    Some((low.wide(), high.wide()))
}

/// The byte symbol of one id: `(id - BYTE_OFFSET) mod 256`.
#[inline(always)]
pub fn byte_symbol<T: Id>(id: T) -> u8 {
    id.low_byte().wrapping_sub(BYTE_OFFSET)
}

/// Bytes to ids: every byte plus [`BYTE_OFFSET`], then [`EOS`] if asked for.
///
/// # Errors
/// If the ids do not fit memory.
pub fn encode_bytes(bytes: &[u8], eos: bool) -> Result<Vec<i64>, TryReserveError> {
    let mut ids = Vec::new();
    ids.try_reserve_exact(bytes.len() + usize::from(eos))?;
    ids.extend(bytes.iter().map(|&byte| i64::from(byte) + i64::from(BYTE_OFFSET)));
    if eos {
        ids.push(EOS);
    }
    Ok(ids)
}

/// Ids back to bytes: stops at [`EOS`], skips [`PAD`] and [`UNK`], takes `(id - 3) mod 256` of the rest.
pub fn decode_bytes(ids: impl IntoIterator<Item = i64>) -> Vec<u8> {
    ids.into_iter().take_while(|&id| id != EOS).filter(|&id| id != PAD && id != UNK).map(byte_symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_the_remainder_of_the_id_less_three() {
        for id in -1000_i64..1000 {
            assert_eq!(i64::from(byte_symbol(id)), (id - 3).rem_euclid(256), "{id}");
        }
        assert_eq!(byte_symbol(i64::MIN), byte_symbol(0_i64));
        assert_eq!(byte_symbol(i64::MAX), byte_symbol(-1_i64));
        assert_eq!(byte_symbol(u64::MAX), byte_symbol(-1_i64));
        assert_eq!([PAD, EOS, UNK].map(byte_symbol), [253, 254, 255]);
    }

    #[test]
    fn every_byte_survives_encoding() {
        let bytes: Vec<u8> = (0..=255).collect();
        let ids = encode_bytes(&bytes, true).unwrap();
        assert_eq!(ids.last(), Some(&EOS));
        assert_eq!(decode_bytes(ids.iter().copied().chain([70, 71])), bytes);
        assert_eq!(decode_bytes([0, 2, 100, 0]), b"a");
    }

    #[test]
    fn a_batch_must_fill_its_slice() {
        assert!(Contiguous::batch(&[1_u8, 2, 3], 2, 2).is_none());
        assert!(Contiguous::batch(&[1_u8], usize::MAX, 2).is_none());
        assert!(Contiguous::<u8>::batch(&[], 0, 5).is_some());
    }
}
