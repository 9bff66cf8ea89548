//! `Addressing`: a whole scheme as one frozen value.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::boundary::{Boundary, Missing};
use crate::characters::MAX_CHARACTER;
use crate::error::Error;
use crate::hash::{polynomial, vocabulary_radix};
use crate::json;
use crate::layout::{self, is_prime};
use crate::reduce::{Remainder32, Remainder64};
use crate::symbols::{byte_symbol, Ids};

/// The longest gram, in symbols or characters.
pub const MAX_ORDER: usize = 64;
/// The most columns.
pub const MAX_COLUMNS: usize = 1024;
/// The most columns of the FNV schemes.
pub const MAX_FNV_COLUMNS: usize = 64;
/// The most rows: every address is an int64.
pub const MAX_ENTRIES: u64 = i64::MAX as u64;

/// How ids become symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Symbols {
    /// The byte `(id - 3) mod 256`.
    Bytes,
    /// The id itself, in `0 … size - 1`; any int64 without a size.
    Tokens(Option<u64>),
    /// `map[id]`, for ids in `0 … map.len() - 1`.
    Map(Vec<u32>),
}

/// The hash family with what all its columns share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Family {
    /// FNV-1a over byte symbols; column `c` has seed `c + 1`.
    ByteFnv1a,
    /// The same with orders counted in UTF-8 characters.
    Utf8Fnv1a,
    /// Xored products, newest symbol first.
    MultiplyXor {
        /// One a lookback; odd.
        multipliers: Vec<i64>,
    },
    /// A polynomial in a prime of each column.
    Polynomial {
        /// One a column.
        primes: Vec<i64>,
    },
    /// Token ids as digits.
    VocabularyRadix {
        /// The base: the size of the vocabulary.
        radix: u64,
    },
}

impl Family {
    /// The name that stands in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ByteFnv1a => "byte_fnv1a",
            Self::Utf8Fnv1a => "utf8_fnv1a",
            Self::MultiplyXor { .. } => "multiply_xor",
            Self::Polynomial { .. } => "polynomial",
            Self::VocabularyRadix { .. } => "vocabulary_radix",
        }
    }

    /// Whether the family hashes bytes to 32 bits.
    pub fn is_fnv(&self) -> bool {
        matches!(self, Self::ByteFnv1a | Self::Utf8Fnv1a)
    }
}

/// One column of addresses: `hash mod rows + offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// How many symbols (or characters) its grams have.
    pub order: usize,
    /// How many rows it has.
    pub rows: u64,
    /// Its first row.
    pub offset: u64,
}

/// What an address call writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Rows of the table, `0 … entries - 1`.
    Rows,
    /// Hashes before the remainder and the offset.
    Hashes,
}

/// The parts of a scheme, before they are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// How ids become symbols.
    pub symbols: Symbols,
    /// The hash.
    pub family: Family,
    /// The columns, in the order in which they stand in the output.
    pub columns: Vec<Column>,
    /// What ends a lookback.
    pub boundary: Boundary,
    /// Rows of the table.
    pub entries: u64,
}

/// A frozen addressing scheme. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Addressing(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    parts: Parts,
    plan: Plan,
    json: String,
    digest: String,
}

/// What the kernels need, derived once.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The longest order.
    pub order: usize,
    /// How many symbols before a position its longest gram may read.
    pub lookback: usize,
    /// For the FNV families.
    pub narrow: Remainder32,
    /// One a column, for the others.
    pub wide: Vec<Remainder64>,
    /// One a column, for `VocabularyRadix`.
    pub factors: Vec<Vec<i64>>,
    /// Whether every address fits int32.
    pub fits_int32: bool,
    /// In which order a block's columns are hashed, for the others.
    pub visits: Vec<Visit>,
    /// Whether every column's remainder may go by double precision (`kernel/x86.rs` says why).
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub doubles: bool,
}

/// Neighbouring columns of one hash, and how much of it the visit before has done already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visit {
    /// The first column.
    pub from: usize,
    /// The column after the last.
    pub to: usize,
    /// How long their grams are.
    pub order: usize,
    /// How many symbols of them the visit before has hashed.
    pub done: usize,
}

impl Addressing {
    /// The default scheme: FNV-1a over the last `orders[c]` byte symbols, reduced by `entries`.
    pub fn byte_fnv1a(entries: u64, orders: &[u64]) -> Result<Self, Error> {
        Self::new(Parts {
            symbols: Symbols::Bytes,
            family: Family::ByteFnv1a,
            columns: shared_table(entries, orders)?,
            boundary: Boundary::open(Missing::NullRow),
            entries,
        })
    }

    /// The same with orders counted in UTF-8 characters.
    pub fn utf8_fnv1a(entries: u64, orders: &[u64]) -> Result<Self, Error> {
        Self::new(Parts {
            symbols: Symbols::Bytes,
            family: Family::Utf8Fnv1a,
            columns: shared_table(entries, orders)?,
            boundary: Boundary::open(Missing::NullRow),
            entries,
        })
    }

    /// Checks the parts and freezes them.
    pub fn new(mut parts: Parts) -> Result<Self, Error> {
        check(&parts)?;
        for marks in [&mut parts.boundary.reset, &mut parts.boundary.dead] {
            marks.sort_unstable();
            marks.dedup();
        }
        let json = json::write(&parts);
        if json.len() > json::MAX_BYTES {
            return Err(Error::new(format!(
                "the scheme takes {} bytes of JSON (a token map?); at most {} can be read back",
                json.len(),
                json::MAX_BYTES
            )));
        }
        let digest = Sha256::digest(&json).iter().map(|byte| format!("{byte:02x}")).collect();
        let plan = plan(&parts);
        Ok(Self(Arc::new(Inner { parts, plan, json, digest })))
    }

    /// Xored products of tokens, as DeepSeek's Engram and Qwen's n-gram embedding use: `heads` columns
    /// an order from 2 on, whose row counts are given order after order.
    pub fn multiply_xor(
        symbols: Symbols,
        multipliers: Vec<i64>,
        heads: usize,
        row_counts: &[u64],
        offsets: Option<&[u64]>,
        entries: Option<u64>,
        boundary: Boundary,
    ) -> Result<Self, Error> {
        let orders = multipliers.len().saturating_sub(1);
        if orders == 0 || heads == 0 || row_counts.len() != orders * heads {
            return Err(Error::new(format!(
                "{} row counts were given for {orders} orders of {heads} heads; wanted one a column",
                row_counts.len()
            )));
        }
        let (running, total) =
            layout::offsets(row_counts).ok_or_else(|| Error::new("the row counts add up to more than 2^63 - 1"))?;
        let offsets = offsets.unwrap_or(&running);
        if offsets.len() != row_counts.len() {
            return Err(Error::new(format!(
                "{} offsets were given for {} row counts",
                offsets.len(),
                row_counts.len()
            )));
        }
        let columns = row_counts
            .iter()
            .zip(offsets)
            .enumerate()
            .map(|(index, (&rows, &offset))| Column { order: 2 + index / heads, rows, offset })
            .collect();
        Self::new(Parts {
            symbols,
            family: Family::MultiplyXor { multipliers },
            columns,
            boundary,
            entries: entries.unwrap_or(total),
        })
    }

    /// BLT's byte groups: one column for each of the first `functions` primes and each group size, each
    /// with `rows` rows of one table.
    pub fn polynomial(symbols: Symbols, functions: usize, sizes: &[u64], rows: u64) -> Result<Self, Error> {
        let primes = polynomial::PRIMES.get(..functions).filter(|primes| !primes.is_empty()).ok_or_else(|| {
            Error::new(format!("{functions} hash functions were asked for; there are 1 … {}", polynomial::PRIMES.len()))
        })?;
        let (mut columns, mut of) = (Vec::new(), Vec::new());
        for &prime in primes {
            for &size in sizes {
                let offset = rows.checked_mul(columns.len() as u64).filter(|&offset| offset <= MAX_ENTRIES);
                let offset = offset.ok_or_else(|| Error::new("the columns have more than 2^63 - 1 rows in all"))?;
                columns.push(Column { order: order(size)?, rows, offset });
                of.push(prime);
            }
        }
        let entries = columns.last().map_or(0, |last| last.offset.saturating_add(rows));
        Self::new(Parts {
            symbols,
            family: Family::Polynomial { primes: of },
            columns,
            boundary: Boundary::open(Missing::Pad(0)),
            entries,
        })
    }

    /// LongCat-Flash-Lite's n-grams: orders 2 … `max_order`, `splits` columns each, of `ratio * radix +
    /// 2 index + 1` rows. Each column has a table of its own, so every offset is 0, unless `one_table`.
    pub fn vocabulary_radix(
        radix: u64,
        ratio: u64,
        max_order: u64,
        splits: u64,
        one_table: bool,
    ) -> Result<Self, Error> {
        order(max_order)?;
        let count = (max_order - 1).checked_mul(splits).filter(|&count| (1..=MAX_COLUMNS as u64).contains(&count));
        let count = count.ok_or_else(|| {
            Error::new(format!("orders 2 … {max_order} with {splits} splits are not 1 … {MAX_COLUMNS} columns"))
        })?;
        let base = radix.checked_mul(ratio).filter(|&base| base < MAX_ENTRIES - 2 * count);
        let base = base.ok_or_else(|| Error::new(format!("ratio {ratio} times radix {radix} leaves int64")))?;
        let rows: Vec<u64> = (0..count).map(|index| base + 2 * index + 1).collect();
        let (offsets, total) =
            layout::offsets(&rows).ok_or_else(|| Error::new("the columns have more than 2^63 - 1 rows in all"))?;
        let columns = rows.iter().zip(offsets).enumerate().map(|(index, (&rows, offset))| Column {
            order: 2 + index / splits as usize,
            rows,
            offset: if one_table { offset } else { 0 },
        });
        Self::new(Parts {
            symbols: Symbols::Tokens(Some(radix)),
            family: Family::VocabularyRadix { radix },
            columns: columns.collect(),
            boundary: Boundary::open(Missing::Pad(0)),
            entries: if one_table { total } else { base + 2 * count - 1 },
        })
    }

    /// The same scheme with another boundary.
    pub fn with_boundary(&self, boundary: Boundary) -> Result<Self, Error> {
        Self::new(Parts { boundary, ..self.0.parts.clone() })
    }

    /// Reads the JSON form, in any spelling of white space and key order; unknown and missing keys are errors.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        Self::new(json::read(text)?)
    }

    /// The canonical JSON form.
    pub fn to_json(&self) -> &str {
        &self.0.json
    }

    /// SHA-256 of the canonical JSON, in lowercase hexadecimal.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// What it is made of.
    pub fn parts(&self) -> &Parts {
        &self.0.parts
    }

    /// The columns, in the order in which they stand in the output.
    pub fn columns(&self) -> &[Column] {
        &self.0.parts.columns
    }

    /// How many rows the table has.
    pub fn entries(&self) -> u64 {
        self.0.parts.entries
    }

    /// How many symbols before a position its longest gram may read.
    pub fn lookback(&self) -> usize {
        self.0.plan.lookback
    }

    /// Whether every row fits int32.
    pub fn fits_int32(&self) -> bool {
        self.0.plan.fits_int32
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// That every id has a symbol.
    pub fn check_ids(&self, ids: &dyn Ids) -> Result<(), Error> {
        let size = match &self.0.parts.symbols {
            Symbols::Bytes => return Ok(()),
            Symbols::Tokens(Some(size)) => i128::from(*size),
            Symbols::Tokens(None) => i128::from(i64::MAX) + 1,
            Symbols::Map(map) => map.len() as i128,
        };
        let lowest = if self.0.parts.symbols == Symbols::Tokens(None) { i128::from(i64::MIN) } else { 0 };
        match ids.bounds() {
            Some((low, high)) if low < lowest || high >= size => Err(Error::new(format!(
                "id {} was given; this scheme takes {lowest} … {}",
                if low < lowest { low } else { high },
                size - 1
            ))),
            _ => Ok(()),
        }
    }

    /// The symbol of an id that [`Self::check_ids`] passed.
    #[inline]
    pub(crate) fn symbol(&self, id: i64) -> i64 {
        match &self.0.parts.symbols {
            Symbols::Bytes => i64::from(byte_symbol(id)),
            Symbols::Tokens(_) => id,
            // The ids were checked; one that another thread changed since must not end the process.
            Symbols::Map(map) => map.get(id as usize).map_or(0, |&symbol| i64::from(symbol)),
        }
    }

    /// Whether some id may become this symbol.
    pub(crate) fn has_symbol(&self, symbol: i64) -> bool {
        let (low, high) = range(&self.0.parts.symbols);
        (low..=high).contains(&i128::from(symbol))
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

fn shared_table(entries: u64, orders: &[u64]) -> Result<Vec<Column>, Error> {
    orders.iter().map(|&order| Ok(Column { order: self::order(order)?, rows: entries, offset: 0 })).collect()
}

/// An order as a number of symbols.
pub(crate) fn order(given: u64) -> Result<usize, Error> {
    match usize::try_from(given) {
        Ok(order) if (1..=MAX_ORDER).contains(&order) => Ok(order),
        _ => Err(Error::new(format!("order {given} was given; wanted 1 … {MAX_ORDER}"))),
    }
}

fn check(parts: &Parts) -> Result<(), Error> {
    let Parts { symbols, family, columns, boundary, entries } = parts;
    if !(1..=MAX_ENTRIES).contains(entries) {
        return Err(Error::new(format!("entries is {entries}; wanted 1 … {MAX_ENTRIES}")));
    }
    let most = if family.is_fnv() { MAX_FNV_COLUMNS } else { MAX_COLUMNS };
    if !(1..=most).contains(&columns.len()) {
        return Err(Error::new(format!("{} orders were given; wanted 1 … {most} of them", columns.len())));
    }
    for (index, column) in columns.iter().enumerate() {
        order(column.order as u64)?;
        let end = column.offset.checked_add(column.rows).filter(|end| end <= entries);
        if column.rows == 0 || end.is_none() {
            return Err(Error::new(format!(
                "column {index} has rows {} … {} + {}; the table has {entries}",
                column.offset, column.offset, column.rows
            )));
        }
        if family.is_fnv() && (column.offset, column.rows) != (0, *entries) {
            return Err(Error::new(format!(
                "column {index} of {} has offset {} and {} rows; wanted 0 and all {entries}",
                family.name(),
                column.offset,
                column.rows
            )));
        }
    }
    check_symbols(symbols)?;
    if family.is_fnv() != (*symbols == Symbols::Bytes) {
        let wanted = if family.is_fnv() { "bytes" } else { "tokens or a map" };
        return Err(Error::new(format!("the symbols of {} must be {wanted}", family.name())));
    }
    check_family(family, symbols, columns)?;
    check_boundary(boundary, symbols)
}

/// The symbols that ids can become: lowest and highest.
fn range(symbols: &Symbols) -> (i128, i128) {
    match symbols {
        Symbols::Bytes => (0, 255),
        Symbols::Tokens(Some(size)) => (0, i128::from(*size) - 1),
        Symbols::Tokens(None) => (i128::from(i64::MIN), i128::from(i64::MAX)),
        Symbols::Map(map) => (0, i128::from(map.iter().copied().max().unwrap_or(0))),
    }
}

fn check_symbols(symbols: &Symbols) -> Result<(), Error> {
    match symbols {
        Symbols::Tokens(Some(size)) if !(1..=i64::MAX as u64).contains(size) => {
            Err(Error::new(format!("the vocabulary has {size} tokens; wanted 1 … {}", i64::MAX)))
        }
        Symbols::Map(map) if map.is_empty() => Err(Error::new("the token map is empty")),
        _ => Ok(()),
    }
}

fn check_family(family: &Family, symbols: &Symbols, columns: &[Column]) -> Result<(), Error> {
    let longest = columns.iter().map(|column| column.order).max().unwrap_or(0);
    match family {
        Family::ByteFnv1a | Family::Utf8Fnv1a => {}
        Family::MultiplyXor { multipliers } => {
            if let Some(even) = multipliers.iter().find(|&&multiplier| multiplier & 1 == 0) {
                return Err(Error::new(format!("multiplier {even} is even; wanted odd ones")));
            }
            if multipliers.len() != longest {
                return Err(Error::new(format!(
                    "{} multipliers were given; the longest order wants {longest}",
                    multipliers.len()
                )));
            }
            if let Some(column) = columns.iter().find(|column| !is_prime(column.rows)) {
                return Err(Error::new(format!("{} rows were given for a column; wanted a prime", column.rows)));
            }
        }
        Family::Polynomial { primes } => {
            if let Some(other) = primes.iter().find(|&&prime| prime < 2 || !is_prime(prime as u64)) {
                return Err(Error::new(format!("{other} was given as the prime of a hash; it is none")));
            }
            if primes.len() != columns.len() {
                return Err(Error::new(format!(
                    "{} primes were given; {} columns want one each",
                    primes.len(),
                    columns.len()
                )));
            }
        }
        Family::VocabularyRadix { radix } => {
            let (low, high) = range(symbols);
            if low < 0 || high >= i128::from(*radix) {
                return Err(Error::new(format!("symbols reach {low} … {high}; the radix {radix} wants 0 … radix - 1")));
            }
            for column in columns {
                // One term a lookback, each below radix * rows.
                let most = i128::from(*radix)
                    .checked_mul(i128::from(column.rows))
                    .and_then(|product| product.checked_mul(column.order as i128));
                if most.is_none_or(|most| most > i128::from(i64::MAX)) {
                    return Err(Error::new(format!(
                        "radix {radix} times {} rows times order {} leaves int64",
                        column.rows, column.order
                    )));
                }
            }
        }
    }
    Ok(())
}

fn check_boundary(boundary: &Boundary, symbols: &Symbols) -> Result<(), Error> {
    let (low, high) = range(symbols);
    let inside = |name: &str, symbol: i64| {
        if (low..=high).contains(&i128::from(symbol)) {
            return Ok(());
        }
        Err(Error::new(format!("the {name} symbol {symbol} is outside {low} … {high}")))
    };
    if let Missing::Pad(pad) = boundary.missing {
        inside("pad", pad)?;
    }
    for &symbol in &boundary.reset {
        inside("reset", symbol)?;
    }
    for &symbol in &boundary.dead {
        inside("dead", symbol)?;
    }
    Ok(())
}

fn plan(parts: &Parts) -> Plan {
    let order = parts.columns.iter().map(|column| column.order).max().unwrap_or(1);
    let lookback = match parts.family {
        // The start of the oldest character may lie that far back.
        Family::Utf8Fnv1a => MAX_CHARACTER * order - 1,
        _ => order - 1,
    };
    let fnv = parts.family.is_fnv();
    Plan {
        order,
        lookback,
        narrow: Remainder32::by(parts.entries),
        wide: if fnv { Vec::new() } else { parts.columns.iter().map(|c| Remainder64::by(c.rows)).collect() },
        factors: match parts.family {
            Family::VocabularyRadix { radix } => {
                parts.columns.iter().map(|c| vocabulary_radix::factors(radix, c.rows, c.order)).collect()
            }
            _ => Vec::new(),
        },
        fits_int32: parts.entries <= 1 << 31,
        visits: if fnv { Vec::new() } else { visits(parts) },
        doubles: parts.columns.iter().all(|column| (1 << 12..1 << 50).contains(&column.rows)),
    }
}

/// Columns of one hash side by side, shorter grams before the longer ones that go on from them.
fn visits(parts: &Parts) -> Vec<Visit> {
    // Columns of equal key hash alike: their grams differ in length only.
    let key = |index: usize| match &parts.family {
        Family::Polynomial { primes } => primes[index],
        Family::VocabularyRadix { .. } => index as i64,
        _ => 0,
    };
    let mut visits: Vec<Visit> = Vec::new();
    for (index, column) in parts.columns.iter().enumerate() {
        match visits.last_mut() {
            Some(last) if last.order == column.order && key(last.from) == key(index) => last.to += 1,
            _ => visits.push(Visit { from: index, to: index + 1, order: column.order, done: 0 }),
        }
    }
    visits.sort_by_key(|visit| (key(visit.from), visit.order));
    for index in 1..visits.len() {
        if key(visits[index - 1].from) == key(visits[index].from) {
            visits[index].done = visits[index - 1].order;
        }
    }
    visits
}
