//! One file a hash family: the arithmetic of one gram, without loops over positions.

pub mod fnv1a;
pub mod multiply_xor;
pub mod polynomial;
pub mod vocabulary_radix;
