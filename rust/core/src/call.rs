//! One address call: the ids, what stands before them, and what cuts them.

use crate::addressing::{Addressing, Quantity};
use crate::error::Error;
use crate::kernel::{self, Address};
use crate::past::Past;
use crate::symbols::Ids;

/// What to address. Only `ids` must be given.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The ids.
    pub ids: &'a dyn Ids,
    /// Rows, or hashes before the remainder.
    pub quantity: Quantity,
    /// What stands before each sequence: one a sequence.
    pub past: Option<&'a [Past]>,
    /// Positions that are no part of any gram, `[batch, length]`.
    pub dead: Option<&'a [bool]>,
    /// How many ids of each sequence count; the rest is padding.
    pub lengths: Option<&'a [usize]>,
    /// Where the segments of one packed sequence begin, and where the last ends: 0, …, length.
    pub segments: Option<&'a [usize]>,
    /// At most this many threads.
    pub threads: usize,
}

impl<'a> Call<'a> {
    /// The rows of some ids, on one thread, with nothing before them.
    pub fn rows(ids: &'a dyn Ids) -> Self {
        Self { ids, quantity: Quantity::Rows, past: None, dead: None, lengths: None, segments: None, threads: 1 }
    }

    /// Whether the call itself may end the reach of a gram.
    pub(crate) fn has_cuts(&self) -> bool {
        self.dead.is_some() || self.lengths.is_some() || self.segments.is_some()
    }

    fn check(&self, addressing: &Addressing) -> Result<(), Error> {
        let (batch, length) = (self.ids.batch(), self.ids.length());
        if let Some(past) = self.past {
            if past.len() != batch {
                return Err(Error::new(format!("the history has {} sequences, the ids {batch}", past.len())));
            }
        }
        if let Some(dead) = self.dead {
            if dead.len() != batch * length {
                return Err(Error::new(format!(
                    "the mask of dead positions has {} elements, the ids {}",
                    dead.len(),
                    batch * length
                )));
            }
        }
        if let Some(lengths) = self.lengths {
            if lengths.len() != batch {
                return Err(Error::new(format!("{} lengths were given for {batch} sequences", lengths.len())));
            }
            if let Some(long) = lengths.iter().find(|&&given| given > length) {
                return Err(Error::new(format!("a length of {long} was given; the sequences have {length} ids")));
            }
        }
        if let Some(segments) = self.segments {
            let ascending = segments.windows(2).all(|pair| pair[0] <= pair[1]);
            if batch != 1 || segments.first() != Some(&0) || segments.last() != Some(&length) || !ascending {
                return Err(Error::new(format!(
                    "cu_seqlens must ascend from 0 to {length} over one packed sequence; \
                     {} values from {:?} to {:?} were given for {batch} sequences",
                    segments.len(),
                    segments.first(),
                    segments.last()
                )));
            }
        }
        addressing.check_ids(self.ids)
    }
}

impl Addressing {
    /// Writes `[batch, length, columns]` rows or hashes into `out`.
    ///
    /// # Errors
    /// If a part of the call does not fit another, or an id has no symbol. Then nothing was written.
    ///
    /// # Panics
    /// If `out` has not exactly `batch * length * columns` elements.
    pub fn address<O: Address>(&self, call: &Call<'_>, out: &mut [O]) -> Result<(), Error> {
        self.check(call, out)?;
        kernel::run(self, call, out);
        Ok(())
    }

    /// Everything that must hold before a call writes.
    pub(crate) fn check<O: Address>(&self, call: &Call<'_>, out: &[O]) -> Result<(), Error> {
        call.check(self)?;
        let fits = call.quantity == Quantity::Rows && self.fits_int32();
        if !O::WIDE && !fits {
            return Err(Error::new(match call.quantity {
                Quantity::Rows => format!("int32 holds no rows above 2^31 - 1, and the table has {}", self.entries()),
                Quantity::Hashes => "int32 does not hold hashes; they are int64".into(),
            }));
        }
        let positions = call.ids.batch() * call.ids.length();
        assert_eq!(
            out.len(),
            positions * self.columns().len(),
            "the output must have batch * length * columns elements"
        );
        Ok(())
    }
}
