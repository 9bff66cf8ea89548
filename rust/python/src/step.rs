//! One id of one sequence into the caller's memory: decoding does nothing else, so nothing else is asked.

use engram_core::{Call, Contiguous, Quantity, Stream};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::call::invalid;
use crate::ids::extent;

/// Takes the step if it is the plainest: int64 ids `[1]`, int64 `out` `[1, K]`. Whatever else they are, the
/// general way does it or says what is wrong.
#[inline]
pub fn take(stream: &mut Stream, quantity: Quantity, ids: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (Ok(ids), Ok(out)) = (ids.cast::<PyArray1<i64>>(), out.cast::<PyArray2<i64>>()) else {
        return Ok(false);
    };
    let plain = ids.len() == 1
        && ids.is_aligned()
        && out.shape() == [1, stream.addressing().columns().len()]
        && out.is_c_contiguous()
        && out.is_aligned();
    if !plain {
        return Ok(false);
    }
    let (read, written) = (extent(ids), extent(out));
    if read.start < written.end && written.start < read.end {
        return Ok(false);
    }
    let id = [ids.get_owned(0).expect("there is one")];
    let Ok(mut out) = out.try_readwrite() else {
        return Ok(false);
    };
    let out = out.as_slice_mut().expect("contiguity was checked");
    let ids = Contiguous::sequence(&id);
    let call = Call { quantity, ..Call::rows(&ids) };
    stream.push(&call, out).map_err(invalid)?;
    Ok(true)
}
