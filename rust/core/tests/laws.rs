//! Laws that hold for every scheme and input: layout, type, batch, threads, chunks and kernels change nothing.

use engram_core::{
    available_levels, force_level, Address, Addressing, Boundary, Call, Contiguous, Family, Id, Missing, Past,
    Quantity, Stream, Symbols,
};
use proptest::prelude::*;

fn rows<T: Id>(addressing: &Addressing, ids: &[T], batch: usize, threads: usize) -> Vec<i64> {
    let length = ids.len().checked_div(batch).unwrap_or(0);
    let ids = Contiguous::batch(ids, batch, length).unwrap();
    run(addressing, &Call { threads, ..Call::rows(&ids) })
}

fn run<O: Address>(addressing: &Addressing, call: &Call<'_>) -> Vec<O> {
    let mut out = vec![O::default(); call.ids.batch() * call.ids.length() * addressing.columns().len()];
    addressing.address(call, &mut out).unwrap();
    out
}

/// Every family word by word as its specification has it, one gram at a time, with divisions: the
/// witness against all kernels. Boundaries are applied by looking back one symbol after another.
fn plain(addressing: &Addressing, ids: &[i64], starts: &[usize], dead: &[bool]) -> Vec<i64> {
    let parts = addressing.parts();
    let symbols: Vec<i64> = ids
        .iter()
        .map(|&id| match &parts.symbols {
            Symbols::Bytes => id.wrapping_sub(3).rem_euclid(256),
            Symbols::Tokens(_) => id,
            Symbols::Map(map) => i64::from(map[id as usize]),
        })
        .collect();
    let is_dead = |at: usize| dead[at] || parts.boundary.dead.contains(&symbols[at]);
    let mut out = Vec::new();
    for at in 0..ids.len() {
        // The symbols that can be reached, newest first.
        let mut reached = Vec::new();
        let mut back = at;
        while !is_dead(back) {
            reached.push(symbols[back]);
            if back == 0 || starts.contains(&back) || parts.boundary.reset.contains(&symbols[back - 1]) {
                break;
            }
            back -= 1;
        }
        for (index, column) in parts.columns.iter().enumerate() {
            let units =
                if matches!(parts.family, Family::Utf8Fnv1a) { characters(&reached) } else { vec![1; reached.len()] };
            let known: usize = units.iter().take(column.order).sum();
            let lacking = column.order.saturating_sub(units.len());
            let mut gram: Vec<i64> = reached[..known].to_vec();
            match parts.boundary.missing {
                Missing::NullRow if lacking > 0 => {
                    out.push(0);
                    continue;
                }
                Missing::Pad(pad) => gram.extend(std::iter::repeat_n(pad, lacking)),
                Missing::NullRow => {}
            }
            out.push(address(addressing, index, &gram));
        }
    }
    out
}

/// Lengths of the characters of some symbols that are given newest first; newest character first.
fn characters(newest_first: &[i64]) -> Vec<usize> {
    let mut lengths: Vec<usize> = Vec::new();
    for &symbol in newest_first.iter().rev() {
        match lengths.last_mut() {
            Some(length) if (0x80..=0xBF).contains(&symbol) && *length < 4 => *length += 1,
            _ => lengths.push(1),
        }
    }
    lengths.reverse();
    lengths
}

fn address(addressing: &Addressing, index: usize, newest_first: &[i64]) -> i64 {
    let parts = addressing.parts();
    let column = parts.columns[index];
    let hash = match &parts.family {
        Family::ByteFnv1a | Family::Utf8Fnv1a => {
            let mut hash = 0x811C_9DC5 ^ (index as u32 + 1);
            for &symbol in newest_first.iter().rev() {
                hash = (hash ^ symbol as u32).wrapping_mul(0x0100_0193);
            }
            i64::from(hash.max(1))
        }
        Family::MultiplyXor { multipliers } => {
            newest_first.iter().zip(multipliers).fold(0, |mix, (&s, &m)| mix ^ s.wrapping_mul(m))
        }
        Family::Polynomial { primes } => {
            let mut power = 1_i64;
            newest_first.iter().rev().fold(0_i64, |hash, &symbol| {
                let term = symbol.wrapping_mul(power);
                power = power.wrapping_mul(primes[index]);
                hash.wrapping_add(term)
            })
        }
        Family::VocabularyRadix { radix } => newest_first
            .iter()
            .enumerate()
            .map(|(d, &s)| {
                let power = (0..d).fold(1_u128, |power, _| power * u128::from(*radix) % u128::from(column.rows));
                s * power as i64
            })
            .sum(),
    };
    (i128::from(hash).rem_euclid(i128::from(column.rows)) + i128::from(column.offset)) as i64
}

const VOCABULARY: u64 = 300;

fn boundaries() -> impl Strategy<Value = Boundary> {
    let marks = || prop::collection::vec(0_i64..64, 0..3);
    let missing = prop_oneof![Just(Missing::NullRow), (0_i64..64).prop_map(Missing::Pad)];
    (missing, marks(), marks()).prop_map(|(missing, reset, dead)| Boundary { missing, reset, dead })
}

/// Every family, with all kinds of boundaries and sizes.
fn schemes() -> impl Strategy<Value = Addressing> {
    let orders = || prop::collection::vec(1_u64..=9, 1..6);
    let entries = || prop_oneof![1_u64..5000, Just(2_097_143), Just(2_097_152), Just(1 << 32), Just(i64::MAX as u64)];
    let base = prop_oneof![
        (entries(), orders()).prop_map(|(entries, orders)| Addressing::byte_fnv1a(entries, &orders).unwrap()),
        (entries(), orders()).prop_map(|(entries, orders)| Addressing::utf8_fnv1a(entries, &orders).unwrap()),
        (
            prop::collection::vec(any::<i64>().prop_map(|m| m | 1), 2..6),
            1_usize..10,
            prop_oneof![2_u64..100, 4096_u64..20_000, Just(16_000_000), Just(1 << 51)],
            any::<bool>(),
        )
            .prop_map(|(multipliers, heads, base, mapped)| {
                let columns = heads * (multipliers.len() - 1);
                let counts = engram_core::layout::consecutive(base, 0, columns);
                let symbols = if mapped {
                    Symbols::Map((0..VOCABULARY as u32).map(|id| id * 7 % 101).collect())
                } else {
                    Symbols::Tokens(Some(VOCABULARY))
                };
                let boundary = Boundary::open(Missing::Pad(0));
                Addressing::multiply_xor(symbols, multipliers, heads, &counts, None, None, boundary).unwrap()
            }),
        (1_usize..=11, prop::collection::vec(1_u64..=9, 1..4), 1_u64..100_000).prop_map(|(functions, sizes, rows)| {
            Addressing::polynomial(Symbols::Tokens(None), functions, &sizes, rows).unwrap()
        }),
        (1_u64..100, 2_u64..=6, 1_u64..4, any::<bool>()).prop_map(|(ratio, order, splits, one)| {
            Addressing::vocabulary_radix(VOCABULARY, ratio, order, splits, one).unwrap()
        }),
    ];
    (base, boundaries()).prop_map(|(addressing, boundary)| addressing.with_boundary(boundary).unwrap())
}

/// Ids that often are marks, continuation bytes, and each other's neighbours.
fn ids(most: usize) -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(prop_oneof![3 => 0_i64..20, 1 => 0_i64..300, 2 => 0x83_i64..0xC3], 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_kernel_equals_the_plain_loop(addressing in schemes(), ids in ids(90), seed: u64) {
        let dead: Vec<bool> = (0..ids.len()).map(|at| (seed >> (at % 64)) & 3 == 3 && seed & 1 == 1).collect();
        let contiguous = Contiguous::sequence(&ids);
        let call = Call { dead: Some(&dead), ..Call::rows(&contiguous) };
        let wanted = plain(&addressing, &ids, &[], &dead);
        for level in available_levels() {
            force_level(Some(level));
            prop_assert_eq!(&run::<i64>(&addressing, &call), &wanted, "{:?}", level);
            if addressing.fits_int32() {
                prop_assert!(run::<i32>(&addressing, &call).into_iter().map(i64::from).eq(wanted.iter().copied()));
            }
        }
    }

    #[test]
    fn chunks_give_the_rows_of_one_call(addressing in schemes(), ids in ids(300), cuts in prop::collection::vec(0_usize..300, 0..12)) {
        let width = addressing.columns().len();
        let whole = rows(&addressing, &ids, 1, 1);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(ids.len())).chain([0, ids.len()]).collect();
        cuts.sort_unstable();
        let mut stream = Stream::new(addressing.clone(), 1);
        let mut ahead = stream.clone();
        for cut in cuts.windows(2) {
            let chunk = &ids[cut[0]..cut[1]];
            let wanted = &whole[cut[0] * width..cut[1] * width];
            let contiguous = Contiguous::sequence(chunk);
            // History that the caller keeps, as far back as he likes.
            let before = Contiguous::sequence(&ids[..cut[0]]);
            let past = Past::of(&addressing, &before).unwrap();
            prop_assert_eq!(&run::<i64>(&addressing, &Call { past: Some(&past), ..Call::rows(&contiguous) }), wanted);
            prop_assert!(past[0].symbols().len() <= 4 * addressing.lookback().max(1));
            // Going ahead and rolling back leaves nothing behind.
            let state = stream.to_bytes();
            let mut out = vec![0_i64; wanted.len()];
            ahead.push(&Call::rows(&contiguous), &mut out).unwrap();
            prop_assert_eq!(&out, wanted);
            let mut replayed = Stream::from_bytes(addressing.clone(), &state).unwrap();
            replayed.push(&Call::rows(&contiguous), &mut out).unwrap();
            prop_assert_eq!(&out, wanted);
            stream = replayed;
        }
        prop_assert_eq!(stream, ahead);
    }

    #[test]
    fn packed_and_padded_forms_agree(addressing in schemes(), sequences in prop::collection::vec(ids(40), 1..6)) {
        let packed = sequences.concat();
        let mut segments = vec![0];
        segments.extend(sequences.iter().scan(0, |end, sequence| { *end += sequence.len(); Some(*end) }));
        let contiguous = Contiguous::sequence(&packed);
        let together: Vec<i64> = run(&addressing, &Call { segments: Some(&segments), ..Call::rows(&contiguous) });
        let alone: Vec<i64> = sequences.iter().flat_map(|ids| rows(&addressing, ids, 1, 1)).collect();
        prop_assert_eq!(&together, &alone);
        prop_assert_eq!(&together, &plain(&addressing, &packed, &segments, &vec![false; packed.len()]));

        let longest = sequences.iter().map(Vec::len).max().unwrap();
        let lengths: Vec<usize> = sequences.iter().map(Vec::len).collect();
        let padded: Vec<i64> = sequences.iter().flat_map(|ids| {
            ids.iter().copied().chain(std::iter::repeat(5)).take(longest).collect::<Vec<_>>()
        }).collect();
        let batch = Contiguous::batch(&padded, sequences.len(), longest).unwrap();
        let call = Call { lengths: Some(&lengths), ..Call::rows(&batch) };
        let out: Vec<i64> = run(&addressing, &call);
        let width = addressing.columns().len();
        for (row, ids) in sequences.iter().enumerate() {
            let got = &out[row * longest * width..][..ids.len() * width];
            prop_assert_eq!(got, &rows(&addressing, ids, 1, 1));
        }
        // A stream of the padded batch remembers the sequences, not the padding.
        let mut stream = Stream::new(addressing.clone(), sequences.len());
        stream.push(&call, &mut vec![0_i64; out.len()]).unwrap();
        for (row, ids) in sequences.iter().enumerate() {
            let past = Past::of(&addressing, &Contiguous::sequence(ids)).unwrap();
            let mut one = stream.clone();
            one.reorder(&[row]).unwrap();
            let mut wanted = Stream::new(addressing.clone(), 1);
            wanted.push(&Call::rows(&Contiguous::sequence(ids)), &mut vec![0_i64; ids.len() * width]).unwrap();
            prop_assert_eq!(&one, &wanted);
            prop_assert_eq!(past.len(), 1);
        }
    }

    #[test]
    fn types_agree(addressing in schemes(), ids in prop::collection::vec(0_u8..100, 0..100)) {
        let wanted = rows(&addressing, &ids, 1, 1);
        prop_assert_eq!(&rows(&addressing, &ids.iter().map(|&id| id as i8).collect::<Vec<_>>(), 1, 1), &wanted);
        prop_assert_eq!(&rows(&addressing, &ids.iter().map(|&id| u16::from(id)).collect::<Vec<_>>(), 1, 1), &wanted);
        prop_assert_eq!(&rows(&addressing, &ids.iter().map(|&id| i32::from(id)).collect::<Vec<_>>(), 1, 1), &wanted);
        prop_assert_eq!(&rows(&addressing, &ids.iter().map(|&id| u64::from(id)).collect::<Vec<_>>(), 1, 1), &wanted);
        if addressing.parts().symbols == Symbols::Bytes {
            let far: Vec<u64> = ids.iter().map(|&id| u64::from(id) << 56 | u64::from(id)).collect();
            prop_assert_eq!(&rows(&addressing, &far, 1, 1), &wanted);
        }
    }

    #[test]
    fn json_round_trips(addressing in schemes()) {
        let again = Addressing::from_json(addressing.to_json()).unwrap();
        prop_assert_eq!(&addressing, &again);
        prop_assert_eq!(addressing.parts(), again.parts());
        prop_assert_eq!(addressing.digest(), again.digest());
    }

    #[test]
    fn hostile_json_is_an_error(text in "\\PC{0,200}") {
        prop_assert!(Addressing::from_json(&text).is_err());
    }

    #[test]
    fn damaged_json_is_an_error_or_a_valid_scheme(addressing in schemes(), at: prop::sample::Index, byte in 32_u8..127) {
        let mut text = addressing.to_json().to_owned().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(other) = Addressing::from_json(std::str::from_utf8(&text).unwrap()) {
            let again = Addressing::from_json(other.to_json()).unwrap();
            prop_assert_eq!(other, again);
        }
    }

    #[test]
    fn damaged_states_are_errors_or_valid(addressing in schemes(), ids in ids(40), at: prop::sample::Index, byte: u8) {
        let mut stream = Stream::new(addressing.clone(), 1);
        let width = addressing.columns().len();
        stream.push(&Call::rows(&Contiguous::sequence(&ids)), &mut vec![0_i64; ids.len() * width]).unwrap();
        let mut state = stream.to_bytes();
        let at = at.index(state.len());
        prop_assert!(Stream::from_bytes(addressing.clone(), &state[..at]).is_err());
        state[at] = byte;
        if let Ok(other) = Stream::from_bytes(addressing.clone(), &state) {
            prop_assert_eq!(other.to_bytes(), state);
        }
    }
}

/// Lengths around every strip, block and vector edge, and batches that a thread's share cuts through.
#[test]
fn batches_threads_and_kernels_agree() {
    let ids: Vec<u8> = (0..120_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let counts = engram_core::layout::consecutive(16_000_000, 0, 10);
    let open = Boundary::open(Missing::Pad(0));
    for addressing in [
        Addressing::byte_fnv1a(2_097_143, &[2, 3, 4]).unwrap(),
        Addressing::byte_fnv1a(2_097_152, &[1, 5, 64, 7, 2]).unwrap(),
        Addressing::utf8_fnv1a(2_097_143, &[2, 6]).unwrap(),
        Addressing::multiply_xor(Symbols::Tokens(Some(256)), vec![77, -5, 3], 5, &counts, None, None, open).unwrap(),
        Addressing::polynomial(Symbols::Tokens(None), 2, &[3, 8], 500_002).unwrap(),
    ] {
        let width = addressing.columns().len();
        for length in (1..=70).chain([511, 512, 513, 1025, 16_384, 16_385, 50_000]) {
            let batch = (ids.len() / length).min(3 + 40_000 / length);
            let ids = &ids[..batch * length];
            let wanted: Vec<i64> = ids.chunks(length).flat_map(|row| rows(&addressing, row, 1, 1)).collect();
            for level in available_levels() {
                force_level(Some(level));
                assert!(rows(&addressing, ids, batch, 3) == wanted, "length {length}, {level:?}, width {width}");
            }
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

#[test]
fn hashes_leave_the_remainder_to_others() {
    let ids: Vec<i64> = (0..100).map(|i| i * i % 256).collect();
    let contiguous = Contiguous::sequence(&ids);
    let counts = engram_core::layout::consecutive(1000, 0, 4);
    let open = Boundary::open(Missing::Pad(0));
    for addressing in [
        Addressing::byte_fnv1a(977, &[2, 3]).unwrap(),
        Addressing::utf8_fnv1a(977, &[2, 3]).unwrap(),
        Addressing::multiply_xor(Symbols::Tokens(None), vec![i64::MAX, -9, 5], 2, &counts, None, None, open).unwrap(),
        Addressing::polynomial(Symbols::Tokens(None), 2, &[3], 50).unwrap(),
        Addressing::vocabulary_radix(256, 3, 4, 2, true).unwrap(),
    ] {
        let hashes: Vec<i64> = run(&addressing, &Call { quantity: Quantity::Hashes, ..Call::rows(&contiguous) });
        let rows: Vec<i64> = run(&addressing, &Call::rows(&contiguous));
        for (position, (hashes, rows)) in
            hashes.chunks(addressing.columns().len()).zip(rows.chunks(addressing.columns().len())).enumerate()
        {
            for ((hash, row), column) in hashes.iter().zip(rows).zip(addressing.columns()) {
                let wanted = hash.rem_euclid(column.rows as i64) + column.offset as i64;
                assert_eq!(*row, wanted, "position {position}");
            }
        }
    }
}
