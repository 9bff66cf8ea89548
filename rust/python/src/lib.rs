//! The extension module `engram_rs._core`: converts, checks, releases the GIL, calls the core.

#![deny(unsafe_op_in_unsafe_fn)]

mod addressing;
mod arguments;
mod bytes;
mod call;
mod few;
mod ids;
mod layouts;
mod machine;
mod output;
mod step;
mod stream;

use pyo3::prelude::*;

/// The compiled core of engram_rs.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("PAD", engram_core::PAD)?;
    module.add("EOS", engram_core::EOS)?;
    module.add("UNK", engram_core::UNK)?;
    module.add("BYTE_OFFSET", engram_core::BYTE_OFFSET)?;
    module.add_class::<addressing::PyAddressing>()?;
    module.add_class::<stream::PyStream>()?;
    module.add_function(wrap_pyfunction!(bytes::encode, module)?)?;
    module.add_function(wrap_pyfunction!(bytes::decode, module)?)?;
    module.add_function(wrap_pyfunction!(machine::cpu_features, module)?)?;
    module.add_function(wrap_pyfunction!(machine::empty_call, module)?)?;
    module.add_function(wrap_pyfunction!(machine::empty_array_call, module)?)?;
    module.add_function(wrap_pyfunction!(machine::kernels, module)?)?;
    module.add_function(wrap_pyfunction!(machine::force_kernel, module)?)?;
    module.add_function(wrap_pyfunction!(machine::available_threads, module)?)
}
