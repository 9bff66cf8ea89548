//! `Addressing` for Python.

use engram_core::{
    Address, Addressing, Boundary, Call, Error, Family, Missing, Parts, Quantity, Stream, Symbols, MAX_ENTRIES,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::arguments::{
    boundary, counts, entries as parse_entries, integer, integers, orders as parse_orders, positive, token_symbols,
};
use crate::call::{self, invalid, Options, Work};
use crate::layouts::{self, Deepseek, Qwen};
use crate::stream::{batch_size as parse_batch_size, PyStream};

/// A hash-addressing scheme: ids in, table rows out.
///
/// A frozen value. Two are equal when their canonical JSON is, and `digest` tells them apart. Make one
/// with one of the constructors below, with `from_hf_config`, or with `from_json`.
///
/// Calling it gives the rows of every position: int64 `[T, K]` for ids `[T]`, `[B, T, K]` for
/// `[B, T]`, with K = `num_columns`. The same ids give the same rows on every platform, for any dtype,
/// layout, number of threads and division into chunks.
#[pyclass(name = "Addressing", module = "engram_rs", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyAddressing(pub Addressing);

struct Direct<'a>(&'a Addressing);

impl Work for Direct<'_> {
    fn run<O: Address>(&mut self, call: &Call<'_>, out: &mut [O]) -> Result<(), Error> {
        self.0.address(call, out)
    }
}

#[pymethods]
impl PyAddressing {
    /// The default scheme: FNV-1a over the last `orders[c]` bytes, one column an order.
    ///
    /// An id stands for the byte `(id - 3) mod 256`, so ids 256 apart hash alike. A position with fewer
    /// than `orders[c]` symbols up to and including it has row 0.
    ///
    /// Args:
    ///     entries: Rows of the table, 1 … 2^63 - 1.
    ///     orders: The length of each column's n-gram, 1 … 64; at most 64 of them.
    ///
    /// Raises:
    ///     TypeError: An argument is no integer.
    ///     ValueError: An argument is out of range.
    #[classmethod]
    #[pyo3(signature = (entries = None, orders = None), text_signature = "(entries=2097152, orders=(2, 3, 4))")]
    fn byte_fnv1a(
        _cls: &Bound<'_, PyType>,
        entries: Option<&Bound<'_, PyAny>>,
        orders: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (entries, orders) = fnv_arguments(entries, orders)?;
        Addressing::byte_fnv1a(entries, &orders).map(Self).map_err(invalid)
    }

    /// FNV-1a with orders counted in UTF-8 characters, so that scripts of one, two and three bytes a
    /// letter are treated alike.
    ///
    /// The gram of order n goes from the start of the character n - 1 characters back through the position.
    /// Arguments and errors are those of `byte_fnv1a`.
    #[classmethod]
    #[pyo3(signature = (entries = None, orders = None), text_signature = "(entries=2097152, orders=(2, 3, 4))")]
    fn utf8_fnv1a(
        _cls: &Bound<'_, PyType>,
        entries: Option<&Bound<'_, PyAny>>,
        orders: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (entries, orders) = fnv_arguments(entries, orders)?;
        Addressing::utf8_fnv1a(entries, &orders).map(Self).map_err(invalid)
    }

    /// Xored products of tokens, the family of DeepSeek's Engram and Qwen's n-gram embedding.
    ///
    /// `mix_n = s[t] m[0] xor s[t-1] m[1] xor … xor s[t-n+1] m[n-1]` in wrapping int64; a column's address
    /// is `mix_n mod row_count + offset`. Columns are all heads of order 2, then of order 3, and so on.
    ///
    /// Args:
    ///     multipliers: Odd int64, one a lookback; as many as the longest order.
    ///     row_counts: Primes, one a column.
    ///     heads: Columns an order.
    ///     offsets: The first row of each column; the running sums of the row counts by default.
    ///     entries: Rows of the table; the sum of the row counts by default.
    ///     vocab_size: Ids are 0 … vocab_size - 1; any int64 by default.
    ///     token_map: A symbol for each id, in place of `vocab_size`.
    ///     pad: The symbol that stands for a missing one.
    ///     reset: Symbols after which no lookback crosses them.
    ///     dead: Symbols that are part of no gram.
    ///
    /// Raises:
    ///     TypeError: An argument is of the wrong type.
    ///     ValueError: A multiplier is even, a row count is no prime, or numbers do not fit each other.
    #[classmethod]
    #[pyo3(signature = (multipliers, row_counts, heads = None, *, offsets = None, entries = None, vocab_size = None, token_map = None, pad = None, reset = None, dead = None), text_signature = "(multipliers, row_counts, heads=8, *, offsets=None, entries=None, vocab_size=None, token_map=None, pad=0, reset=(), dead=())")]
    #[allow(clippy::too_many_arguments)]
    fn multiply_xor(
        _cls: &Bound<'_, PyType>,
        multipliers: &Bound<'_, PyAny>,
        row_counts: &Bound<'_, PyAny>,
        heads: Option<&Bound<'_, PyAny>>,
        offsets: Option<&Bound<'_, PyAny>>,
        entries: Option<&Bound<'_, PyAny>>,
        vocab_size: Option<&Bound<'_, PyAny>>,
        token_map: Option<&Bound<'_, PyAny>>,
        pad: Option<&Bound<'_, PyAny>>,
        reset: Option<&Bound<'_, PyAny>>,
        dead: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let heads = layouts::heads(heads)?;
        let multipliers = integers("multipliers", multipliers, i64::MIN, i64::MAX, engram_core::MAX_ORDER)?;
        let row_counts = counts("row_counts", row_counts, MAX_ENTRIES)?;
        let offsets = offsets
            .map(|offsets| integers("offsets", offsets, 0, i64::MAX, engram_core::MAX_COLUMNS))
            .transpose()?
            .map(|offsets| offsets.into_iter().map(|offset| offset as u64).collect::<Vec<_>>());
        let entries = entries.map(parse_entries).transpose()?;
        let mut boundary = boundary(pad, reset, dead)?;
        if boundary.missing == Missing::NullRow {
            boundary.missing = Missing::Pad(0);
        }
        let symbols = token_symbols(vocab_size, token_map)?;
        Addressing::multiply_xor(symbols, multipliers, heads, &row_counts, offsets.as_deref(), entries, boundary)
            .map(Self)
            .map_err(invalid)
    }

    /// The memory of one layer of DeepSeek-V4.1, from its configuration's values.
    ///
    /// Args:
    ///     layer: The layer's id, one of `layer_ids`.
    ///     layer_ids: All layers that have a memory: one search for primes goes through them.
    ///     max_order: The longest order.
    ///     heads: Columns an order.
    ///     vocab_size: Where the search for row counts begins.
    ///     compressed_vocab_size: Symbols there are; ids are symbols already.
    ///     token_map: A symbol for each token id, in place of `compressed_vocab_size`
    ///         (`engram_rs.compress_vocabulary` makes one).
    ///     pad: The symbol that stands for a missing one.
    ///     dead: Symbols that end a lookback (a pad, or tokens of an image).
    #[classmethod]
    #[pyo3(signature = (layer, layer_ids = None, *, max_order = None, heads = None, vocab_size = None, compressed_vocab_size = None, token_map = None, pad = None, dead = None), text_signature = "(layer, layer_ids=(1, 14), *, max_order=4, heads=8, vocab_size=16000000, compressed_vocab_size=99092, token_map=None, pad=2, dead=())")]
    #[allow(clippy::too_many_arguments)]
    fn deepseek_v41(
        cls: &Bound<'_, PyType>,
        layer: &Bound<'_, PyAny>,
        layer_ids: Option<&Bound<'_, PyAny>>,
        max_order: Option<&Bound<'_, PyAny>>,
        heads: Option<&Bound<'_, PyAny>>,
        vocab_size: Option<&Bound<'_, PyAny>>,
        compressed_vocab_size: Option<&Bound<'_, PyAny>>,
        token_map: Option<&Bound<'_, PyAny>>,
        pad: Option<&Bound<'_, PyAny>>,
        dead: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let orders = max_order.map_or(Ok(4), |order| integer("max_order", order, 2, 64))? as usize - 1;
        let size = vocab_size.map_or(Ok(16_000_000), |size| positive("vocab_size", size, 1 << 40))?;
        let published = 99_092_i64.into_pyobject(cls.py())?.into_any();
        Deepseek {
            layer,
            layer_ids: layer_ids.map_or(Ok(vec![1, 14]), layouts::layer_ids)?,
            vocab_sizes: vec![size; orders],
            heads: layouts::heads(heads)?,
            seed: 0,
            pad,
            dead: dead.map_or(Ok(Vec::new()), |dead| integers("dead", dead, 0, i64::MAX, 4096))?,
            compressed_vocab_size: compressed_vocab_size.or((token_map.is_none()).then_some(&published)),
            token_map,
        }
        .build()
        .map(Self)
    }

    /// The memory of one layer of the first published Engram demo: as `deepseek_v41`, with a seed and one
    /// vocabulary size an order.
    #[classmethod]
    #[pyo3(signature = (layer, layer_ids = None, *, heads = None, vocab_sizes = None, seed = None, compressed_vocab_size = None, token_map = None, pad = None), text_signature = "(layer, layer_ids=(1, 15), *, heads=8, vocab_sizes=(646400, 646400), seed=0, compressed_vocab_size=None, token_map=None, pad=2)")]
    #[allow(clippy::too_many_arguments)]
    fn deepseek_demo(
        _cls: &Bound<'_, PyType>,
        layer: &Bound<'_, PyAny>,
        layer_ids: Option<&Bound<'_, PyAny>>,
        heads: Option<&Bound<'_, PyAny>>,
        vocab_sizes: Option<&Bound<'_, PyAny>>,
        seed: Option<&Bound<'_, PyAny>>,
        compressed_vocab_size: Option<&Bound<'_, PyAny>>,
        token_map: Option<&Bound<'_, PyAny>>,
        pad: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let vocab_sizes = vocab_sizes.map_or(Ok(vec![646_400; 2]), |sizes| counts("vocab_sizes", sizes, 1 << 40))?;
        if vocab_sizes.is_empty() || vocab_sizes.len() >= engram_core::MAX_ORDER {
            return Err(PyValueError::new_err("vocab_sizes must hold one size an order from 2 to 64"));
        }
        Deepseek {
            layer,
            layer_ids: layer_ids.map_or(Ok(vec![1, 15]), layouts::layer_ids)?,
            vocab_sizes,
            heads: layouts::heads(heads)?,
            seed: seed.map_or(Ok(0), |seed| integer("seed", seed, 0, 1 << 48))?,
            pad,
            dead: Vec::new(),
            compressed_vocab_size,
            token_map,
        }
        .build()
        .map(Self)
    }

    /// One n-gram embedding of Qwen (`qwen4_exp` in transformers), from its configuration's values.
    ///
    /// A lookback that would cross the last `eos` before the position reads `eos` instead, and so does
    /// one before the start.
    ///
    /// Args:
    ///     layer_index: Which of the model's n-gram embeddings, counted from 0.
    ///     max_order: The longest order.
    ///     heads: Columns an order.
    ///     base: Where the search for row counts begins.
    ///     vocab_size: Ids are 0 … vocab_size - 1.
    ///     seed: Of the multipliers.
    ///     divisor: The table is padded to a multiple of it.
    ///     eos: The token that ends a document.
    #[classmethod]
    #[pyo3(signature = (layer_index = None, *, max_order = None, heads = None, base = None, vocab_size = None, seed = None, divisor = None, eos = None), text_signature = "(layer_index=0, *, max_order=3, heads=8, base=20000000, vocab_size=248320, seed=1234, divisor=128, eos=248044)")]
    #[allow(clippy::too_many_arguments)]
    fn qwen_ple(
        _cls: &Bound<'_, PyType>,
        layer_index: Option<&Bound<'_, PyAny>>,
        max_order: Option<&Bound<'_, PyAny>>,
        heads: Option<&Bound<'_, PyAny>>,
        base: Option<&Bound<'_, PyAny>>,
        vocab_size: Option<&Bound<'_, PyAny>>,
        seed: Option<&Bound<'_, PyAny>>,
        divisor: Option<&Bound<'_, PyAny>>,
        eos: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let number = |name, value: Option<&Bound<'_, PyAny>>, default, least, most| {
            value.map_or(Ok(default), |value| integer(name, value, least, most)).map(|value| value as u64)
        };
        Qwen {
            layer_index: number("layer_index", layer_index, 0, 0, 1024)?,
            max_order: number("max_order", max_order, 3, 2, 64)?,
            heads: layouts::heads(heads)?,
            base: number("base", base, 20_000_000, 1, 1 << 40)?,
            vocab_size: number("vocab_size", vocab_size, 248_320, 1, 1 << 40)?,
            seed: number("seed", seed, 1234, 0, i64::MAX)?,
            divisor: number("divisor", divisor, 128, 1, 1 << 40)?,
            eos: number("eos", eos, 248_044, 0, i64::MAX)? as i64,
        }
        .build()
        .map(Self)
    }

    /// The byte groups of BLT (`blt` in transformers): a polynomial hash for each function and group size.
    ///
    /// Args:
    ///     functions: How many of the published primes are used, 1 … 11.
    ///     sizes: The lengths of the byte groups.
    ///     rows: Rows of each column; column c begins at row `c * rows`.
    #[classmethod]
    #[pyo3(signature = (functions = None, sizes = None, rows = None), text_signature = "(functions=1, sizes=(3, 4, 5, 6, 7, 8), rows=500002)")]
    fn blt(
        _cls: &Bound<'_, PyType>,
        functions: Option<&Bound<'_, PyAny>>,
        sizes: Option<&Bound<'_, PyAny>>,
        rows: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let functions = functions.map_or(Ok(1), |value| integer("functions", value, 1, 11))? as usize;
        let sizes = sizes.map_or(Ok(vec![3, 4, 5, 6, 7, 8]), |sizes| parse_orders("sizes", sizes))?;
        let rows = rows.map_or(Ok(500_002), |rows| positive("rows", rows, MAX_ENTRIES))?;
        Addressing::polynomial(Symbols::Tokens(None), functions, &sizes, rows).map(Self).map_err(invalid)
    }

    /// The n-gram embedding of LongCat-Flash-Lite: token ids as digits to the base of the vocabulary.
    ///
    /// Args:
    ///     vocab_size: The base; ids are 0 … vocab_size - 1.
    ///     ratio: Column i has `ratio * vocab_size + 2 i + 1` rows.
    ///     max_order: Orders are 2 … max_order.
    ///     splits: Columns an order.
    ///     one_table: Whether the columns follow each other in one table. The published model has a table
    ///         for each, so that every column begins at row 0.
    #[classmethod]
    #[pyo3(signature = (vocab_size = None, ratio = None, max_order = None, splits = None, *, one_table = false), text_signature = "(vocab_size=131072, ratio=78, max_order=4, splits=4, *, one_table=False)")]
    fn longcat(
        _cls: &Bound<'_, PyType>,
        vocab_size: Option<&Bound<'_, PyAny>>,
        ratio: Option<&Bound<'_, PyAny>>,
        max_order: Option<&Bound<'_, PyAny>>,
        splits: Option<&Bound<'_, PyAny>>,
        one_table: bool,
    ) -> PyResult<Self> {
        let number = |name, value: Option<&Bound<'_, PyAny>>, default, least| {
            value.map_or(Ok(default), |value| integer(name, value, least, i64::MAX)).map(|value| value as u64)
        };
        Addressing::vocabulary_radix(
            number("vocab_size", vocab_size, 131_072, 1)?,
            number("ratio", ratio, 78, 1)?,
            number("max_order", max_order, 4, 2)?,
            number("splits", splits, 4, 1)?,
            one_table,
        )
        .map(Self)
        .map_err(invalid)
    }

    /// The scheme of a model, by the fields of its configuration: DeepSeek-V4.1, and Qwen's and BLT's
    /// models of transformers.
    ///
    /// Args:
    ///     config: A configuration object or a dictionary of its fields.
    ///     layer: The layer's id, where several have a memory.
    ///     token_map: For DeepSeek-V4.1: a symbol for each token id; without it ids are symbols already.
    ///
    /// Raises:
    ///     TypeError: A field is missing or of the wrong type.
    ///     ValueError: The configuration has no memory that is known, or its fields disagree.
    #[staticmethod]
    #[pyo3(signature = (config, layer = None, token_map = None))]
    fn from_hf_config(
        config: &Bound<'_, PyAny>,
        layer: Option<&Bound<'_, PyAny>>,
        token_map: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        layouts::from_config(config, layer, token_map).map(Self)
    }

    /// Reads `to_json()` back; key order and white space do not matter, unknown or missing keys do.
    ///
    /// Raises:
    ///     ValueError: The text is not the JSON of an addressing that this version knows.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        Addressing::from_json(text).map(Self).map_err(invalid)
    }

    /// The same scheme with another boundary.
    ///
    /// Args:
    ///     pad: The symbol that stands for one that a gram cannot reach; `None` for the null row: such a
    ///         gram has row 0.
    ///     reset: Symbols after which no lookback crosses them (an end of document).
    ///     dead: Symbols that are part of no gram (a padding, an image).
    ///
    /// Symbols are what is hashed: for bytes `(id - 3) mod 256`, for a token map what it maps to.
    #[pyo3(signature = (*, pad = None, reset = None, dead = None), text_signature = "(self, *, pad=None, reset=(), dead=())")]
    fn with_boundary(
        &self,
        pad: Option<&Bound<'_, PyAny>>,
        reset: Option<&Bound<'_, PyAny>>,
        dead: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        self.0.with_boundary(boundary(pad, reset, dead)?).map(Self).map_err(invalid)
    }

    /// The canonical JSON: sorted keys, no white space. It rides with every table and graph.
    fn to_json(&self) -> &str {
        self.0.to_json()
    }

    /// SHA-256 of the canonical JSON, 64 hexadecimal digits.
    #[getter]
    fn digest(&self) -> &str {
        self.0.digest()
    }

    /// The hash family's name, such as `"byte_fnv1a"`.
    #[getter]
    fn scheme(&self) -> &'static str {
        self.0.parts().family.name()
    }

    /// Rows of the table.
    #[getter]
    fn entries(&self) -> u64 {
        self.0.entries()
    }

    /// The n-gram length of each column.
    #[getter]
    fn orders<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.columns().iter().map(|column| column.order))
    }

    /// How many addresses a position has, K.
    #[getter]
    fn num_columns(&self) -> usize {
        self.0.columns().len()
    }

    /// Rows of each column.
    #[getter]
    fn row_counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.columns().iter().map(|column| column.rows))
    }

    /// The first row of each column.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.columns().iter().map(|column| column.offset))
    }

    /// The multipliers of `multiply_xor`, `None` for other schemes.
    #[getter]
    fn multipliers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        match &self.0.parts().family {
            Family::MultiplyXor { multipliers } => PyTuple::new(py, multipliers).map(Some),
            _ => Ok(None),
        }
    }

    /// Ids are 0 … vocab_size - 1; `None` where any integer is an id.
    #[getter]
    fn vocab_size(&self) -> Option<u64> {
        match &self.0.parts().symbols {
            Symbols::Bytes => None,
            Symbols::Tokens(size) => *size,
            Symbols::Map(map) => Some(map.len() as u64),
        }
    }

    /// The symbol of each id where there is a map, int64 `[vocab_size]`; else `None`.
    #[getter]
    fn token_map<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<i64>>> {
        match &self.0.parts().symbols {
            Symbols::Map(map) => Some(map.iter().map(|&symbol| i64::from(symbol)).collect::<Vec<_>>().into_pyarray(py)),
            _ => None,
        }
    }

    /// The symbol that stands for one that a gram cannot reach; `None` for the null row.
    #[getter]
    fn pad(&self) -> Option<i64> {
        match self.0.parts().boundary.missing {
            Missing::NullRow => None,
            Missing::Pad(pad) => Some(pad),
        }
    }

    /// Symbols after which no lookback crosses them, ascending.
    #[getter]
    fn reset<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.parts().boundary.reset)
    }

    /// Symbols that are part of no gram, ascending.
    #[getter]
    fn dead<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.parts().boundary.dead)
    }

    /// How many symbols before a position its longest gram may read.
    #[getter]
    fn lookback(&self) -> usize {
        self.0.lookback()
    }

    /// The rows of every position, `0 … entries - 1`.
    ///
    /// Args:
    ///     ids: Integers `[T]` or `[B, T]`, of any dtype and strides; read in place.
    ///     out: A C-contiguous array `[..., T, K]` to write into, int64, or int32 where all rows fit;
    ///         `None` for a new one.
    ///     threads: At most this many threads; `None` for as many as the machine has.
    ///     dtype: Of a new array: int64, or int32 for half the traffic.
    ///     history: The ids before `ids`, `[H]` or `[B, H]`, for those who keep them; `stream` does it
    ///         for others. It needs no more than the last `lookback` ids.
    ///     lengths: Integers `[B]`: how many ids of each sequence count. What follows is padding: it is
    ///         part of no gram, and has row 0 or grams of pad symbols only.
    ///     cu_seqlens: Integers `[N + 1]`: 0, the running sums of the lengths of N sequences that are packed
    ///         in one, and T at last. No gram crosses from one into the next.
    ///     dead: Booleans of the shape of `ids`: positions that are part of no gram.
    ///
    /// Returns:
    ///     `out`, or the new array `[..., T, K]`.
    ///
    /// Raises:
    ///     TypeError: `ids` are not integers (text needs `encode` first), or a dtype is wrong.
    ///     ValueError: A shape or layout is wrong, an id is out of the scheme's range, `out` is read-only or
    ///         overlaps `ids`, or int32 does not hold every row. Nothing was written then.
    #[pyo3(signature = (ids, out = None, threads = None, *, dtype = None, history = None, lengths = None, cu_seqlens = None, dead = None))]
    #[allow(clippy::too_many_arguments)]
    fn __call__<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        threads: Option<&Bound<'py, PyAny>>,
        dtype: Option<&Bound<'py, PyAny>>,
        history: Option<&Bound<'py, PyAny>>,
        lengths: Option<&Bound<'py, PyAny>>,
        cu_seqlens: Option<&Bound<'py, PyAny>>,
        dead: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = Options { out, threads, dtype, history, lengths, cu_seqlens, dead };
        call::run(&self.0, ids, Quantity::Rows, options, &mut Direct(&self.0))
    }

    /// The hashes before the remainder and the offset, int64: for the FNV schemes `0 … 2^32 - 1`, what the
    /// input of an exported graph carries.
    ///
    /// Arguments, result and errors are those of a call; `hashes % row_counts + offsets` are its rows.
    #[pyo3(signature = (ids, out = None, threads = None, *, history = None, lengths = None, cu_seqlens = None, dead = None))]
    #[allow(clippy::too_many_arguments)]
    fn hashes<'py>(
        &self,
        ids: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        threads: Option<&Bound<'py, PyAny>>,
        history: Option<&Bound<'py, PyAny>>,
        lengths: Option<&Bound<'py, PyAny>>,
        cu_seqlens: Option<&Bound<'py, PyAny>>,
        dead: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let options = Options { out, threads, dtype: None, history, lengths, cu_seqlens, dead };
        call::run(&self.0, ids, Quantity::Hashes, options, &mut Direct(&self.0))
    }

    /// A stream of `batch_size` sequences: it keeps their histories, so that any chunks give the rows of
    /// one call.
    #[pyo3(signature = (batch_size = None), text_signature = "(self, batch_size=1)")]
    fn stream(&self, batch_size: Option<&Bound<'_, PyAny>>) -> PyResult<PyStream> {
        Ok(PyStream(Stream::new(self.0.clone(), parse_batch_size(batch_size)?)))
    }

    pub(crate) fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Parts { family, boundary, .. } = self.0.parts();
        let plain = Boundary::open(Missing::NullRow);
        if family.is_fnv() && *boundary == plain {
            let orders = self.orders(py)?.repr()?;
            return Ok(format!("Addressing.{}(entries={}, orders={orders})", self.scheme(), self.entries()));
        }
        Ok(format!(
            "<Addressing {}, {} columns of orders {} to {}, {} entries, digest {}…>",
            self.scheme(),
            self.num_columns(),
            self.0.columns().iter().map(|column| column.order).min().unwrap_or(0),
            self.0.columns().iter().map(|column| column.order).max().unwrap_or(0),
            self.entries(),
            &self.digest()[..8],
        ))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json().to_owned(),)))
    }
}

fn fnv_arguments(entries: Option<&Bound<'_, PyAny>>, orders: Option<&Bound<'_, PyAny>>) -> PyResult<(u64, Vec<u64>)> {
    Ok((
        entries.map_or(Ok(2_097_152), parse_entries)?,
        orders.map_or(Ok(vec![2, 3, 4]), |orders| parse_orders("orders", orders))?,
    ))
}
