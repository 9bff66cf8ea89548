//! Where a UTF-8 character starts, for any bytes: orders of `utf8_fnv1a` count characters.

/// The most symbols that a character holds.
pub const MAX_CHARACTER: usize = 4;

/// Whether a symbol goes on in the character before it, where that has room.
#[inline]
pub(crate) fn is_continuation(symbol: u8) -> bool {
    symbol & 0xC0 == 0x80
}

/// Follows a sequence of symbols and knows how full the current character is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Characters {
    filled: u8,
}

impl Characters {
    /// Whether `symbol` starts a character. `first` is true where nothing before it can be reached.
    #[inline]
    pub fn starts(&mut self, symbol: u8, first: bool) -> bool {
        if first || !is_continuation(symbol) || usize::from(self.filled) == MAX_CHARACTER {
            self.filled = 1;
            return true;
        }
        self.filled += 1;
        false
    }
}
