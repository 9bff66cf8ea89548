//! `Addressing`: a whole scheme as one frozen value.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::json;
use crate::kernel;
use crate::reduce::Remainder;
use crate::symbols::Ids;

/// The longest gram.
pub const MAX_ORDER: usize = 64;
/// The most columns.
pub const MAX_COLUMNS: usize = 64;
/// The most rows: every address is an int64.
pub const MAX_ENTRIES: u64 = i64::MAX as u64;

/// The named hash schemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// FNV-1a over byte symbols; column `c` has seed `c + 1`.
    ByteFnv1a,
}

impl Scheme {
    /// The name that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::ByteFnv1a => "byte_fnv1a",
        }
    }

    pub(crate) fn from_name(name: &str) -> Result<Self, Error> {
        match name {
            "byte_fnv1a" => Ok(Self::ByteFnv1a),
            _ => Err(Error::new(format!("unknown addressing scheme {name:?}; this version knows \"byte_fnv1a\""))),
        }
    }
}

/// One column of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// How many symbols its grams have.
    pub order: usize,
    /// What its hash starts from.
    pub seed: u32,
}

/// What an address call writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Rows of the table, `0 … entries - 1`.
    Rows,
    /// Hashes before the remainder, `0 … 2^32 - 1`: what a graph's input carries.
    Hashes,
}

/// A frozen addressing scheme. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Addressing(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    scheme: Scheme,
    columns: Vec<Column>,
    entries: u64,
    remainder: Remainder,
    json: String,
    digest: String,
}

impl Addressing {
    /// The default scheme: FNV-1a over the last `orders[c]` byte symbols, reduced by `entries`.
    pub fn byte_fnv1a(entries: u64, orders: &[u64]) -> Result<Self, Error> {
        if !(1..=MAX_ENTRIES).contains(&entries) {
            return Err(Error::new(format!("entries is {entries}; wanted 1 … {MAX_ENTRIES}")));
        }
        if !(1..=MAX_COLUMNS).contains(&orders.len()) {
            return Err(Error::new(format!("{} orders were given; wanted 1 … {MAX_COLUMNS} of them", orders.len())));
        }
        let columns = orders
            .iter()
            .zip(1..)
            .map(|(&order, seed)| match usize::try_from(order) {
                Ok(order) if (1..=MAX_ORDER).contains(&order) => Ok(Column { order, seed }),
                _ => Err(Error::new(format!("order {order} was given; wanted 1 … {MAX_ORDER}"))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let scheme = Scheme::ByteFnv1a;
        let json = json::write(scheme, &columns, entries);
        let digest = Sha256::digest(&json).iter().map(|byte| format!("{byte:02x}")).collect();
        let remainder = Remainder::by(entries);
        Ok(Self(Arc::new(Inner { scheme, columns, entries, remainder, json, digest })))
    }

    /// Reads the JSON form, in any spelling of white space and key order; unknown and missing keys are errors.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        json::read(text)
    }

    /// The canonical JSON form.
    pub fn to_json(&self) -> &str {
        &self.0.json
    }

    /// SHA-256 of the canonical JSON, in lowercase hexadecimal.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// The hash scheme.
    pub fn scheme(&self) -> Scheme {
        self.0.scheme
    }

    /// The columns, in the order in which they stand in the output.
    pub fn columns(&self) -> &[Column] {
        &self.0.columns
    }

    /// How many rows the table has.
    pub fn entries(&self) -> u64 {
        self.0.entries
    }

    /// How many symbols before a position its longest gram reads.
    pub fn lookback(&self) -> usize {
        self.0.columns.iter().map(|column| column.order - 1).max().unwrap_or(0)
    }

    /// Writes `[batch, length, columns]` rows or hashes into `out`, on at most `threads` threads.
    ///
    /// # Panics
    /// If `out` has not exactly `batch * length * columns` elements.
    pub fn address(&self, ids: &dyn Ids, quantity: Quantity, out: &mut [i64], threads: usize) {
        let remainder = match quantity {
            Quantity::Rows => self.0.remainder,
            Quantity::Hashes => Remainder::Identity,
        };
        kernel::run(self, ids, remainder, out, threads);
    }
}

impl PartialEq for Addressing {
    fn eq(&self, other: &Self) -> bool {
        self.0.json == other.0.json
    }
}

impl Eq for Addressing {}

impl std::hash::Hash for Addressing {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.digest.hash(state);
    }
}
