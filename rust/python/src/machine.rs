//! What the core sees of the machine; `engram-rs doctor` prints it.

use engram_core::{available_levels, force_level};
use numpy::{PyReadwriteArrayDyn, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The vector instruction sets that this CPU has, of those that a kernel could use.
#[pyfunction]
pub fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let mut features = Vec::new();
        for (name, present) in [
            ("sse4.1", is_x86_feature_detected!("sse4.1")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ] {
            if present {
                features.push(name);
            }
        }
        features
    }
    #[cfg(target_arch = "aarch64")]
    {
        if std::arch::is_aarch64_feature_detected!("neon") {
            vec!["neon"]
        } else {
            Vec::new()
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Vec::new()
}

/// The kernels that this CPU can run, slowest first; calls use the last.
#[pyfunction]
pub fn kernels() -> Vec<&'static str> {
    available_levels().into_iter().map(|level| level.name()).collect()
}

/// Makes every call of this process use one kernel, for tests and measurements; `None` goes back to the
/// fastest. Results never depend on it.
///
/// Raises:
///     ValueError: This CPU has no such kernel.
#[pyfunction]
pub fn force_kernel(name: Option<&str>) -> PyResult<()> {
    let level = available_levels().into_iter().find(|level| Some(level.name()) == name);
    if level.is_none() && name.is_some() {
        let known = kernels().join(", ");
        return Err(PyValueError::new_err(format!("there is no kernel {name:?} here; there are {known}")));
    }
    force_level(level);
    Ok(())
}

/// Takes the arguments of a step and does nothing: the floor that `benches/short.py` measures against.
#[pyfunction]
#[pyo3(signature = (ids, out = None, threads = None, *, dtype = None, lengths = None, dead = None, hashes = false))]
pub fn empty_call<'py>(
    ids: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
    threads: Option<&Bound<'py, PyAny>>,
    dtype: Option<&Bound<'py, PyAny>>,
    lengths: Option<&Bound<'py, PyAny>>,
    dead: Option<&Bound<'py, PyAny>>,
    hashes: bool,
) -> Option<Bound<'py, PyAny>> {
    let _ = (ids, threads, dtype, lengths, dead, hashes);
    out.cloned()
}

/// Takes two arrays as functions over numpy do, `out` to be written, and tells how many elements `out` has:
/// what a step costs before its first gram.
#[pyfunction]
pub fn empty_array_call<'py>(ids: &Bound<'py, PyUntypedArray>, out: PyReadwriteArrayDyn<'py, i64>) -> usize {
    let _ = ids;
    out.len()
}

/// How many threads a call with `threads=None` may use.
#[pyfunction]
pub fn available_threads() -> usize {
    engram_core::available_threads()
}
