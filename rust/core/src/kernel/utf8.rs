//! `utf8_fnv1a`: grams end at a position and begin where a character does.

use crate::addressing::{Addressing, MAX_ORDER};
use crate::boundary::{Boundary, Missing, Reach};
use crate::call::Call;
use crate::characters::{is_continuation, Characters, MAX_CHARACTER};

use super::block::{Marks, STRIP};
use super::{fast, gram, Address};

/// Fills `out` for the positions of sequence `row` from `start` on.
pub(super) fn sequence<O: Address>(addressing: &Addressing, call: &Call<'_>, row: usize, start: usize, out: &mut [O]) {
    let parts = addressing.parts();
    let columns = parts.columns.len();
    let count = out.len() / columns;
    let from = anchor(addressing, call, row, start);
    let past = if from == 0 { call.past.map_or(&[][..], |past| past[row].symbols()) } else { &[] };
    // Vectors read before a short gram and after the last position, and use nothing of it.
    let front = addressing.plan().lookback;
    let mut symbols = vec![0_u8; front + past.len() + start - from + count + STRIP];
    for (symbol, &past) in symbols[front..].iter_mut().zip(past) {
        *symbol = past as u8;
    }
    let own = front + past.len();
    call.ids.bytes(row, from, &mut symbols[own..own + start - from + count]);

    let mut walk = Walk {
        boundary: &parts.boundary,
        marks: Marks::new(call, row, from as isize - past.len() as isize),
        reach: Reach::default(),
        characters: Characters::default(),
        starts: Starts::default(),
        at: front,
    };
    while walk.at < own + start - from {
        walk.step(&symbols);
    }
    let mut lengths = vec![[0_u16; STRIP]; columns];
    for out in out.chunks_mut(STRIP * columns) {
        let first = walk.at;
        for (index, out) in out.chunks_exact_mut(columns).enumerate() {
            let reach = walk.step(&symbols);
            for (column, (spec, lengths)) in parts.columns.iter().zip(&mut lengths).enumerate() {
                let start = walk.starts.back(spec.order);
                lengths[index] = start.map_or(0, |start| (first + index - start + 1) as u16);
                if let (None, Missing::Pad(pad)) = (start, parts.boundary.missing) {
                    // Each missing character is one pad symbol.
                    let back = |k: usize| if k >= reach { pad } else { i64::from(symbols[first + index - k]) };
                    let length = reach + spec.order - walk.starts.count();
                    out[column] = gram::whole(addressing, call.quantity, column, length, back);
                }
            }
        }
        for (column, lengths) in lengths.iter().enumerate() {
            let rows = fast::grams(column, lengths, &symbols, first);
            let cells = out[column..].iter_mut().step_by(columns);
            for ((cell, &hash), &length) in cells.zip(&rows).zip(lengths) {
                if length > 0 {
                    *cell = gram::finish(addressing, call.quantity, column, i64::from(hash));
                } else if parts.boundary.missing == Missing::NullRow {
                    *cell = O::default();
                }
            }
        }
    }
}

/// Goes over a sequence and knows where the last characters started that can be reached.
struct Walk<'a> {
    boundary: &'a Boundary,
    marks: Marks<'a>,
    reach: Reach,
    characters: Characters,
    starts: Starts,
    at: usize,
}

impl Walk<'_> {
    /// Steps over one position and gives its reach.
    #[inline]
    fn step(&mut self, symbols: &[u8]) -> usize {
        let symbol = symbols[self.at];
        let (segment, dead) = self.marks.next();
        let reach = self.reach.step(self.boundary, i64::from(symbol), segment, dead);
        if reach <= 1 {
            self.starts.clear();
        }
        if reach > 0 && self.characters.starts(symbol, reach == 1) {
            self.starts.push(self.at);
        }
        self.at += 1;
        reach as usize
    }
}

/// The last position up to which the characters can be told without what stands before it, and before
/// which no gram from `start` on reaches.
fn anchor(addressing: &Addressing, call: &Call<'_>, row: usize, start: usize) -> usize {
    let mut symbols = [0_u8; 256];
    let wanted = start.saturating_sub(addressing.plan().lookback);
    let mut end = wanted;
    let bounded = call.has_cuts() || addressing.parts().boundary.has_marks();
    // In a run of continuations every fourth position after a start is a start again, unless a boundary
    // comes between: so a long run need not be gone through once more for each part of a sequence.
    let skip = |found: usize| if bounded { found } else { found + (wanted - found) / MAX_CHARACTER * MAX_CHARACTER };
    // Any symbol that is no continuation starts a character, whatever stands before it.
    while end > 0 {
        let from = end.saturating_sub(symbols.len());
        let symbols = &mut symbols[..end - from];
        call.ids.bytes(row, from, symbols);
        if let Some(found) = symbols.iter().rposition(|&symbol| !is_continuation(symbol)) {
            return skip(from + found);
        }
        end = from;
    }
    // A past may hold the beginning of the character that the first symbol goes on in.
    if call.past.is_some() {
        0
    } else {
        skip(0)
    }
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
