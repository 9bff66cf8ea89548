//! One call from Python: arguments to the core's `Call`, the work without the GIL.

use engram_core::{Address, Addressing, Call, Error, Past, Quantity};
use numpy::{Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arguments::{describe, threads as parse_threads};
use crate::few;
use crate::ids::IdArray;
use crate::output::Output;

/// The optional arguments of an address call, as Python gave them.
#[derive(Default, Clone, Copy)]
pub struct Options<'a, 'py> {
    pub out: Option<&'a Bound<'py, PyAny>>,
    pub threads: Option<&'a Bound<'py, PyAny>>,
    pub dtype: Option<&'a Bound<'py, PyAny>>,
    pub history: Option<&'a Bound<'py, PyAny>>,
    pub lengths: Option<&'a Bound<'py, PyAny>>,
    pub cu_seqlens: Option<&'a Bound<'py, PyAny>>,
    pub dead: Option<&'a Bound<'py, PyAny>>,
}

/// A sentence of the core as a Python error.
pub fn invalid(error: Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The two ways to write, by the element's type.
pub trait Work {
    fn run<O: Address>(&mut self, call: &Call<'_>, out: &mut [O]) -> Result<(), Error>;
}

/// Checks the arguments and lets `work` write the result.
pub fn run<'py, W: Work + Send>(
    addressing: &Addressing,
    ids: &Bound<'py, PyAny>,
    quantity: Quantity,
    options: Options<'_, 'py>,
    work: &mut W,
) -> PyResult<Bound<'py, PyAny>> {
    let py = ids.py();
    if let Some(few) = few::read(ids, &options) {
        return few.run(addressing, quantity, options.out, work);
    }
    let threads = parse_threads(options.threads)?;
    let ids = IdArray::from_python(ids)?;
    let mut shape = ids.shape().to_vec();
    let batch = if shape.len() == 2 { shape[0] } else { 1 };
    let past = options.history.map(|history| past(addressing, history, shape.len(), batch)).transpose()?;
    let lengths = options.lengths.map(|lengths| IdArray::counts("lengths", lengths)).transpose()?;
    let segments = options.cu_seqlens.map(|given| IdArray::counts("cu_seqlens", given)).transpose()?;
    let dead = options.dead.map(|dead| mask(dead, &shape)).transpose()?;
    let dead = dead.as_ref().map(|mask| mask.as_slice()).transpose()?;
    shape.push(addressing.columns().len());
    let output = Output::new(py, options.out, options.dtype, &shape, &ids.extent())?;
    let mut go = |ids: &dyn engram_core::Ids| {
        let call = Call {
            ids,
            quantity,
            past: past.as_deref(),
            dead,
            lengths: lengths.as_deref(),
            segments: segments.as_deref(),
            threads,
        };
        match &output {
            Output::Wide(array) => write(py, array, &call, work),
            Output::Narrow(array) => write(py, array, &call, work),
        }
    };
    ids.with(&mut go)?;
    Ok(output.into_any())
}

pub fn write<'py, O: Address + Element, W: Work + Send>(
    py: Python<'py>,
    array: &Bound<'py, PyArrayDyn<O>>,
    call: &Call<'_>,
    work: &mut W,
) -> PyResult<()> {
    let mut target =
        array.try_readwrite().map_err(|error| PyValueError::new_err(format!("out cannot be written: {error}")))?;
    let target = target.as_slice_mut().expect("contiguity was checked");
    // Giving the GIL away costs more than a few positions do.
    if target.len() <= SHORT {
        return work.run(call, target).map_err(invalid);
    }
    py.detach(|| work.run(call, target)).map_err(invalid)
}

/// Elements of output up to which the GIL is kept.
const SHORT: usize = 256;

fn past(addressing: &Addressing, history: &Bound<'_, PyAny>, rank: usize, batch: usize) -> PyResult<Vec<Past>> {
    let history = IdArray::from_python(history)?;
    if history.rank() != rank || (rank == 2 && history.shape()[0] != batch) {
        return Err(PyValueError::new_err(format!(
            "history has shape {:?}; it must have as many dimensions and sequences as the ids ({rank}, {batch})",
            history.shape()
        )));
    }
    history.with(|ids| Past::of(addressing, ids)).map_err(invalid)
}

fn mask<'py>(dead: &Bound<'py, PyAny>, shape: &[usize]) -> PyResult<PyReadonlyArrayDyn<'py, bool>> {
    let numpy = dead.py().import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (dead,))?;
    let array = array
        .cast::<PyArrayDyn<bool>>()
        .map_err(|_| PyTypeError::new_err(format!("dead must be booleans, not {}", describe(dead))))?;
    if array.shape() != shape {
        return Err(PyValueError::new_err(format!("dead must have shape {shape:?}, not {:?}", array.shape())));
    }
    Ok(array.readonly())
}
