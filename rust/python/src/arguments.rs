//! Python numbers to Rust numbers, with errors that name the argument.

use engram_core::{available_threads, Boundary, Missing, Symbols, MAX_COLUMNS, MAX_ENTRIES, MAX_ORDER, MAX_THREADS};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString};

use crate::ids::IdArray;

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

/// An integer in `least … most`; booleans and floats are not integers.
pub fn integer(name: &str, value: &Bound<'_, PyAny>, least: i64, most: i64) -> PyResult<i64> {
    // Python's own integers need no look for __index__; booleans are another type.
    let exact = value.is_exact_instance_of::<PyInt>();
    if !exact
        && (value.is_instance_of::<PyBool>() || value.is_instance_of::<PyString>() || !value.hasattr("__index__")?)
    {
        return Err(PyTypeError::new_err(format!("{name} must be an integer, not {}", describe(value))));
    }
    match value.extract::<i64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        // What __index__ itself raises is nobody else's to rename.
        Err(error) if !error.is_instance_of::<PyOverflowError>(value.py()) => Err(error),
        _ => Err(PyValueError::new_err(format!("{name} must be {least} … {most}, not {}", describe(value)))),
    }
}

/// An integer in `1 … most`.
pub fn positive(name: &str, value: &Bound<'_, PyAny>, most: u64) -> PyResult<u64> {
    Ok(integer(name, value, 1, most.min(i64::MAX as u64) as i64)? as u64)
}

/// Integers in `least … most`, at most `count` of them.
pub fn integers(name: &str, values: &Bound<'_, PyAny>, least: i64, most: i64, count: usize) -> PyResult<Vec<i64>> {
    let wrong = || PyTypeError::new_err(format!("{name} must be integers, not {}", describe(values)));
    if values.is_instance_of::<PyString>() || values.is_instance_of::<PyBytes>() {
        return Err(wrong());
    }
    let py = values.py();
    let items =
        values.try_iter().map_err(|error| if error.is_instance_of::<PyTypeError>(py) { wrong() } else { error })?;
    let each = format!("each of {name}");
    let found: Vec<i64> =
        items.take(count + 1).map(|item| integer(&each, &item?, least, most)).collect::<PyResult<_>>()?;
    if found.len() > count {
        return Err(PyValueError::new_err(format!("{name} must hold at most {count} integers; more were given")));
    }
    Ok(found)
}

/// `orders`: lengths of n-grams.
pub fn orders(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    counts(name, values, MAX_ORDER as u64)
}

/// Positive integers, one a column at most.
pub fn counts(name: &str, values: &Bound<'_, PyAny>, most: u64) -> PyResult<Vec<u64>> {
    let most = most.min(i64::MAX as u64) as i64;
    Ok(integers(name, values, 1, most, MAX_COLUMNS)?.into_iter().map(|value| value as u64).collect())
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

/// `pad`, `reset` and `dead`: symbols of a boundary.
pub fn boundary(
    pad: Option<&Bound<'_, PyAny>>,
    reset: Option<&Bound<'_, PyAny>>,
    dead: Option<&Bound<'_, PyAny>>,
) -> PyResult<Boundary> {
    let marks = |name: &str, values: Option<&Bound<'_, PyAny>>| {
        values.map_or(Ok(Vec::new()), |values| integers(name, values, i64::MIN, i64::MAX, 4096))
    };
    Ok(Boundary {
        missing: match pad {
            None => Missing::NullRow,
            Some(pad) => Missing::Pad(integer("pad", pad, i64::MIN, i64::MAX)?),
        },
        reset: marks("reset", reset)?,
        dead: marks("dead", dead)?,
    })
}

/// `vocab_size` or `token_map`: how token ids become symbols.
pub fn token_symbols(vocab_size: Option<&Bound<'_, PyAny>>, token_map: Option<&Bound<'_, PyAny>>) -> PyResult<Symbols> {
    match (vocab_size, token_map) {
        (Some(_), Some(_)) => Err(PyValueError::new_err("give vocab_size or token_map; a map has its size")),
        (None, Some(map)) => {
            let map = IdArray::counts("token_map", map, 1 << 24)?;
            let narrow = |symbol: usize| {
                u32::try_from(symbol)
                    .map_err(|_| PyValueError::new_err(format!("token_map holds {symbol}; wanted below 2^32")))
            };
            Ok(Symbols::Map(map.into_iter().map(narrow).collect::<PyResult<_>>()?))
        }
        (Some(size), None) => Ok(Symbols::Tokens(Some(positive("vocab_size", size, i64::MAX as u64)?))),
        (None, None) => Ok(Symbols::Tokens(None)),
    }
}
