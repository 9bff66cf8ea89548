//! Every golden vector, through the public interface, by every kernel that this CPU has.

use engram_core::{
    available_levels, force_level, layout, Addressing, Boundary, Call, Contiguous, Missing, Quantity, Symbols,
};
use serde_json::Value;

fn cases(scheme: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/vectors/{scheme}.json", env!("CARGO_MANIFEST_DIR"));
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(file["scheme"], scheme);
    file["cases"].as_array().unwrap().clone()
}

fn number(case: &Value, key: &str) -> u64 {
    case[key].as_u64().unwrap_or_else(|| panic!("{key} of {case}"))
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|item| item.as_i64().unwrap()).collect()
}

fn unsigned(value: &Value) -> Vec<u64> {
    numbers(value).into_iter().map(|item| item as u64).collect()
}

fn flat(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().flat_map(numbers).collect()
}

fn check(addressing: &Addressing, ids: &[i64], quantity: Quantity, dead: Option<&[bool]>, wanted: &[i64]) {
    for level in available_levels() {
        assert!(force_level(Some(level)));
        let mut out = vec![-1_i64; wanted.len()];
        let contiguous = Contiguous::sequence(ids);
        addressing.address(&Call { quantity, dead, ..Call::rows(&contiguous) }, &mut out).unwrap();
        assert_eq!(out, wanted, "{level:?} {quantity:?} {}", addressing.to_json());
    }
}

#[test]
fn fnv1a() {
    for scheme in ["byte_fnv1a", "utf8_fnv1a"] {
        let cases = cases(scheme);
        assert!(cases.len() > 100);
        for case in cases {
            let (entries, orders) = (number(&case, "entries"), unsigned(&case["orders"]));
            let addressing = match scheme {
                "byte_fnv1a" => Addressing::byte_fnv1a(entries, &orders),
                _ => Addressing::utf8_fnv1a(entries, &orders),
            };
            let (addressing, ids) = (addressing.unwrap(), numbers(&case["ids"]));
            check(&addressing, &ids, Quantity::Hashes, None, &flat(&case["hashes"]));
            check(&addressing, &ids, Quantity::Rows, None, &flat(&case["rows"]));
        }
    }
}

#[test]
fn multiply_xor() {
    for case in cases("multiply_xor") {
        let (heads, orders) = (number(&case, "heads") as usize, number(&case, "max_order") as usize);
        let (counts, multipliers) = (unsigned(&case["row_counts"]), numbers(&case["multipliers"]));
        let columns = heads * (orders - 1);
        let (vocabulary, mark, entries);
        if case["layout"] == "qwen_ple" {
            let layer = number(&case, "ple_layer_index");
            vocabulary = number(&case, "vocab_size");
            assert_eq!(counts, layout::consecutive(number(&case, "base"), layer as usize * columns, columns));
            assert_eq!(multipliers, layout::splitmix_multipliers(vocabulary, orders, layer, number(&case, "seed")));
            mark = number(&case, "eos") as i64;
            entries = Some(number(&case, "padded_rows"));
            assert_eq!(entries, Some(number(&case, "total_rows").next_multiple_of(number(&case, "divisor"))));
        } else {
            vocabulary = number(&case, "compressed_vocab_size");
            let place = numbers(&case["layer_ids"]).iter().position(|&id| id == case["layer"]).unwrap();
            let sizes = vec![number(&case, "vocab_size"); orders - 1];
            assert_eq!(counts, layout::shared_search(place, &sizes, heads));
            mark = number(&case, "pad") as i64;
            entries = None;
        }
        assert_eq!(layout::offsets(&counts).unwrap(), (unsigned(&case["offsets"]), number(&case, "total_rows")));
        let mut boundary = Boundary::open(Missing::Pad(mark));
        if case["layout"] == "qwen_ple" {
            boundary.reset.push(mark);
        }
        let symbols = Symbols::Tokens(Some(vocabulary));
        let addressing =
            Addressing::multiply_xor(symbols, multipliers, heads, &counts, None, entries, boundary).unwrap();
        let dead: Option<Vec<bool>> =
            case["dead"].as_array().map(|dead| dead.iter().map(|dead| dead.as_bool().unwrap()).collect());
        let ids = numbers(if case["symbols"].is_null() { &case["ids"] } else { &case["symbols"] });
        check(&addressing, &ids, Quantity::Rows, dead.as_deref(), &flat(&case["rows"]));
    }
}

#[test]
fn polynomial() {
    for case in cases("polynomial") {
        let addressing = Addressing::polynomial(
            Symbols::Tokens(None),
            number(&case, "functions") as usize,
            &unsigned(&case["group_sizes"]),
            number(&case, "rows_per_column"),
        );
        check(&addressing.unwrap(), &numbers(&case["ids"]), Quantity::Rows, None, &flat(&case["rows"]));
    }
}

#[test]
fn vocabulary_radix() {
    for case in cases("vocabulary_radix") {
        let addressing = Addressing::vocabulary_radix(
            number(&case, "vocab_size"),
            number(&case, "ratio"),
            number(&case, "max_order"),
            number(&case, "splits"),
            false,
        );
        check(&addressing.unwrap(), &numbers(&case["ids"]), Quantity::Rows, None, &flat(&case["rows"]));
    }
}
