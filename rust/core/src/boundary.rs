//! What stands before a position, and what ends the reach of a lookback.

/// What takes the place of a symbol that a gram cannot reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The gram has no hash, and the position gets row 0.
    NullRow,
    /// This symbol.
    Pad(i64),
}

/// The boundary of a scheme, in symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary {
    /// What takes the place of a symbol that a gram cannot reach.
    pub missing: Missing,
    /// After any of these, no later gram reaches back to it. Ascending.
    pub reset: Vec<i64>,
    /// None of these is ever part of a gram: they end the reach of later ones and have none. Ascending.
    pub dead: Vec<i64>,
}

impl Boundary {
    /// A sequence is one document.
    pub fn open(missing: Missing) -> Self {
        Self { missing, reset: Vec::new(), dead: Vec::new() }
    }

    /// Whether a symbol may end a reach.
    pub fn has_marks(&self) -> bool {
        !(self.reset.is_empty() && self.dead.is_empty())
    }

    #[inline]
    pub(crate) fn is_reset(&self, symbol: i64) -> bool {
        is_among(&self.reset, symbol)
    }

    #[inline]
    pub(crate) fn is_dead(&self, symbol: i64) -> bool {
        is_among(&self.dead, symbol)
    }

    /// All symbols that may end a reach.
    pub(crate) fn marks(&self) -> impl Iterator<Item = i64> + '_ {
        self.reset.iter().chain(&self.dead).copied()
    }
}

/// Whether a symbol is in an ascending list, which mostly has one element or none.
#[inline]
fn is_among(marks: &[i64], symbol: i64) -> bool {
    if marks.len() <= 8 {
        marks.contains(&symbol)
    } else {
        marks.binary_search(&symbol).is_ok()
    }
}

/// How many symbols, itself included, a position can reach back over: 0 for a dead one.
///
/// Everything that bounds a lookback is in this one number: the start of the sequence, a reset, a dead
/// symbol, a segment of a packed sequence, a padded tail.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reach {
    count: u32,
}

impl Reach {
    /// The reach of what stands after so many symbols that can all be reached.
    pub fn after(count: usize) -> Self {
        Self { count: count as u32 }
    }

    /// Steps over one position and gives its reach.
    #[inline]
    pub fn step(&mut self, boundary: &Boundary, symbol: i64, starts: bool, dead: bool) -> u32 {
        if starts {
            self.count = 0;
        }
        self.count = if dead || boundary.is_dead(symbol) { 0 } else { self.count.saturating_add(1) };
        let here = self.count;
        if boundary.is_reset(symbol) {
            self.count = 0;
        }
        here
    }

    /// What the next position could reach before itself.
    pub fn left(self) -> u32 {
        self.count
    }
}
