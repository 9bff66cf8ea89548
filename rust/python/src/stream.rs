//! `Stream` for Python.

use engram_core::{Address, Call, Error, Quantity, Stream};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::addressing::PyAddressing;
use crate::arguments::positive;
use crate::call::{self, invalid, Options, Work};
use crate::ids::IdArray;
use crate::step;

/// The history of a batch of sequences: any chunks give the rows of one call.
///
/// Make one with `Addressing.stream(batch_size)`. It remembers, for each sequence, only the few symbols
/// that later grams can still reach.
#[pyclass(name = "Stream", module = "engram_rs")]
pub struct PyStream(pub Stream);

struct Push<'a>(&'a mut Stream, Quantity);

impl Work for Push<'_> {
    fn run<O: Address>(&mut self, call: &Call<'_>, out: &mut [O]) -> Result<(), Error> {
        self.0.push(&Call { quantity: self.1, ..*call }, out)
    }
}

#[pymethods]
impl PyStream {
    /// The rows of the next ids of every sequence.
    ///
    /// Args:
    ///     ids: Integers `[T]` for a stream of one sequence, `[B, T]` for any; T may be 0 or 1.
    ///     out: As in a call of the addressing.
    ///     threads: Likewise.
    ///     dtype: Likewise.
    ///     lengths: Integers `[B]`: how many ids of each sequence count. The rest is padding, which is
    ///         not remembered.
    ///     dead: Booleans of the shape of `ids`: positions that are no part of any gram.
    ///     hashes: Whether to give hashes before the remainder instead of rows.
    ///
    /// Returns:
    ///     `out`, or a new array `[..., T, K]`.
    ///
    /// Raises:
    ///     TypeError: As a call of the addressing.
    ///     ValueError: Likewise, or `ids` are of another batch; the stream is then as before.
    #[pyo3(signature = (ids, out = None, threads = None, *, dtype = None, lengths = None, dead = None, hashes = false))]
    #[allow(clippy::too_many_arguments)]
    fn push<'py>(
        &mut self,
        ids: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        threads: Option<&Bound<'py, PyAny>>,
        dtype: Option<&Bound<'py, PyAny>>,
        lengths: Option<&Bound<'py, PyAny>>,
        dead: Option<&Bound<'py, PyAny>>,
        hashes: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let quantity = if hashes { Quantity::Hashes } else { Quantity::Rows };
        if let (Some(out), None, None, None, None) = (out, threads, dtype, lengths, dead) {
            if step::take(&mut self.0, quantity, ids, out)? {
                return Ok(out.clone());
            }
        }
        let addressing = self.0.addressing().clone();
        let options = Options { out, threads, dtype, lengths, dead, ..Options::default() };
        call::run(&addressing, ids, quantity, options, &mut Push(&mut self.0, quantity))
    }

    /// All that the stream remembers, as bytes; small enough to keep one a step. Assigning it rolls back.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[setter]
    fn set_state(&mut self, state: &[u8]) -> PyResult<()> {
        self.0 = Stream::from_bytes(self.0.addressing().clone(), state).map_err(invalid)?;
        Ok(())
    }

    /// A stream that goes on from `state`.
    ///
    /// Raises:
    ///     ValueError: The bytes are damaged, or belong to another scheme.
    #[staticmethod]
    fn from_state(addressing: &Bound<'_, PyAddressing>, state: &[u8]) -> PyResult<Self> {
        Stream::from_bytes(addressing.get().0.clone(), state).map(Self).map_err(invalid)
    }

    /// Begins sequences anew: those whose indices are given, or all.
    ///
    /// Raises:
    ///     ValueError: There is no such sequence; then none is begun anew.
    #[pyo3(signature = (rows = None))]
    fn reset(&mut self, rows: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let rows = rows.map(|rows| IdArray::counts("rows", rows, MOST)).transpose()?;
        self.0.reset(rows.as_deref()).map_err(invalid)
    }

    /// Makes sequence `i` go on from what sequence `indices[i]` was, as beam search does. Their number
    /// may change.
    ///
    /// Raises:
    ///     ValueError: There is no such sequence; then nothing is changed.
    fn reorder(&mut self, indices: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.reorder(&IdArray::counts("indices", indices, MOST)?).map_err(invalid)
    }

    /// How many sequences there are.
    #[getter]
    fn batch_size(&self) -> usize {
        self.0.batch()
    }

    /// The scheme.
    #[getter]
    fn addressing(&self) -> PyAddressing {
        PyAddressing(self.0.addressing().clone())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Stream of {} sequences, {}>", self.0.batch(), self.addressing().__repr__(py)?))
    }

    #[allow(clippy::type_complexity)]
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (PyAddressing, Bound<'py, PyBytes>))> {
        let stream = slf.borrow();
        Ok((slf.get_type().getattr("from_state")?, (stream.addressing(), stream.state(slf.py()))))
    }
}

/// The most sequences of a stream.
const MOST: usize = 1 << 20;

/// `batch_size` of a new stream.
pub fn batch_size(value: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    Ok(value.map_or(Ok(1), |value| positive("batch_size", value, MOST as u64))? as usize)
}
