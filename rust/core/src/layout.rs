//! Primes, multipliers and offsets of the published layouts.

use std::collections::{HashMap, HashSet};

/// Whether `n` is prime: Miller–Rabin with the bases that decide every 64-bit number
/// (the first twelve primes; Sorenson and Webster, 2015).
pub fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    for base in BASES {
        if n.is_multiple_of(base) {
            return n == base;
        }
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.iter().all(|&base| {
        let mut x = power(base, odd, n);
        if x == 1 || x == n - 1 {
            return true;
        }
        (1..twos).any(|_| {
            x = multiply(x, x, n);
            x == n - 1
        })
    })
}

fn multiply(a: u64, b: u64, modulus: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(modulus)) as u64
}

fn power(mut base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let mut result = 1;
    base %= modulus;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, base, modulus);
        }
        base = multiply(base, base, modulus);
        exponent >>= 1;
    }
    result
}

/// The primes above `after`, ascending.
pub fn primes_after(after: u64) -> impl Iterator<Item = u64> {
    (after.saturating_add(1)..=u64::MAX).filter(|&n| is_prime(n))
}

/// Row counts by one ascending search that all layers share: for each layer and each order, `heads`
/// successive primes above `sizes[order] - 1` that no earlier column of any layer has taken.
///
/// Gives the row counts of layer number `layer` of the list (not its id), order after order.
pub fn shared_search(layer: usize, sizes: &[u64], heads: usize) -> Vec<u64> {
    let mut taken = HashSet::<u64>::new();
    // Where the search from each size has come to: every prime up to there is taken.
    let mut reached = HashMap::<u64, u64>::new();
    let mut counts = Vec::new();
    for _ in 0..=layer {
        counts.clear();
        for &size in sizes {
            let after = *reached.entry(size).or_insert(size - 1);
            let found: Vec<u64> = primes_after(after).filter(|prime| !taken.contains(prime)).take(heads).collect();
            taken.extend(&found);
            reached.insert(size, found.last().copied().unwrap_or(after));
            counts.extend(found);
        }
    }
    counts
}

/// Row counts that follow each other: the primes number `skip + 1 … skip + columns` above `base - 1`.
pub fn consecutive(base: u64, skip: usize, columns: usize) -> Vec<u64> {
    primes_after(base - 1).skip(skip).take(columns).collect()
}

/// The running sums before each count, and their total; `None` if that leaves int64.
pub fn offsets(counts: &[u64]) -> Option<(Vec<u64>, u64)> {
    let mut total = 0_u64;
    let mut offsets = Vec::with_capacity(counts.len());
    for &count in counts {
        offsets.push(total);
        total = total.checked_add(count).filter(|&total| total <= i64::MAX as u64)?;
    }
    Some((offsets, total))
}

/// Half the bound below which a multiplier must stay so that its product with any symbol fits int64.
pub fn half_bound(vocabulary: u64) -> u64 {
    (i64::MAX as u64 / vocabulary / 2).max(1)
}

/// The multipliers of a layer of Qwen's n-gram embedding: odd, by splitmix64 from the seed.
pub fn splitmix_multipliers(vocabulary: u64, orders: usize, layer: u64, seed: u64) -> Vec<i64> {
    let base = seed.wrapping_add(layer.wrapping_mul(10_007));
    (1..=orders as u64)
        .map(|k| {
            let mixed = splitmix64(base.wrapping_add(GOLDEN.wrapping_mul(k)));
            (2 * (mixed % half_bound(vocabulary)) + 1) as i64
        })
        .collect()
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn splitmix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_primes() {
        let small: Vec<u64> = (0..2000).filter(|&n| is_prime(n)).collect();
        let sieve: Vec<u64> = (2..2000).filter(|&n: &u64| (2..n).all(|d| n % d != 0)).collect();
        assert_eq!(small, sieve);
        // Strong pseudoprimes to the first bases, and the largest 64-bit prime.
        assert!(!is_prime(3_215_031_751) && !is_prime(3_825_123_056_546_413_051));
        assert!(is_prime(18_446_744_073_709_551_557) && !is_prime(u64::MAX));
    }

    #[test]
    fn the_published_totals() {
        for (layer, total) in [(0, 384_006_168), (1, 384_016_682)] {
            let counts = shared_search(layer, &[16_000_000; 3], 8);
            assert_eq!(offsets(&counts).unwrap().1, total);
        }
        assert_eq!(offsets(&consecutive(20_000_000, 0, 16)).unwrap().1, 320_001_446);
        assert_eq!(
            splitmix_multipliers(248_320, 3, 0, 1234),
            [23_703_573_157_769, 20_109_073_645_365, 8_052_911_324_071]
        );
    }
}
