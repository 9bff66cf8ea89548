//! The family of DeepSeek's Engram and Qwen's n-gram embedding: products, xored.

/// The mix after one symbol more: `lookback` 0 is the newest symbol, and starts from a mix of 0.
#[inline(always)]
pub const fn step(mix: i64, symbol: i64, multiplier: i64) -> i64 {
    mix ^ symbol.wrapping_mul(multiplier)
}
