//! Text to byte ids and back.

use engram_core::{decode_bytes, encode_bytes};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyString};

use crate::arguments::describe;
use crate::ids::IdArray;

/// Byte ids of a text: every UTF-8 byte + 3, then the end symbol 1.
///
/// Args:
///     text: `str` (encoded as UTF-8) or `bytes`.
///     eos: Whether to end with the id 1.
///
/// Returns:
///     int64 `[T]`.
///
/// Raises:
///     TypeError: `text` is neither `str` nor bytes.
///     UnicodeEncodeError: `text` holds a lone surrogate.
#[pyfunction]
#[pyo3(signature = (text, eos = true))]
pub fn encode<'py>(text: &Bound<'py, PyAny>, eos: bool) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let ids = if let Ok(text) = text.cast::<PyString>() {
        encode_bytes(text.to_cow()?.as_bytes(), eos)
    } else if let Ok(bytes) = text.cast::<PyBytes>() {
        encode_bytes(bytes.as_bytes(), eos)
    } else if let Ok(bytes) = text.cast::<PyByteArray>() {
        encode_bytes(&bytes.to_vec(), eos)
    } else {
        return Err(PyTypeError::new_err(format!("text must be str or bytes, not {}", describe(text))));
    };
    let ids = ids.map_err(|error| PyMemoryError::new_err(error.to_string()))?;
    Ok(ids.into_pyarray(text.py()))
}

/// The text of byte ids: stops at the end symbol 1, skips pad 0 and unk 2, and takes
/// `(id - 3) mod 256` of every other id.
///
/// Args:
///     ids: Integers `[T]`.
///     errors: What to do with bytes that are not UTF-8, as in `bytes.decode`. The default puts
///         U+FFFD in their place, since a model may stop within a character.
///
/// Returns:
///     The text.
///
/// Raises:
///     TypeError: `ids` are not integers.
///     ValueError: `ids` are not one sequence.
///     UnicodeDecodeError: The bytes are not UTF-8 and `errors` is `"strict"`.
#[pyfunction]
#[pyo3(signature = (ids, errors = "replace"))]
pub fn decode<'py>(ids: &Bound<'py, PyAny>, errors: &str) -> PyResult<Bound<'py, PyAny>> {
    let ids = IdArray::from_python(ids)?;
    if ids.rank() != 1 {
        return Err(PyValueError::new_err(format!("ids must be one sequence [T], not of shape {:?}", ids.shape())));
    }
    let bytes = decode_bytes(ids.widen()?);
    PyBytes::new(ids.py(), &bytes).call_method1("decode", ("utf-8", errors))
}
