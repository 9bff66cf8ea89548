//! A step of decoding: a few int64 ids and no options, without what longer calls need.
//!
//! The ids are copied to the stack element by element, which spares the bookkeeping of a borrowed array
//! and costs less than it up to some ten of them.

use std::ops::Range;

use engram_core::{Addressing, Call, Contiguous, Quantity};
use numpy::ndarray::ArrayView;
use numpy::{PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::call::{invalid, write, Options, Work};
use crate::ids::extent;
use crate::output::Output;

/// The most ids that come this way.
const MOST: usize = 16;
/// The most addresses that a new array is made from.
const ADDRESSES: usize = 128;

/// Ids on the stack.
pub struct Few<'a, 'py> {
    array: &'a Bound<'py, PyAny>,
    ids: [i64; MOST],
    /// `None` for `[T]`.
    batch: Option<usize>,
    length: usize,
    extent: Range<usize>,
}

/// Takes the ids if they are few and nothing else is asked for.
#[inline]
pub fn read<'a, 'py>(array: &'a Bound<'py, PyAny>, options: &Options<'_, 'py>) -> Option<Few<'a, 'py>> {
    let plain = options.threads.is_none()
        && options.dtype.is_none()
        && options.history.is_none()
        && options.lengths.is_none()
        && options.cu_seqlens.is_none()
        && options.dead.is_none();
    if !plain {
        return None;
    }
    let mut ids = [0; MOST];
    if let Ok(one) = array.cast::<PyArray1<i64>>() {
        let length = one.len();
        if length > MOST || !one.is_aligned() {
            return None;
        }
        for (index, id) in ids[..length].iter_mut().enumerate() {
            *id = one.get_owned(index)?;
        }
        return Some(Few { array, ids, batch: None, length, extent: extent(one) });
    }
    let two = array.cast::<PyArray2<i64>>().ok()?;
    let (batch, length) = (two.shape()[0], two.shape()[1]);
    if batch.checked_mul(length)? > MOST || !two.is_aligned() {
        return None;
    }
    for (index, id) in ids[..batch * length].iter_mut().enumerate() {
        *id = two.get_owned([index / length, index % length])?;
    }
    Some(Few { array, ids, batch: Some(batch), length, extent: extent(two) })
}

impl<'py> Few<'_, 'py> {
    /// What `call::run` does for any ids.
    pub fn run<W: Work + Send>(
        self,
        addressing: &Addressing,
        quantity: Quantity,
        out: Option<&Bound<'py, PyAny>>,
        work: &mut W,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = self.array.py();
        let columns = addressing.columns().len();
        let batch = self.batch.unwrap_or(1);
        let count = batch * self.length;
        let ids = Contiguous::batch(&self.ids[..count], batch, self.length).expect("they were counted");
        let call = Call { quantity, ..Call::rows(&ids) };
        if out.is_none() && count * columns <= ADDRESSES {
            let mut addresses = [0_i64; ADDRESSES];
            let addresses = &mut addresses[..count * columns];
            work.run(&call, addresses).map_err(invalid)?;
            let made = match self.batch {
                None => {
                    let view = ArrayView::from_shape((self.length, columns), addresses);
                    PyArray2::from_array(py, &view.expect("they were counted")).into_any()
                }
                Some(batch) => {
                    let view = ArrayView::from_shape((batch, self.length, columns), addresses);
                    PyArrayDyn::from_array(py, &view.expect("they were counted").into_dyn()).into_any()
                }
            };
            return Ok(made);
        }
        let (shape, rank) = match self.batch {
            None => ([self.length, columns, 0], 2),
            Some(batch) => ([batch, self.length, columns], 3),
        };
        let output = Output::new(py, out, None, &shape[..rank], &self.extent)?;
        match &output {
            Output::Wide(array) => write(py, array, &call, work)?,
            Output::Narrow(array) => write(py, array, &call, work)?,
        }
        Ok(output.into_any())
    }
}
