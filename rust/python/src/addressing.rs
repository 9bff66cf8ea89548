//! `Addressing` for Python.

use engram_core::{Addressing, Quantity};
use numpy::{PyArrayDyn, PyArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use crate::arguments::{describe, entries as parse_entries, positive, threads as parse_threads};
use crate::ids::IdArray;
use crate::output;

/// A hash-addressing scheme: ids in, table rows out.
///
/// A frozen value. Two are equal when their canonical JSON is, and `digest` tells them apart. Make one
/// with `Addressing.byte_fnv1a` or `Addressing.from_json`.
///
/// Calling it gives the rows of every position: int64 `[T, K]` for ids `[T]`, `[B, T, K]` for
/// `[B, T]`, with K = `num_columns`. The same ids give the same rows on every platform, for any dtype,
/// layout and number of threads.
#[pyclass(name = "Addressing", module = "engram_rs", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyAddressing(Addressing);

fn invalid(error: engram_core::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymethods]
impl PyAddressing {
    /// The default scheme: FNV-1a over the last `orders[c]` bytes, one column an order.
    ///
    /// An id stands for the byte `(id - 3) mod 256`, so ids 256 apart hash alike. A position with fewer
    /// than `orders[c]` symbols up to and including it has row 0.
    ///
    /// Args:
    ///     entries: Rows of the table, 1 … 2^63 - 1.
    ///     orders: The length of each column's n-gram, 1 … 64; at most 64 of them.
    ///
    /// Raises:
    ///     TypeError: An argument is no integer.
    ///     ValueError: An argument is out of range.
    #[classmethod]
    #[pyo3(signature = (entries = None, orders = None), text_signature = "(entries=2097152, orders=(2, 3, 4))")]
    fn byte_fnv1a(
        _cls: &Bound<'_, PyType>,
        entries: Option<&Bound<'_, PyAny>>,
        orders: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let entries = entries.map_or(Ok(2_097_152), parse_entries)?;
        let orders = match orders {
            None => vec![2, 3, 4],
            Some(orders) => {
                let wrong = || PyTypeError::new_err(format!("orders must be integers, not {}", describe(orders)));
                if orders.is_instance_of::<PyString>() {
                    return Err(wrong());
                }
                let items = orders.try_iter().map_err(|_| wrong())?;
                items
                    .take(engram_core::MAX_COLUMNS + 1)
                    .map(|order| positive("an order", &order?, engram_core::MAX_ORDER as u64))
                    .collect::<PyResult<Vec<_>>>()?
            }
        };
        Addressing::byte_fnv1a(entries, &orders).map(Self).map_err(invalid)
    }

    /// Reads `to_json()` back; key order and white space do not matter, unknown or missing keys do.
    ///
    /// Raises:
    ///     ValueError: The text is not the JSON of an addressing that this version knows.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        Addressing::from_json(text).map(Self).map_err(invalid)
    }

    /// The canonical JSON: sorted keys, no white space. It rides with every table and graph.
    fn to_json(&self) -> &str {
        self.0.to_json()
    }

    /// SHA-256 of the canonical JSON, 64 hexadecimal digits.
    #[getter]
    fn digest(&self) -> &str {
        self.0.digest()
    }

    /// The scheme's name, such as `"byte_fnv1a"`.
    #[getter]
    fn scheme(&self) -> &'static str {
        self.0.scheme().name()
    }

    /// Rows of the table.
    #[getter]
    fn entries(&self) -> u64 {
        self.0.entries()
    }

    /// The n-gram length of each column.
    #[getter]
    fn orders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.columns().iter().map(|column| column.order))
    }

    /// How many addresses a position has, K.
    #[getter]
    fn num_columns(&self) -> usize {
        self.0.columns().len()
    }

    /// The rows of every position, `0 … entries - 1`.
    ///
    /// Args:
    ///     ids: Integers `[T]` or `[B, T]`, of any dtype and strides; read in place.
    ///     out: A C-contiguous int64 array `[..., T, K]` to write into, or `None` for a new one.
    ///     threads: At most this many threads; `None` for as many as the machine has.
    ///
    /// Returns:
    ///     `out`, or the new int64 array `[..., T, K]`.
    ///
    /// Raises:
    ///     TypeError: `ids` are not integers (text needs `encode` first), or `out` is not int64.
    ///     ValueError: A shape or layout is wrong, `out` is read-only or overlaps `ids`.
    #[pyo3(signature = (ids, out = None, threads = None))]
    fn __call__<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        threads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArrayDyn<i64>>> {
        self.address(ids, Quantity::Rows, out, threads)
    }

    /// The hashes before the remainder, `0 … 2^32 - 1`: what the input of an exported graph carries.
    ///
    /// Arguments, result and errors are those of a call; `hashes % entries` are its rows.
    #[pyo3(signature = (ids, out = None, threads = None))]
    fn hashes<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        threads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArrayDyn<i64>>> {
        self.address(ids, Quantity::Hashes, out, threads)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let orders = self.orders(py)?.repr()?;
        Ok(format!("Addressing.{}(entries={}, orders={orders})", self.scheme(), self.entries()))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json().to_owned(),)))
    }
}

impl PyAddressing {
    fn address<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        quantity: Quantity,
        out: Option<&Bound<'py, PyAny>>,
        threads: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArrayDyn<i64>>> {
        let py = ids.py();
        let threads = parse_threads(threads)?;
        let ids = IdArray::from_python(ids)?;
        let mut shape = ids.shape().to_vec();
        shape.push(self.num_columns());
        let array = match out {
            Some(out) => output::check(out, &shape, &ids.extent())?,
            None => output::allocate(py, &shape),
        };
        let mut target =
            array.try_readwrite().map_err(|error| PyValueError::new_err(format!("out cannot be written: {error}")))?;
        let target = target.as_slice_mut().expect("contiguity was checked");
        ids.with(|ids| py.detach(|| self.0.address(ids, quantity, target, threads)));
        Ok(array)
    }
}
