//! `utf8_fnv1a`: grams end at a position and begin where a character does.

use crate::addressing::{Addressing, MAX_ORDER};
use crate::boundary::{Missing, Reach};
use crate::call::Call;
use crate::characters::{is_continuation, Characters};

use super::block::Marks;
use super::{gram, Address};

/// Fills `out` for the positions of sequence `row` from `start` on.
pub(super) fn sequence<O: Address>(addressing: &Addressing, call: &Call<'_>, row: usize, start: usize, out: &mut [O]) {
    let parts = addressing.parts();
    let columns = parts.columns.len();
    let count = out.len() / columns;
    let from = anchor(addressing, call, row, start);
    let past = if from == 0 { call.past.map_or(&[][..], |past| past[row].symbols()) } else { &[] };
    let mut symbols = vec![0_u8; past.len() + start - from + count];
    for (symbol, &past) in symbols.iter_mut().zip(past) {
        *symbol = past as u8;
    }
    call.ids.bytes(row, from, &mut symbols[past.len()..]);

    let mut marks = Marks::new(call, row, from as isize - past.len() as isize);
    let (mut reach, mut characters, mut starts) = (Reach::default(), Characters::default(), Starts::default());
    let skip = past.len() + start - from;
    for (index, &symbol) in symbols.iter().enumerate() {
        let (segment, dead) = marks.next();
        let here = reach.step(&parts.boundary, i64::from(symbol), segment, dead);
        if here <= 1 {
            starts.clear();
        }
        if here > 0 && characters.starts(symbol, here == 1) {
            starts.push(index);
        }
        if index < skip {
            continue;
        }
        let out = &mut out[(index - skip) * columns..][..columns];
        for (column, (spec, out)) in parts.columns.iter().zip(out).enumerate() {
            let back = |k: usize| match parts.boundary.missing {
                Missing::Pad(pad) if k >= here as usize => pad,
                _ => i64::from(symbols[index - k]),
            };
            *out = match (starts.back(spec.order), parts.boundary.missing) {
                (Some(first), _) => gram::whole(addressing, call.quantity, column, index - first + 1, back),
                (None, Missing::NullRow) => O::default(),
                // Each missing character is one pad symbol.
                (None, Missing::Pad(_)) => {
                    let length = here as usize + spec.order - starts.count();
                    gram::whole(addressing, call.quantity, column, length, back)
                }
            };
        }
    }
}

/// The last position up to which the characters can be told without what stands before it, and before
/// which no gram from `start` on reaches.
fn anchor(addressing: &Addressing, call: &Call<'_>, row: usize, start: usize) -> usize {
    let mut symbols = [0_u8; 256];
    let mut end = start.saturating_sub(addressing.plan().lookback);
    // Any symbol that is no continuation starts a character, whatever stands before it.
    while end > 0 {
        let from = end.saturating_sub(symbols.len());
        let symbols = &mut symbols[..end - from];
        call.ids.bytes(row, from, symbols);
        if let Some(found) = symbols.iter().rposition(|&symbol| !is_continuation(symbol)) {
            return from + found;
        }
        end = from;
    }
    0
}

/// Where the last characters started.
struct Starts {
    ring: [usize; MAX_ORDER],
    count: usize,
}

impl Default for Starts {
    fn default() -> Self {
        Self { ring: [0; MAX_ORDER], count: 0 }
    }
}

impl Starts {
    fn clear(&mut self) {
        self.count = 0;
    }

    #[inline]
    fn push(&mut self, index: usize) {
        self.ring[self.count % MAX_ORDER] = index;
        self.count += 1;
    }

    fn count(&self) -> usize {
        self.count
    }

    /// Where the character `order - 1` before the current one started.
    #[inline]
    fn back(&self, order: usize) -> Option<usize> {
        self.count.checked_sub(order).map(|index| self.ring[index % MAX_ORDER])
    }
}
