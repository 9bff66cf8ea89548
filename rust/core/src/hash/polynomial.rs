//! The byte-group hash of BLT: a polynomial in a prime, the oldest symbol at power 0.

/// The primes of the published hash functions, in their order.
pub const PRIMES: [i64; 11] = [
    1_000_000_007,
    5_915_587_277,
    1_500_450_271,
    3_267_000_013,
    5_754_853_343,
    4_093_082_899,
    9_576_890_767,
    3_628_273_133,
    2_860_486_313,
    5_463_458_053,
    3_367_900_313,
];

/// The hash of the gram that is one symbol longer at its old end. A gram of one symbol starts from 0.
#[inline(always)]
pub const fn step(hash: i64, symbol: i64, prime: i64) -> i64 {
    hash.wrapping_mul(prime).wrapping_add(symbol)
}
