//! One call from Python: arguments to the core's `Call`, the work without the GIL.

use engram_core::{Address, Addressing, Call, Error, Past, Quantity};
use numpy::{Element, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arguments::{describe, threads as parse_threads};
use crate::few;
use crate::ids::IdArray;
use crate::output::{self, Output};

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
    // Other arguments may run code of their own, which could change the ids: they come first.
    let array = IdArray::array(ids)?;
    let threads = parse_threads(options.threads)?;
    let narrow = options.dtype.map(output::is_int32).transpose()?;
    let history = options.history.map(|given| IdArray::named("history must be integers", given)).transpose()?;
    let most = array.len().max(1).saturating_mul(2).saturating_add(1 << 16);
    let lengths = options.lengths.map(|lengths| IdArray::counts("lengths", lengths, most)).transpose()?;
    let segments = options.cu_seqlens.map(|given| IdArray::counts("cu_seqlens", given, most)).transpose()?;
    let dead = options.dead.map(mask).transpose()?;

    let ids = IdArray::borrowed(&array)?;
    let mut shape = ids.shape().to_vec();
    let batch = if shape.len() == 2 { shape[0] } else { 1 };
    let past = history.map(|history| past(addressing, &history, shape.len(), batch)).transpose()?;
    let dead = match dead {
        Some((given, _)) if given != shape => {
            return Err(PyValueError::new_err(format!("dead must have shape {shape:?}, not {given:?}")));
        }
        dead => dead.map(|(_, dead)| dead),
    };
    shape.push(addressing.columns().len());
    let output = Output::new(py, options.out, narrow, &shape, &ids.extent())?;
    let mut go = |ids: &dyn engram_core::Ids| {
        let call = Call {
            ids,
            quantity,
            past: past.as_deref(),
            dead: dead.as_deref(),
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

fn past(addressing: &Addressing, history: &IdArray<'_>, rank: usize, batch: usize) -> PyResult<Vec<Past>> {
    if history.rank() != rank || (rank == 2 && history.shape()[0] != batch) {
        return Err(PyValueError::new_err(format!(
            "history has shape {:?}; it must have as many dimensions and sequences as the ids ({rank}, {batch})",
            history.shape()
        )));
    }
    history.with(|ids| Past::of(addressing, ids)).map_err(|error| PyValueError::new_err(format!("history: {error}")))
}

/// A copy of `dead` and its shape: it is small beside the addresses, and may lie in the memory of `out`.
fn mask(dead: &Bound<'_, PyAny>) -> PyResult<(Vec<usize>, Vec<bool>)> {
    let wrong = || PyTypeError::new_err(format!("dead must be booleans, not {}", describe(dead)));
    let numpy = dead.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (dead,)).map_err(|error| {
        if error.is_instance_of::<PyValueError>(dead.py()) {
            return wrong();
        }
        error
    })?;
    let array = array.cast::<PyArrayDyn<bool>>().map_err(|_| wrong())?;
    // As bytes: a view may hold others than 0 and 1, which are no booleans to Rust.
    let bytes = array.call_method1("view", ("uint8",))?.cast_into::<PyArrayDyn<u8>>()?;
    let bytes = bytes.try_readonly().map_err(|error| PyValueError::new_err(format!("dead cannot be read: {error}")))?;
    Ok((array.shape().to_vec(), bytes.as_array().iter().map(|&byte| byte != 0).collect()))
}
