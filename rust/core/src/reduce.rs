//! Hash to row without a division.

/// `h mod divisor` for 32-bit `h` and any positive divisor.
///
/// With `m = floor(2^32 / d)`, the high half of `h * m` is the quotient or one less: since
/// `m > 2^32/d - 1`, it falls short by less than `h / 2^32 < 1` before rounding down. One conditional
/// subtraction makes the remainder exact. Multiplication, subtraction and minimum all have vector
/// forms, so the loops below this keep to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remainder32 {
    divisor: u32,
    inverse: u32,
    mask: u32,
}

impl Remainder32 {
    /// A divisor that leaves every hash as it is.
    pub const IDENTITY: Self = Self { divisor: 0, inverse: 0, mask: u32::MAX };

    /// The remainder by `divisor`, which must not be 0.
    pub fn by(divisor: u64) -> Self {
        assert!(divisor > 0, "a table has at least one row");
        match u32::try_from(divisor) {
            Err(_) => Self::IDENTITY,
            Ok(divisor) if divisor.is_power_of_two() => Self { mask: divisor - 1, ..Self::IDENTITY },
            Ok(divisor) => Self { divisor, inverse: ((1_u64 << 32) / u64::from(divisor)) as u32, mask: 0 },
        }
    }

    /// Whether the remainder is a mask.
    #[inline(always)]
    pub fn is_mask(self) -> bool {
        self.divisor == 0
    }

    /// The row of one hash, where [`Self::is_mask`].
    #[inline(always)]
    pub fn masked(self, hash: u32) -> u32 {
        hash & self.mask
    }

    /// The row of one hash, where not [`Self::is_mask`].
    #[inline(always)]
    pub fn multiplied(self, hash: u32) -> u32 {
        let quotient = ((u64::from(hash) * u64::from(self.inverse)) >> 32) as u32;
        let rest = hash.wrapping_sub(quotient.wrapping_mul(self.divisor));
        // Where the rest is below the divisor, the difference wraps above it.
        rest.min(rest.wrapping_sub(self.divisor))
    }

    /// The row of one hash.
    #[inline(always)]
    pub fn of(self, hash: u32) -> u32 {
        if self.is_mask() {
            self.masked(hash)
        } else {
            self.multiplied(hash)
        }
    }
}

/// `x mod divisor`, never negative, for signed 64-bit `x` and a divisor of at most 2^63 - 1.
///
/// The same with `m = floor(2^64 / d)` over the bits as unsigned; a negative `x` is `2^64` too large
/// there, so `2^64 mod d` is taken off again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remainder64 {
    divisor: u64,
    inverse: u64,
    wrap: u64,
}

impl Remainder64 {
    /// The remainder by `divisor`, which must be 1 … 2^63 - 1.
    pub fn by(divisor: u64) -> Self {
        assert!(divisor > 0 && divisor <= i64::MAX as u64, "a table has 1 … 2^63 - 1 rows");
        let inverse = if divisor == 1 { u64::MAX } else { ((1_u128 << 64) / u128::from(divisor)) as u64 };
        Self { divisor, inverse, wrap: ((1_u128 << 64) % u128::from(divisor)) as u64 }
    }

    /// The remainder.
    #[inline(always)]
    pub fn of(self, x: i64) -> u64 {
        let bits = x as u64;
        let quotient = ((u128::from(bits) * u128::from(self.inverse)) >> 64) as u64;
        let rest = bits.wrapping_sub(quotient.wrapping_mul(self.divisor));
        let rest = rest.min(rest.wrapping_sub(self.divisor));
        if x >= 0 {
            return rest;
        }
        let (lowered, borrowed) = rest.overflowing_sub(self.wrap);
        if borrowed {
            lowered.wrapping_add(self.divisor)
        } else {
            lowered
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_of_32_bits() {
        for divisor in [1_u32, 2, 3, 5, 7, 2_097_143, 2_097_152, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF] {
            for hash in [0, 1, 2, divisor - 1, divisor, divisor.wrapping_add(1), u32::MAX - 1, u32::MAX] {
                assert_eq!(Remainder32::by(u64::from(divisor)).of(hash), hash % divisor, "{hash} mod {divisor}");
            }
        }
        assert_eq!(Remainder32::by(1 << 32).of(u32::MAX), u32::MAX);
        assert_eq!(Remainder32::by(u64::MAX).of(9), 9);
    }

    #[test]
    fn edges_of_64_bits() {
        for divisor in [1, 2, 3, 5, 1 << 31, (1 << 32) - 1, 16_000_057, i64::MAX - 1, i64::MAX] {
            let remainder = Remainder64::by(divisor as u64);
            for x in [0, 1, -1, divisor, -divisor, divisor - 1, 1 - divisor, i64::MIN, i64::MIN + 1, i64::MAX] {
                assert_eq!(remainder.of(x), x.rem_euclid(divisor) as u64, "{x} mod {divisor}");
            }
        }
    }

    proptest! {
        #[test]
        fn equals_the_32_bit_division(hash: u32, divisor in 1_u32..) {
            prop_assert_eq!(Remainder32::by(u64::from(divisor)).of(hash), hash % divisor);
        }

        #[test]
        fn equals_the_64_bit_division(x: i64, divisor in 1..i64::MAX, shift in 0_u32..63) {
            let divisor: i64 = (divisor >> shift).max(1);
            prop_assert_eq!(Remainder64::by(divisor as u64).of(x), x.rem_euclid(divisor) as u64);
        }
    }
}
