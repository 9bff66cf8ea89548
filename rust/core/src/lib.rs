//! The portable core of engram_rs: token or byte ids in, embedding-table rows out.
//!
//! The crate knows no Python and does no I/O. Its one promise is that the same ids give the same
//! addresses, bit for bit, on every platform, with any number of threads, in one call or in chunks.
//!
//! ```
//! use engram_core::{Addressing, Contiguous, Quantity};
//!
//! let addressing = Addressing::byte_fnv1a(2_097_152, &[2, 3, 4]).unwrap();
//! let ids = [10_i64, 20, 30, 40];
//! let mut hashes = [0_i64; 12];
//! addressing.address(&Contiguous::sequence(&ids), Quantity::Hashes, &mut hashes, 1);
//! assert_eq!(hashes[9..], [146_223_352, 3_309_023_610, 1_657_551_558]);
//! ```

#![deny(unsafe_op_in_unsafe_fn)]

mod addressing;
mod error;
pub mod hash;
mod json;
mod kernel;
mod reduce;
mod symbols;
mod threads;

pub use addressing::{Addressing, Column, Quantity, Scheme, MAX_COLUMNS, MAX_ENTRIES, MAX_ORDER};
pub use error::Error;
pub use reduce::Remainder;
pub use symbols::{decode_bytes, encode_bytes, Contiguous, Id, Ids, BYTE_OFFSET, EOS, PAD, UNK};
pub use threads::{available_threads, MAX_THREADS};
