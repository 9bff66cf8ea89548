//! Python numbers to Rust numbers, with errors that name the argument.

use engram_core::{available_threads, MAX_ENTRIES, MAX_THREADS};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

/// The type's name and the value, shortened: what an error says was given.
pub fn describe(value: &Bound<'_, PyAny>) -> String {
    let kind = value.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    let text = value.repr().map_or_else(|_| "?".into(), |text| text.to_string());
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short} ({kind})")
}

/// An integer in `1 … most`; booleans and floats are not integers.
pub fn positive(name: &str, value: &Bound<'_, PyAny>, most: u64) -> PyResult<u64> {
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyString>() || !value.hasattr("__index__")? {
        return Err(PyTypeError::new_err(format!("{name} must be an integer, not {}", describe(value))));
    }
    match value.extract::<u64>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(PyValueError::new_err(format!("{name} must be 1 … {most}, not {}", describe(value)))),
    }
}

/// `entries`: a positive int64.
pub fn entries(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    positive("entries", value, MAX_ENTRIES)
}

/// `threads`: `None` for what the machine has.
pub fn threads(value: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    match value {
        None => Ok(available_threads()),
        Some(value) => Ok(positive("threads", value, MAX_THREADS as u64)? as usize),
    }
}
