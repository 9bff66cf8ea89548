//! Families whose grams have a fixed number of symbols: blocks of a sequence, fast, then mended.

use crate::addressing::{Addressing, MAX_ORDER};
use crate::boundary::Reach;
use crate::call::Call;

use super::{fast, gram, Address};

/// Positions a block: its symbols and hashes stay in the first cache level.
pub(super) const BLOCK: usize = 512;
/// The most symbols before a block.
pub(super) const LEAD: usize = MAX_ORDER - 1;
/// Symbols after a block that a vector may read and not use.
pub(super) const TAIL: usize = 32;
/// Positions that token hashes take at a time: with 24 columns their rows fill a third of the cache.
pub(super) const STRIP: usize = 64;
/// Room for one block.
pub(super) const ROOM: usize = LEAD + BLOCK + TAIL;

/// A symbol as a block holds it.
pub(super) trait Symbol: Copy + Default + PartialEq {
    /// Fills `out` with the symbols of a sequence.
    fn load(addressing: &Addressing, call: &Call<'_>, row: usize, start: usize, out: &mut [Self]);
    /// A symbol of a past.
    fn narrow(symbol: i64) -> Self;
    /// The symbol as every other part knows it.
    fn widen(self) -> i64;
    /// Hashes a whole block as if nothing bounded it.
    fn block<O: Address>(addressing: &Addressing, call: &Call<'_>, symbols: &[Self; ROOM], out: &mut [O]);
}

impl Symbol for u8 {
    fn load(_: &Addressing, call: &Call<'_>, row: usize, start: usize, out: &mut [Self]) {
        call.ids.bytes(row, start, out);
    }

    fn narrow(symbol: i64) -> Self {
        symbol as u8
    }

    fn widen(self) -> i64 {
        i64::from(self)
    }

    fn block<O: Address>(addressing: &Addressing, call: &Call<'_>, symbols: &[Self; ROOM], out: &mut [O]) {
        fast::bytes(addressing, call.quantity, symbols, out);
    }
}

impl Symbol for i64 {
    fn load(addressing: &Addressing, call: &Call<'_>, row: usize, start: usize, out: &mut [Self]) {
        call.ids.tokens(row, start, out);
        if let crate::addressing::Symbols::Map(map) = &addressing.parts().symbols {
            for symbol in out {
                // The ids were checked; one that another thread changed since must not end the process.
                *symbol = map.get(*symbol as usize).map_or(0, |&mapped| i64::from(mapped));
            }
        }
    }

    fn narrow(symbol: i64) -> Self {
        symbol
    }

    fn widen(self) -> i64 {
        self
    }

    fn block<O: Address>(addressing: &Addressing, call: &Call<'_>, symbols: &[Self; ROOM], out: &mut [O]) {
        fast::tokens(addressing, call.quantity, symbols, out);
    }
}

/// Fills `out`, `[positions, columns]`, for the positions of sequence `row` from `start` on.
pub(super) fn sequence<S: Symbol, O: Address>(
    addressing: &Addressing,
    call: &Call<'_>,
    row: usize,
    start: usize,
    out: &mut [O],
) {
    let columns = addressing.columns().len();
    if out.len() / columns <= FEW {
        few::<S, O>(addressing, call, row, start, out);
        return;
    }
    let mut symbols = [S::default(); ROOM];
    for (index, out) in out.chunks_mut(BLOCK * columns).enumerate() {
        block(addressing, call, row, start + index * BLOCK, &mut symbols, out);
    }
}

fn block<S: Symbol, O: Address>(
    addressing: &Addressing,
    call: &Call<'_>,
    row: usize,
    position: usize,
    symbols: &mut [S; ROOM],
    out: &mut [O],
) {
    let count = out.len() / addressing.columns().len();
    let lead = load(addressing, call, row, position, count, symbols);
    S::block(addressing, call, symbols, out);
    mend(addressing, call, row, position, lead, symbols, out);
}

/// A step of decoding, or little more: every gram by itself, in a small space.
fn few<S: Symbol, O: Address>(addressing: &Addressing, call: &Call<'_>, row: usize, start: usize, out: &mut [O]) {
    let mut symbols = [S::default(); LEAD + FEW];
    let count = out.len() / addressing.columns().len();
    let lead = load(addressing, call, row, start, count, &mut symbols);
    if is_bounded(addressing, call, &symbols[LEAD - lead..LEAD + count]) {
        each(addressing, call, row, start, lead, &symbols, out, usize::MAX);
    } else {
        start_of_sequence(addressing, call, lead, &symbols, count, out);
    }
}

/// Up to so many positions, a vector's worth costs more than each by itself.
const FEW: usize = 2;

/// Puts a block's symbols at `LEAD …` and what stands before them in front; gives how many do.
fn load<S: Symbol>(
    addressing: &Addressing,
    call: &Call<'_>,
    row: usize,
    position: usize,
    count: usize,
    symbols: &mut [S],
) -> usize {
    let lookback = addressing.plan().lookback;
    let own = position.min(lookback);
    S::load(addressing, call, row, position - own, &mut symbols[LEAD - own..LEAD + count]);
    let past = call.past.map_or(&[][..], |past| past[row].symbols());
    let before = past.len().min(lookback - own);
    for (symbol, &past) in symbols[LEAD - own - before..].iter_mut().zip(&past[past.len() - before..]) {
        *symbol = S::narrow(past);
    }
    own + before
}

/// Does the positions again whose longest gram a boundary cuts.
fn mend<S: Symbol, O: Address>(
    addressing: &Addressing,
    call: &Call<'_>,
    row: usize,
    position: usize,
    lead: usize,
    symbols: &[S],
    out: &mut [O],
) {
    let order = addressing.plan().order;
    let count = out.len() / addressing.columns().len();
    if is_bounded(addressing, call, &symbols[LEAD - lead..LEAD + count]) {
        each(addressing, call, row, position, lead, symbols, out, order);
    } else {
        start_of_sequence(addressing, call, lead, symbols, (order - 1).saturating_sub(lead), out);
    }
}

/// Whether anything but the start of the sequence can cut a gram among these symbols.
fn is_bounded<S: Symbol>(addressing: &Addressing, call: &Call<'_>, symbols: &[S]) -> bool {
    let boundary = &addressing.parts().boundary;
    // A look for a few marks goes by vectors, and most blocks hold none.
    let marked = || {
        boundary.reset.len() + boundary.dead.len() > 8
            || boundary.marks().any(|mark| symbols.contains(&S::narrow(mark)))
    };
    call.has_cuts() || (boundary.has_marks() && marked())
}

/// The first `count` positions, `lead` positions after the start of a sequence that nothing else bounds.
fn start_of_sequence<S: Symbol, O: Address>(
    addressing: &Addressing,
    call: &Call<'_>,
    lead: usize,
    symbols: &[S],
    count: usize,
    out: &mut [O],
) {
    let columns = addressing.columns().len();
    for (index, out) in out.chunks_exact_mut(columns).take(count).enumerate() {
        let back = |k: usize| symbols[LEAD + index - k].widen();
        gram::position(addressing, call.quantity, lead + index + 1, back, out);
    }
}

/// Follows the reach over the block and does every position again whose reach is below `order`.
#[allow(clippy::too_many_arguments)]
fn each<S: Symbol, O: Address>(
    addressing: &Addressing,
    call: &Call<'_>,
    row: usize,
    position: usize,
    lead: usize,
    symbols: &[S],
    out: &mut [O],
    order: usize,
) {
    let boundary = &addressing.parts().boundary;
    let columns = addressing.columns().len();
    let count = out.len() / columns;
    let mut marks = Marks::new(call, row, position as isize - lead as isize);
    let mut reach = Reach::default();
    for index in 0..lead + count {
        let at = LEAD - lead + index;
        let (starts, dead) = marks.next();
        let here = reach.step(boundary, symbols[at].widen(), starts, dead) as usize;
        if index >= lead && here < order {
            let out = &mut out[(index - lead) * columns..][..columns];
            gram::position(addressing, call.quantity, here, |k| symbols[at - k].widen(), out);
        }
    }
}

/// What a call says of each position of a sequence, from some position on; negative ones are past.
pub(super) struct Marks<'a> {
    call: &'a Call<'a>,
    row: usize,
    position: isize,
    next_segment: usize,
}

impl<'a> Marks<'a> {
    pub fn new(call: &'a Call<'a>, row: usize, position: isize) -> Self {
        let next_segment =
            call.segments.map_or(0, |segments| segments.partition_point(|&start| (start as isize) < position));
        Self { call, row, position, next_segment }
    }

    /// Whether the next position starts a segment, and whether it is dead.
    #[inline]
    pub fn next(&mut self) -> (bool, bool) {
        let position = self.position;
        self.position += 1;
        if position < 0 {
            return (false, false);
        }
        let position = position as usize;
        let mut starts = false;
        if let Some(segments) = self.call.segments {
            let before = self.next_segment;
            while segments.get(self.next_segment) == Some(&position) {
                self.next_segment += 1;
            }
            // A past belongs to the first segment, which may be empty.
            starts = self.next_segment - before > usize::from(position == 0);
        }
        let masked = self.call.dead.is_some_and(|dead| dead[self.row * self.call.ids.length() + position]);
        let padding = self.call.lengths.is_some_and(|lengths| position >= lengths[self.row]);
        (starts, masked || padding)
    }
}
