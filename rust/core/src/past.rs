//! What a stream remembers of a sequence: the symbols that later grams may still reach.

use crate::addressing::{Addressing, Family, Quantity};
use crate::boundary::Reach;
use crate::characters::Characters;
use crate::kernel::{self, Address};

/// The reachable symbols before a position, oldest first.
///
/// Nothing else is needed. A boundary empties it, so what it holds can all be reached. For orders that
/// count characters it begins where a character does, so that following it gives the same characters
/// again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    symbols: Vec<i64>,
}

impl Past {
    /// The symbols, oldest first.
    pub fn symbols(&self) -> &[i64] {
        &self.symbols
    }

    /// Takes symbols that [`Self::symbols`] gave; `None` if they cannot be a past of this scheme.
    pub fn from_symbols(addressing: &Addressing, symbols: Vec<i64>) -> Option<Self> {
        let mut past = Self::default();
        past.extend(addressing, symbols.iter().copied());
        let known = symbols.iter().all(|&symbol| addressing.has_symbol(symbol));
        (known && past.symbols == symbols).then_some(past)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.symbols.clear();
    }

    /// Goes on over more symbols of the same sequence.
    pub fn extend(&mut self, addressing: &Addressing, symbols: impl Iterator<Item = i64>) {
        self.extend_masked(addressing, symbols.map(|symbol| (symbol, false)));
    }

    /// The same, where some positions are dead.
    pub(crate) fn extend_masked(&mut self, addressing: &Addressing, symbols: impl Iterator<Item = (i64, bool)>) {
        let boundary = &addressing.parts().boundary;
        for (symbol, dead) in symbols {
            let mut reach = Reach::default();
            if reach.step(boundary, symbol, false, dead) == 0 {
                self.symbols.clear();
                continue;
            }
            self.symbols.push(symbol);
            if reach.left() == 0 {
                self.symbols.clear();
            }
            // Trimming in strides keeps the cost of a symbol constant.
            if self.symbols.len() >= 8 * (addressing.lookback() + 1) {
                self.trim(addressing);
            }
        }
        self.trim(addressing);
    }

    /// One more symbol of a family whose grams count symbols: writes its addresses and remembers it.
    #[inline]
    pub(crate) fn step<O: Address>(&mut self, addressing: &Addressing, quantity: Quantity, symbol: i64, out: &mut [O]) {
        let before = &self.symbols[..];
        let mut reach = Reach::after(before.len());
        let here = reach.step(&addressing.parts().boundary, symbol, false, false) as usize;
        let back = |k| if k == 0 { symbol } else { before[before.len() - k] };
        kernel::position(addressing, quantity, here, back, out);
        let lookback = addressing.plan().lookback;
        if reach.left() == 0 || lookback == 0 {
            self.symbols.clear();
        } else if before.len() < lookback {
            self.symbols.push(symbol);
        } else {
            self.symbols.copy_within(1.., 0);
            self.symbols[lookback - 1] = symbol;
        }
    }

    /// Drops what no later gram reaches.
    fn trim(&mut self, addressing: &Addressing) {
        let plan = addressing.plan();
        let keep_from = if matches!(addressing.parts().family, Family::Utf8Fnv1a) {
            let mut characters = Characters::default();
            let starts: Vec<usize> = self
                .symbols
                .iter()
                .enumerate()
                .filter(|&(index, &symbol)| characters.starts(symbol as u8, index == 0))
                .map(|(index, _)| index)
                .collect();
            // The next symbol may go on in the last character, so all `order` last ones count.
            starts.len().checked_sub(plan.order).map_or(0, |oldest| starts[oldest])
        } else {
            self.symbols.len().saturating_sub(plan.lookback)
        };
        self.symbols.drain(..keep_from);
    }
}
