//! The n-gram embedding of LongCat-Flash-Lite: token ids as digits to the base of the vocabulary.

/// The id after one symbol more; `factor` is `radix^lookback mod rows`, so no product leaves int64.
#[inline(always)]
pub const fn step(id: i64, symbol: i64, factor: i64) -> i64 {
    id.wrapping_add(symbol.wrapping_mul(factor))
}

/// `radix^lookback mod rows` for lookback 0 … `order - 1`; the first is 1 and is not reduced.
pub fn factors(radix: u64, rows: u64, order: usize) -> Vec<i64> {
    let mut factors = vec![1_i64];
    let mut power = 1_u128;
    for _ in 1..order {
        power = power * u128::from(radix) % u128::from(rows);
        factors.push(power as i64);
    }
    factors
}
