//! One file a hash family: the arithmetic of one gram, without loops over positions.

pub mod fnv1a;
