//! History for chunked and step-by-step decoding: any chunks give the rows of one call.

use crate::addressing::{Addressing, Family};
use crate::call::Call;
use crate::characters::is_continuation;
use crate::error::Error;
use crate::kernel::Address;
use crate::past::Past;
use crate::symbols::Ids;

/// The pasts of a batch of sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    addressing: Addressing,
    pasts: Vec<Past>,
}

impl Stream {
    /// `batch` sequences at their start.
    pub fn new(addressing: Addressing, batch: usize) -> Self {
        Self { addressing, pasts: vec![Past::default(); batch] }
    }

    /// The scheme.
    pub fn addressing(&self) -> &Addressing {
        &self.addressing
    }

    /// How many sequences there are.
    pub fn batch(&self) -> usize {
        self.pasts.len()
    }

    /// Addresses the next ids of every sequence, and remembers them. `call.past` is this stream's own.
    ///
    /// # Errors
    /// Those of [`Addressing::address`]; the stream is then as before.
    pub fn push<O: Address>(&mut self, call: &Call<'_>, out: &mut [O]) -> Result<(), Error> {
        if call.ids.batch() != self.pasts.len() {
            return Err(Error::new(format!(
                "the ids have {} sequences, the stream {}",
                call.ids.batch(),
                self.pasts.len()
            )));
        }
        if call.ids.length() == 1 && !call.has_cuts() && !matches!(self.addressing.parts().family, Family::Utf8Fnv1a) {
            return self.step(call, out);
        }
        self.addressing.address(&Call { past: Some(&self.pasts), ..*call }, out)?;
        for (row, past) in self.pasts.iter_mut().enumerate() {
            advance(&self.addressing, call, row, past);
        }
        Ok(())
    }

    /// One id of every sequence: what decoding asks for, without the room that longer chunks need.
    fn step<O: Address>(&mut self, call: &Call<'_>, out: &mut [O]) -> Result<(), Error> {
        let Self { addressing, pasts } = self;
        addressing.check(call, out)?;
        for ((row, past), out) in pasts.iter_mut().enumerate().zip(out.chunks_exact_mut(addressing.columns().len())) {
            let mut id = [0];
            call.ids.tokens(row, 0, &mut id);
            past.step(addressing, call.quantity, addressing.symbol(id[0]), out);
        }
        Ok(())
    }

    /// Begins the given sequences anew; `None` for all.
    ///
    /// # Errors
    /// If there is no such sequence; then none is begun anew.
    pub fn reset(&mut self, rows: Option<&[usize]>) -> Result<(), Error> {
        let Some(rows) = rows else {
            self.pasts.iter_mut().for_each(Past::clear);
            return Ok(());
        };
        self.check_rows(rows)?;
        for &row in rows {
            self.pasts[row].clear();
        }
        Ok(())
    }

    /// Makes sequence `i` go on from what sequence `indices[i]` was; their number may change.
    ///
    /// # Errors
    /// If there is no such sequence; then nothing is changed.
    pub fn reorder(&mut self, indices: &[usize]) -> Result<(), Error> {
        self.check_rows(indices)?;
        self.pasts = indices.iter().map(|&index| self.pasts[index].clone()).collect();
        Ok(())
    }

    fn check_rows(&self, rows: &[usize]) -> Result<(), Error> {
        match rows.iter().find(|&&row| row >= self.pasts.len()) {
            Some(row) => Err(Error::new(format!("there is no sequence {row}; the stream has {}", self.pasts.len()))),
            None => Ok(()),
        }
    }

    /// All that it remembers, as bytes: a version, the scheme's digest, the pasts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.addressing.digest().as_bytes());
        bytes.extend((self.pasts.len() as u64).to_le_bytes());
        for past in &self.pasts {
            bytes.extend((past.symbols().len() as u64).to_le_bytes());
            bytes.extend(past.symbols().iter().flat_map(|symbol| symbol.to_le_bytes()));
        }
        bytes
    }

    /// Reads what [`Self::to_bytes`] gave.
    ///
    /// # Errors
    /// If the bytes are damaged or belong to another scheme.
    pub fn from_bytes(addressing: Addressing, bytes: &[u8]) -> Result<Self, Error> {
        let damaged = || Error::new("this is not the state of a stream");
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let (digest, mut rest) = rest.split_at_checked(64).ok_or_else(damaged)?;
        if digest != addressing.digest().as_bytes() {
            return Err(Error::new(format!(
                "the state belongs to the scheme with digest {}, not to {}",
                String::from_utf8_lossy(digest),
                addressing.digest()
            )));
        }
        let mut number = || -> Option<u64> {
            let (now, later) = rest.split_first_chunk()?;
            rest = later;
            Some(u64::from_le_bytes(*now))
        };
        let batch = number().ok_or_else(damaged)?;
        let mut pasts = Vec::new();
        for _ in 0..batch {
            let length = number().ok_or_else(damaged)?;
            let symbols = (0..length).map(|_| Some(number()? as i64)).collect::<Option<Vec<_>>>();
            let past = symbols.and_then(|symbols| Past::from_symbols(&addressing, symbols));
            pasts.push(past.ok_or_else(damaged)?);
        }
        if !rest.is_empty() {
            return Err(damaged());
        }
        Ok(Self { addressing, pasts })
    }
}

const MAGIC: &[u8] = b"engram-stream-v1";

impl Past {
    /// The past after some ids: what `addressing` makes of a history that its caller keeps.
    pub fn of(addressing: &Addressing, ids: &dyn Ids) -> Result<Vec<Self>, Error> {
        addressing.check_ids(ids)?;
        let call = Call::rows(ids);
        let mut pasts = Vec::new();
        pasts
            .try_reserve_exact(ids.batch())
            .map_err(|_| Error::new(format!("a history of {} sequences does not fit memory", ids.batch())))?;
        pasts.resize(ids.batch(), Self::default());
        for (row, past) in pasts.iter_mut().enumerate() {
            advance(addressing, &call, row, past);
        }
        Ok(pasts)
    }
}

/// Ids that are read at a time: few, since a step of decoding has one.
const ADVANCE: usize = 32;

/// Goes on over the ids of one sequence of a call.
fn advance(addressing: &Addressing, call: &Call<'_>, row: usize, past: &mut Past) {
    let whole = call.ids.length();
    let length = call.lengths.map_or(whole, |lengths| lengths[row]);
    let mut from = 0;
    if let Some(segments) = call.segments {
        // Only the last segment goes on; the past belongs to the first.
        if let [.., last, _] = segments[1.min(segments.len())..] {
            past.clear();
            from = last;
        }
    }
    let recent = recent(addressing, call, row, length);
    if recent > from {
        past.clear();
        from = recent;
    }
    let mut ids = [0_i64; ADVANCE];
    for start in (from..length).step_by(ids.len()) {
        let ids = &mut ids[..(length - start).min(ADVANCE)];
        call.ids.tokens(row, start, ids);
        let symbols = ids.iter().enumerate().map(|(index, &id)| {
            let dead = call.dead.is_some_and(|dead| dead[row * whole + start + index]);
            (addressing.symbol(id), dead)
        });
        past.extend_masked(addressing, symbols);
    }
}

/// A position of a sequence such that what stands before it matters to no gram after `length`.
fn recent(addressing: &Addressing, call: &Call<'_>, row: usize, length: usize) -> usize {
    let mut end = length.saturating_sub(addressing.lookback() + 1);
    if !matches!(addressing.parts().family, Family::Utf8Fnv1a) {
        return end;
    }
    // A past must begin where a character does; a symbol that is no continuation always starts one.
    let mut symbols = [0_u8; 64];
    while end > 0 {
        let symbols = &mut symbols[..end.min(64)];
        call.ids.bytes(row, end - symbols.len(), symbols);
        if let Some(found) = symbols.iter().rposition(|&symbol| !is_continuation(symbol)) {
            return end - symbols.len() + found;
        }
        end -= symbols.len();
    }
    0
}
