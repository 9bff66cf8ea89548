//! Laws that hold for every scheme and input: layout, type, batch and threads change nothing.

use engram_core::{Addressing, Contiguous, Id, Quantity};
use proptest::prelude::*;

fn rows<T: Id>(addressing: &Addressing, ids: &[T], batch: usize, threads: usize) -> Vec<i64> {
    let mut out = vec![-1; ids.len() * addressing.columns().len()];
    let length = ids.len().checked_div(batch).unwrap_or(0);
    let ids = Contiguous::batch(ids, batch, length).unwrap();
    addressing.address(&ids, Quantity::Rows, &mut out, threads);
    out
}

/// The scheme as its specification words it: one gram at a time, with a division.
fn plain(entries: u64, orders: &[u64], ids: &[i64]) -> Vec<i64> {
    let mut out = Vec::new();
    for position in 0..ids.len() {
        for (column, &order) in orders.iter().enumerate() {
            let mut hash = 0_u32;
            if position as u64 + 1 >= order {
                hash = 0x811C_9DC5 ^ (column as u32 + 1);
                for &id in &ids[position + 1 - order as usize..=position] {
                    hash = (hash ^ (id.wrapping_sub(3)).rem_euclid(256) as u32).wrapping_mul(0x0100_0193);
                }
                hash = hash.max(1);
            }
            out.push((u64::from(hash) % entries) as i64);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_input_equals_the_plain_loop(
        ids in prop::collection::vec(any::<i64>(), 0..300),
        orders in prop::collection::vec(1_u64..=64, 1..6),
        entries in prop_oneof![1_u64..5000, Just(2_097_143), Just(2_097_152), any::<u32>().prop_map(|e| u64::from(e) + 1), Just(i64::MAX as u64)],
    ) {
        let addressing = Addressing::byte_fnv1a(entries, &orders).unwrap();
        prop_assert_eq!(rows(&addressing, &ids, 1, 1), plain(entries, &orders, &ids));
    }

    #[test]
    fn types_agree(ids in prop::collection::vec(any::<u8>(), 0..100)) {
        let addressing = Addressing::byte_fnv1a(4099, &[1, 3, 8]).unwrap();
        let wanted = rows(&addressing, &ids, 1, 1);
        prop_assert_eq!(&rows(&addressing, &ids.iter().map(|&id| u16::from(id)).collect::<Vec<_>>(), 1, 1), &wanted);
        prop_assert_eq!(&rows(&addressing, &ids.iter().map(|&id| id as i8).collect::<Vec<_>>(), 1, 1), &wanted);
        prop_assert_eq!(&rows(&addressing, &ids.iter().map(|&id| i32::from(id) - 512).collect::<Vec<_>>(), 1, 1), &wanted);
        prop_assert_eq!(&rows(&addressing, &ids.iter().map(|&id| u64::from(id) << 56 | u64::from(id)).collect::<Vec<_>>(), 1, 1), &wanted);
    }

    #[test]
    fn json_round_trips(entries in 1..=i64::MAX as u64, orders in prop::collection::vec(1_u64..=64, 1..=64)) {
        let addressing = Addressing::byte_fnv1a(entries, &orders).unwrap();
        let again = Addressing::from_json(addressing.to_json()).unwrap();
        prop_assert_eq!(&addressing, &again);
        prop_assert_eq!(addressing.digest(), again.digest());
    }

    #[test]
    fn hostile_json_is_an_error(text in "\\PC{0,200}") {
        prop_assert!(Addressing::from_json(&text).is_err());
    }

    #[test]
    fn damaged_json_is_an_error_or_a_valid_scheme(at in 0_usize..400, byte in 32_u8..127) {
        let mut text = Addressing::byte_fnv1a(1000, &[2, 3]).unwrap().to_json().to_owned().into_bytes();
        let at = at % text.len();
        text[at] = byte;
        if let Ok(addressing) = Addressing::from_json(std::str::from_utf8(&text).unwrap()) {
            prop_assert!(addressing.entries() >= 1);
        }
    }
}

/// Lengths around every block and lane edge, batches that a thread's share cuts through.
#[test]
fn batches_and_threads_agree() {
    let addressing = Addressing::byte_fnv1a(2_097_143, &[2, 3, 4, 64]).unwrap();
    let ids: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for length in (1..=70).chain([1023, 1024, 1025, 16_384, 16_385, 50_000]) {
        let batch = (ids.len() / length).min(5 + 100_000 / length);
        let ids = &ids[..batch * length];
        let together = rows(&addressing, ids, batch, 3);
        let width = length * addressing.columns().len();
        for (row, wanted) in ids.chunks(length).zip(together.chunks(width)) {
            assert_eq!(rows(&addressing, row, 1, 1), wanted, "length {length}");
        }
    }
}

#[test]
fn bad_schemes_are_errors() {
    for (entries, orders) in
        [(0, vec![2]), (1 << 63, vec![2]), (5, vec![]), (5, vec![0]), (5, vec![65]), (5, vec![2; 65])]
    {
        assert!(Addressing::byte_fnv1a(entries, &orders).is_err(), "{entries} {orders:?}");
    }
}
