//! Where addresses are written: a new array, or the caller's own memory.

use std::ops::Range;

use numpy::{PyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arguments::describe;
use crate::ids::extent;

/// A new int64 array of the given shape.
pub fn allocate<'py>(py: Python<'py>, shape: &[usize]) -> Bound<'py, PyArrayDyn<i64>> {
    PyArrayDyn::zeros(py, shape, false)
}

/// The caller's array, if it is fit to be written: int64, of the given shape, contiguous, writable,
/// and apart from the ids.
pub fn check<'py>(
    out: &Bound<'py, PyAny>,
    shape: &[usize],
    ids: &Range<usize>,
) -> PyResult<Bound<'py, PyArrayDyn<i64>>> {
    let untyped = out
        .cast::<PyUntypedArray>()
        .map_err(|_| PyTypeError::new_err(format!("out must be a numpy array, not {}", describe(out))))?;
    let array = out
        .cast::<PyArrayDyn<i64>>()
        .map_err(|_| PyTypeError::new_err(format!("out must be int64, not {}", untyped.dtype())))?;
    if array.shape() != shape {
        return Err(PyValueError::new_err(format!("out must have shape {shape:?}, not {:?}", array.shape())));
    }
    if !array.is_c_contiguous() || !array.is_aligned() {
        return Err(PyValueError::new_err(format!(
            "out must be C-contiguous and aligned; its strides are {:?}",
            array.strides()
        )));
    }
    let own = extent(array);
    if own.start < ids.end && ids.start < own.end {
        return Err(PyValueError::new_err("out and ids share memory; out must be apart from the ids"));
    }
    Ok(array.clone())
}
