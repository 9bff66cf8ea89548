//! The portable core of engram_rs: token or byte ids in, embedding-table rows out.
//!
//! The crate knows no Python and does no I/O. Its one promise is that the same ids give the same
//! addresses, bit for bit, on every platform, with any number of threads, in one call or in chunks.
//!
//! ```
//! use engram_core::{Addressing, Call, Contiguous, Quantity};
//!
//! let addressing = Addressing::byte_fnv1a(2_097_152, &[2, 3, 4]).unwrap();
//! let ids = Contiguous::sequence(&[10_i64, 20, 30, 40]);
//! let mut hashes = [0_i64; 12];
//! addressing.address(&Call { quantity: Quantity::Hashes, ..Call::rows(&ids) }, &mut hashes).unwrap();
//! assert_eq!(hashes[9..], [146_223_352, 3_309_023_610, 1_657_551_558]);
//! ```

#![deny(unsafe_op_in_unsafe_fn)]

mod addressing;
mod boundary;
mod call;
mod characters;
mod error;
pub mod hash;
mod json;
mod kernel;
pub mod layout;
mod past;
mod reduce;
mod stream;
mod symbols;
mod threads;

pub use addressing::{
    Addressing, Column, Family, Parts, Quantity, Symbols, MAX_COLUMNS, MAX_ENTRIES, MAX_FNV_COLUMNS, MAX_ORDER,
};
pub use boundary::{Boundary, Missing};
pub use call::Call;
pub use error::Error;
pub use kernel::{available_levels, force_level, Address, Level};
pub use past::Past;
pub use reduce::{Remainder32, Remainder64};
pub use stream::Stream;
pub use symbols::{bounds, byte_symbol, decode_bytes, encode_bytes, Contiguous, Id, Ids, BYTE_OFFSET, EOS, PAD, UNK};
pub use threads::{available_threads, MAX_THREADS};
