//! Ids as Python gives them: any integer array is read where it lies.

use std::ops::Range;

use engram_core::{bounds, byte_symbol, Contiguous, Id, Ids};

use numpy::ndarray::{s, ArrayView2, Axis, Dimension};
use numpy::{
    Element, PyArray, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

use crate::arguments::describe;

macro_rules! id_array {
    ($($variant:ident: $t:ty),*) => {
        /// A borrowed integer array of one or two dimensions.
        pub enum IdArray<'py> {
            $(
                #[allow(missing_docs)]
                $variant(PyReadonlyArrayDyn<'py, $t>),
            )*
        }

        impl<'py> IdArray<'py> {
            fn borrow(array: &Bound<'py, PyUntypedArray>) -> PyResult<Option<Self>> {
                $(
                    if let Ok(array) = array.cast::<PyArrayDyn<$t>>() {
                        let array = array.try_readonly().map_err(|error| {
                            PyValueError::new_err(format!("ids cannot be read: {error}"))
                        })?;
                        return Ok(Some(Self::$variant(array)));
                    }
                )*
                Ok(None)
            }

            fn untyped(&self) -> &Bound<'py, PyUntypedArray> {
                match self {
                    $(Self::$variant(array) => array.as_untyped(),)*
                }
            }

            /// Every id as int64, for the few uses that are not worth a kernel. Above int64 the bits
            /// are kept, which leaves the id modulo 256 as it is.
            pub fn widen(&self) -> PyResult<Vec<i64>> {
                let mut wide = Vec::new();
                wide.try_reserve_exact(self.untyped().len())
                    .map_err(|error| PyMemoryError::new_err(error.to_string()))?;
                match self {
                    $(Self::$variant(array) => wide.extend(array.as_array().iter().map(|&id| id as i64)),)*
                }
                Ok(wide)
            }

            /// Where its elements lie.
            pub fn extent(&self) -> Range<usize> {
                match self {
                    $(Self::$variant(array) => extent(array),)*
                }
            }

            /// Calls `work` with the ids in a form that needs no GIL.
            pub fn with<R>(&self, work: impl FnOnce(&dyn Ids) -> R) -> R {
                match self {
                    $(Self::$variant(array) => with_view(array, work),)*
                }
            }
        }
    };
}
id_array!(I64: i64, I32: i32, U8: u8, I16: i16, U16: u16, U32: u32, I8: i8, U64: u64);

impl<'py> IdArray<'py> {
    /// Integers `[N]` that count something: none is negative.
    pub fn counts(name: &str, values: &Bound<'py, PyAny>, most: usize) -> PyResult<Vec<usize>> {
        let array = Self::named(&format!("{name} must be integers [N]"), values)?;
        if array.rank() != 1 {
            return Err(PyValueError::new_err(format!(
                "{name} must be integers [N], not of shape {:?}",
                array.shape()
            )));
        }
        if array.untyped().len() > most {
            return Err(PyValueError::new_err(format!(
                "{name} must hold at most {most} integers, not {}",
                array.untyped().len()
            )));
        }
        let (low, _) = array.with(|ids| ids.bounds()).unwrap_or((0, 0));
        if low < 0 {
            return Err(PyValueError::new_err(format!("{name} must not be negative; {low} was given")));
        }
        Ok(array.widen()?.into_iter().map(|value| value as usize).collect())
    }

    /// The same as `from_python` for another argument than the ids, which errors then begin with.
    pub fn named(message: &str, values: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::from_python(values).map_err(|error| {
            let py = values.py();
            if error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py) {
                renamed(py, &error, message)
            } else {
                error
            }
        })
    }

    /// Takes integer arrays and lists of integers, `[T]` or `[B, T]`.
    pub fn from_python(ids: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::borrowed(&Self::array(ids)?)
    }

    /// The array that ids are read from.
    pub fn array(ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let array = match ids.cast::<PyUntypedArray>() {
            Ok(array) => array.clone(),
            Err(_) => to_array(ids)?,
        };
        native(&array)
    }

    /// Borrows it.
    pub fn borrowed(array: &Bound<'py, PyUntypedArray>) -> PyResult<Self> {
        match Self::borrow(array)? {
            None => Err(PyTypeError::new_err(format!("ids must be integers, not {}", array.dtype()))),
            Some(_) if !(1..=2).contains(&array.ndim()) => {
                Err(PyValueError::new_err(format!("ids must be [T] or [B, T], not of shape {:?}", array.shape())))
            }
            Some(borrowed) => Ok(borrowed),
        }
    }

    /// The interpreter's token.
    pub fn py(&self) -> Python<'py> {
        self.untyped().py()
    }

    /// How many dimensions there are.
    pub fn rank(&self) -> usize {
        self.untyped().ndim()
    }

    /// `[T]` or `[B, T]`.
    pub fn shape(&self) -> &[usize] {
        self.untyped().shape()
    }
}

/// The same kind of error with another beginning, and the first as its cause.
fn renamed(py: Python<'_>, error: &PyErr, message: &str) -> PyErr {
    let renamed = if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(format!("{message}: {}", error.value(py)))
    } else {
        PyValueError::new_err(format!("{message}: {}", error.value(py)))
    };
    renamed.set_cause(py, Some(error.clone_ref(py)));
    renamed
}

/// Lists, tuples, tensors: whatever numpy can turn into integers.
fn to_array<'py>(ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if ids.is_instance_of::<PyString>()
        || ids.is_instance_of::<PyBytes>()
        || ids.is_instance_of::<PyByteArray>()
        || ids.is_instance_of::<PyMemoryView>()
    {
        return Err(PyTypeError::new_err(format!(
            "ids must be integers, not {}: text is not ids, engram_rs.encode(text) makes them",
            describe(ids)
        )));
    }
    let numpy = ids.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (ids,)).map_err(|error| {
        // What the object itself raises (an interrupt, say) is nobody else's to rename.
        if !error.is_instance_of::<PyTypeError>(ids.py()) && !error.is_instance_of::<PyValueError>(ids.py()) {
            return error;
        }
        let wanted = PyTypeError::new_err(format!("ids must be integers [T] or [B, T], not {}", describe(ids)));
        wanted.set_cause(ids.py(), Some(error));
        wanted
    })?;
    let array = array.cast_into::<PyUntypedArray>()?;
    // An empty list says nothing of its type, and numpy takes it for float64.
    if array.is_empty() && ids.hasattr("__len__")? && !ids.hasattr("dtype")? {
        return Ok(array.call_method1("astype", ("int64",))?.cast_into()?);
    }
    Ok(array)
}

/// Arrays of foreign byte order or at odd addresses are copied; all others are taken as they are.
fn native<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let dtype = array.dtype();
    let item = dtype.itemsize().max(1) as isize;
    let even = array.is_aligned() && array.strides().iter().all(|stride| stride % item == 0);
    if !matches!(dtype.kind(), b'i' | b'u') || (dtype.is_native_byteorder() != Some(false) && even) {
        return Ok(array.clone());
    }
    let native = dtype.call_method1("newbyteorder", ("=",))?;
    Ok(array.call_method1("astype", (native,))?.cast_into()?)
}

/// The addresses that an array's elements span, whatever its strides.
pub fn extent<T: Element, D: Dimension>(array: &Bound<'_, PyArray<T, D>>) -> Range<usize> {
    let (mut low, mut high) = (0_isize, 0_isize);
    if array.is_empty() {
        return 0..0;
    }
    for (&count, &stride) in array.shape().iter().zip(array.strides()) {
        let reach = stride * (count as isize - 1);
        low += reach.min(0);
        high += reach.max(0);
    }
    let base = array.data() as usize;
    base.wrapping_add_signed(low)..base.wrapping_add_signed(high) + std::mem::size_of::<T>()
}

fn with_view<T: Id + Element, R>(array: &PyReadonlyArrayDyn<'_, T>, work: impl FnOnce(&dyn Ids) -> R) -> R {
    if array.is_empty() {
        let (batch, length) = match *array.shape() {
            [batch, length] => (batch, length),
            _ => (1, 0),
        };
        return work(&Contiguous::<T>::batch(&[], batch, length).expect("one side is 0"));
    }
    // In Fortran's order the memory is contiguous too, but not sequence after sequence.
    if let (true, Ok(ids)) = (array.is_c_contiguous(), array.as_slice()) {
        let (batch, length) = if let [batch, length] = *array.shape() { (batch, length) } else { (1, ids.len()) };
        return work(&Contiguous::batch(ids, batch, length).expect("a slice has as many elements as its array"));
    }
    let view = array.as_array();
    let rows = if view.ndim() == 1 { view.insert_axis(Axis(0)) } else { view };
    work(&Strided(rows.into_dimensionality().expect("the rank was checked")))
}

/// Ids with gaps between them, or back to front.
struct Strided<'a, T>(ArrayView2<'a, T>);

impl<T: Id> Ids for Strided<'_, T> {
    fn batch(&self) -> usize {
        self.0.nrows()
    }

    fn length(&self) -> usize {
        self.0.ncols()
    }

    fn bytes(&self, row: usize, start: usize, out: &mut [u8]) {
        let row = self.0.row(row);
        for (symbol, &id) in out.iter_mut().zip(row.slice(s![start..])) {
            *symbol = byte_symbol(id);
        }
    }

    fn tokens(&self, row: usize, start: usize, out: &mut [i64]) {
        let row = self.0.row(row);
        for (symbol, &id) in out.iter_mut().zip(row.slice(s![start..])) {
            *symbol = id.bits();
        }
    }

    fn bounds(&self) -> Option<(i128, i128)> {
        bounds(self.0.iter().copied())
    }
}
