//! Hash to row without a division.

/// `h mod divisor` for 32-bit `h` and any positive divisor.
///
/// A power of two is a mask. Any other divisor below 2^32 takes two multiplications: with
/// `m = ceil(2^64 / d)`, the low 64 bits of `m * h` are the fraction of `h / d` scaled by 2^64, and
/// that fraction times `d` is the remainder, exactly, for all 32-bit `h` and `d`
/// (Lemire, Kaser, Kurz, "Faster remainder by direct computation", 2019). A divisor above every
/// hash leaves the hash as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remainder {
    /// The divisor is a power of two; the mask is the divisor less one.
    Mask(u32),
    /// Any other 32-bit divisor, with its 64-bit inverse rounded up.
    Inverse {
        /// The divisor.
        divisor: u32,
        /// `ceil(2^64 / divisor)`.
        inverse: u64,
    },
    /// The divisor exceeds every 32-bit hash.
    Identity,
}

impl Remainder {
    /// The remainder by `divisor`, which must not be 0.
    pub fn by(divisor: u64) -> Self {
        assert!(divisor > 0, "a table has at least one row");
        match u32::try_from(divisor) {
            Err(_) => Self::Identity,
            Ok(divisor) if divisor.is_power_of_two() => Self::Mask(divisor - 1),
            Ok(divisor) => Self::Inverse { divisor, inverse: u64::MAX / u64::from(divisor) + 1 },
        }
    }

    /// The row of one hash.
    #[inline(always)]
    pub fn of(self, hash: u32) -> u32 {
        match self {
            Self::Mask(mask) => hash & mask,
            Self::Inverse { divisor, inverse } => {
                let fraction = inverse.wrapping_mul(u64::from(hash));
                ((u128::from(fraction) * u128::from(divisor)) >> 64) as u32
            }
            Self::Identity => hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges() {
        for divisor in [1_u32, 2, 3, 5, 7, 2_097_143, 2_097_152, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF] {
            for hash in [0, 1, 2, divisor - 1, divisor, divisor.wrapping_add(1), u32::MAX - 1, u32::MAX] {
                assert_eq!(Remainder::by(u64::from(divisor)).of(hash), hash % divisor, "{hash} mod {divisor}");
            }
        }
        assert_eq!(Remainder::by(1 << 32).of(u32::MAX), u32::MAX);
        assert_eq!(Remainder::by(u64::MAX).of(9), 9);
    }

    proptest! {
        #[test]
        fn equals_the_division(hash: u32, divisor in 1_u32..) {
            prop_assert_eq!(Remainder::by(u64::from(divisor)).of(hash), hash % divisor);
        }
    }
}
