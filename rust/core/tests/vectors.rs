//! Every golden vector, through the public interface.

use engram_core::{Addressing, Contiguous, Quantity};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    scheme: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    ids: Vec<i64>,
    orders: Vec<u64>,
    entries: u64,
    hashes: Vec<Vec<i64>>,
    rows: Vec<Vec<i64>>,
}

#[test]
fn byte_fnv1a() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/byte_fnv1a.json");
    let file: File = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(file.scheme, "byte_fnv1a");
    assert!(file.cases.len() >= 200);
    for (index, case) in file.cases.iter().enumerate() {
        let addressing = Addressing::byte_fnv1a(case.entries, &case.orders).unwrap();
        for (quantity, wanted) in [(Quantity::Hashes, &case.hashes), (Quantity::Rows, &case.rows)] {
            let mut out = vec![-1; case.ids.len() * case.orders.len()];
            addressing.address(&Contiguous::sequence(&case.ids), quantity, &mut out, 1);
            assert_eq!(out, wanted.concat(), "case {index}, {quantity:?}");
        }
    }
}
