//! Where addresses are written: a new array, or the caller's own memory; int64, or int32 on request.

use std::ops::Range;

use engram_core::Address;
use numpy::{dtype, Element, PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::describe;
use crate::ids::extent;

/// The array that a call writes.
pub enum Output<'py> {
    /// Every address fits.
    Wide(Bound<'py, PyArrayDyn<i64>>),
    /// Half the traffic, where all rows fit.
    Narrow(Bound<'py, PyArrayDyn<i32>>),
}

impl<'py> Output<'py> {
    /// A new array, or `out` if it is fit to be written.
    pub fn new(
        py: Python<'py>,
        out: Option<&Bound<'py, PyAny>>,
        narrow: Option<bool>,
        shape: &[usize],
        ids: &Range<usize>,
    ) -> PyResult<Self> {
        let Some(out) = out else {
            return Ok(if narrow == Some(true) {
                Self::Narrow(allocate(py, shape)?)
            } else {
                Self::Wide(allocate(py, shape)?)
            });
        };
        if let Ok(array) = out.cast::<PyArrayDyn<i64>>() {
            agree(narrow, false)?;
            return Ok(Self::Wide(check(array, shape, ids)?));
        }
        if let Ok(array) = out.cast::<PyArrayDyn<i32>>() {
            agree(narrow, true)?;
            return Ok(Self::Narrow(check(array, shape, ids)?));
        }
        Err(match out.cast::<PyUntypedArray>() {
            Ok(array) => PyTypeError::new_err(format!("out must be int64 or int32, not {}", array.dtype())),
            Err(_) => PyTypeError::new_err(format!("out must be a numpy array, not {}", describe(out))),
        })
    }

    /// The array as Python sees it.
    pub fn into_any(self) -> Bound<'py, PyAny> {
        match self {
            Self::Wide(array) => array.into_any(),
            Self::Narrow(array) => array.into_any(),
        }
    }
}

/// Whether a dtype is int32; int64 is the other that may be.
pub fn is_int32(given: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = given.py();
    let wrong = || PyTypeError::new_err(format!("dtype must be int64 or int32, not {}", describe(given)));
    let descr = PyArrayDescr::new(py, given).map_err(|_| wrong())?;
    if descr.is_equiv_to(&dtype::<i32>(py)) {
        return Ok(true);
    }
    if descr.is_equiv_to(&dtype::<i64>(py)) {
        return Ok(false);
    }
    Err(wrong())
}

fn agree(wanted: Option<bool>, given: bool) -> PyResult<()> {
    match wanted {
        Some(wanted) if wanted != given => Err(PyTypeError::new_err("out has another dtype than the one asked for")),
        _ => Ok(()),
    }
}

/// A new array. Large ones come from numpy itself, which says so where memory is short.
fn allocate<'py, T: Address + Element>(py: Python<'py>, shape: &[usize]) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    let size = shape.iter().try_fold(1_usize, |size, &side| size.checked_mul(side.max(1)));
    if size.is_some_and(|size| size <= 1 << 16) {
        return Ok(PyArrayDyn::zeros(py, shape, false));
    }
    let shape = PyTuple::new(py, shape)?;
    Ok(py.import("numpy")?.call_method1("zeros", (shape, dtype::<T>(py)))?.cast_into()?)
}

/// The caller's array, if it has the right shape, is contiguous and lies apart from the ids.
fn check<'py, T: Address + Element>(
    array: &Bound<'py, PyArrayDyn<T>>,
    shape: &[usize],
    ids: &Range<usize>,
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
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
