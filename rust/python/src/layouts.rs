//! The published layouts: from configuration values to a scheme.

use engram_core::{layout, Addressing, Boundary, Missing, Symbols};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arguments::{counts, describe, integer, integers, orders, positive, token_symbols};
use crate::call::invalid;

/// What DeepSeek's two layouts have in common.
pub struct Deepseek<'a, 'py> {
    pub layer: &'a Bound<'py, PyAny>,
    pub layer_ids: Vec<i64>,
    /// One an order, from 2 on.
    pub vocab_sizes: Vec<u64>,
    pub heads: usize,
    /// Added to what the generator of a layer starts from.
    pub seed: i64,
    pub pad: Option<&'a Bound<'py, PyAny>>,
    pub dead: Vec<i64>,
    pub compressed_vocab_size: Option<&'a Bound<'py, PyAny>>,
    pub token_map: Option<&'a Bound<'py, PyAny>>,
}

impl Deepseek<'_, '_> {
    pub fn build(self) -> PyResult<Addressing> {
        let layer = integer("layer", self.layer, 0, 1 << 32)?;
        let place = self.layer_ids.iter().position(|&id| id == layer).ok_or_else(|| {
            PyValueError::new_err(format!("layer {layer} has no memory; layer_ids are {:?}", self.layer_ids))
        })?;
        let symbols = match (self.compressed_vocab_size, self.token_map) {
            (Some(size), None) => token_symbols(Some(size), None)?,
            (None, Some(map)) => token_symbols(None, Some(map))?,
            _ => return Err(PyValueError::new_err("give compressed_vocab_size or token_map, and not both")),
        };
        let size = match &symbols {
            Symbols::Map(map) => u64::from(map.iter().copied().max().unwrap_or(0)) + 1,
            Symbols::Tokens(size) => size.unwrap_or(1),
            Symbols::Bytes => 256,
        };
        let order = self.vocab_sizes.len() + 1;
        affordable((place + 1) * self.vocab_sizes.len() * self.heads, self.vocab_sizes.len() * self.heads)?;
        // The published generator is numpy's, so numpy draws the multipliers.
        let numpy = self.layer.py().import("numpy")?;
        let options = PyDict::new(self.layer.py());
        options.set_item("size", order)?;
        options.set_item("dtype", numpy.getattr("int64")?)?;
        let generator = numpy.getattr("random")?.call_method1("default_rng", (self.seed + 10_007 * layer,))?;
        let drawn = generator.call_method("integers", (0, layout::half_bound(size)), Some(&options))?;
        let multipliers = drawn.call_method0("tolist")?.extract::<Vec<i64>>()?.into_iter().map(|m| m * 2 + 1).collect();
        let py = self.layer.py();
        let row_counts = py.detach(|| layout::shared_search(place, &self.vocab_sizes, self.heads));
        let pad = self.pad.map_or(Ok(2), |pad| integer("pad", pad, 0, i64::MAX))?;
        let boundary = Boundary { missing: Missing::Pad(pad), reset: Vec::new(), dead: self.dead };
        Addressing::multiply_xor(symbols, multipliers, self.heads, &row_counts, None, None, boundary).map_err(invalid)
    }
}

/// Refuses a search for more primes than any model has, before it begins.
fn affordable(primes: usize, columns: usize) -> PyResult<()> {
    const MOST: usize = 1 << 14;
    if columns > engram_core::MAX_COLUMNS || primes > MOST {
        return Err(PyValueError::new_err(format!(
            "{columns} columns a layer and {primes} primes were asked for; wanted at most {} and {MOST}",
            engram_core::MAX_COLUMNS
        )));
    }
    Ok(())
}

/// Primes are searched one by one, so a search is kept to what a model could have.
const MOST_HEADS: u64 = 64;

pub fn heads(value: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
    Ok(value.map_or(Ok(8), |value| positive("heads", value, MOST_HEADS))? as usize)
}

pub fn layer_ids(value: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let ids = integers("layer_ids", value, 0, 1 << 32, 1024)?;
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if ids.is_empty() || sorted.len() != ids.len() || ids.len() > 256 {
        return Err(PyValueError::new_err(format!(
            "layer_ids must be 1 … 256 different layers, not {}",
            describe(value)
        )));
    }
    Ok(ids)
}

/// What Qwen's layout is made from.
pub struct Qwen {
    pub layer_index: u64,
    pub max_order: u64,
    pub heads: usize,
    pub base: u64,
    pub vocab_size: u64,
    pub seed: u64,
    pub divisor: u64,
    pub eos: i64,
}

impl Qwen {
    pub fn build(self) -> PyResult<Addressing> {
        let columns = (self.max_order as usize - 1) * self.heads;
        affordable((self.layer_index as usize + 1).saturating_mul(columns), columns)?;
        let multipliers =
            layout::splitmix_multipliers(self.vocab_size, self.max_order as usize, self.layer_index, self.seed);
        let counts = layout::consecutive(self.base, self.layer_index as usize * columns, columns);
        let total = layout::offsets(&counts).map(|(_, total)| total);
        let entries = total
            .and_then(|total| total.checked_next_multiple_of(self.divisor))
            .ok_or_else(|| PyValueError::new_err("the row counts add up to more than 2^63 - 1"))?;
        let boundary = Boundary { missing: Missing::Pad(self.eos), reset: vec![self.eos], dead: Vec::new() };
        let symbols = Symbols::Tokens(Some(self.vocab_size));
        Addressing::multiply_xor(symbols, multipliers, self.heads, &counts, None, Some(entries), boundary)
            .map_err(invalid)
    }
}

/// The scheme of a model of transformers, or of DeepSeek-V4.1, by its configuration's fields.
pub fn from_config<'py>(
    config: &Bound<'py, PyAny>,
    layer: Option<&Bound<'py, PyAny>>,
    token_map: Option<&Bound<'py, PyAny>>,
) -> PyResult<Addressing> {
    // A model with several modalities keeps the fields of its language model one level down.
    let mut config = config.clone();
    if field(&config, "text_config")?.is_some() && !known(&config)? {
        config = field(&config, "text_config")?.unwrap_or(config);
    }
    if field(&config, "engram_layer_ids")?.is_some() {
        return deepseek_config(&config, layer, token_map);
    }
    if token_map.is_some() {
        return Err(PyValueError::new_err("token_map goes with a configuration that has engram_layer_ids"));
    }
    if field(&config, "ngram_vocab_size_base")?.is_some() {
        return qwen_config(&config, layer);
    }
    if field(&config, "encoder_hash_byte_group_size")?.is_some() {
        if layer.is_some() {
            return Err(PyValueError::new_err("BLT has one hash for the model; give no layer"));
        }
        let functions = needed(&config, "encoder_hash_byte_group_nb_functions")?;
        let sizes = needed(&config, "encoder_hash_byte_group_size")?;
        let rows = needed(&config, "encoder_hash_byte_group_vocab")?;
        return Addressing::polynomial(
            Symbols::Tokens(None),
            positive("encoder_hash_byte_group_nb_functions", &functions, 1024)? as usize,
            &orders("encoder_hash_byte_group_size", &sizes)?,
            positive("encoder_hash_byte_group_vocab", &rows, i64::MAX as u64)?,
        )
        .map_err(invalid);
    }
    Err(PyValueError::new_err(format!(
        "no n-gram memory is known by the fields of {}: wanted engram_layer_ids (DeepSeek-V4.1), \
         ngram_vocab_size_base (Qwen) or encoder_hash_byte_group_size (BLT)",
        config.get_type().name()?
    )))
}

fn known(config: &Bound<'_, PyAny>) -> PyResult<bool> {
    for name in ["engram_layer_ids", "ngram_vocab_size_base", "encoder_hash_byte_group_size"] {
        if field(config, name)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn deepseek_config<'py>(
    config: &Bound<'py, PyAny>,
    layer: Option<&Bound<'py, PyAny>>,
    token_map: Option<&Bound<'py, PyAny>>,
) -> PyResult<Addressing> {
    let ids = layer_ids(&needed(config, "engram_layer_ids")?)?;
    let layer =
        layer.ok_or_else(|| PyValueError::new_err(format!("which layer? The model has memories at {ids:?}")))?;
    let order = positive("engram_max_ngram_size", &needed(config, "engram_max_ngram_size")?, 64)?;
    let vocab_size = positive("engram_vocab_size", &needed(config, "engram_vocab_size")?, 1 << 40)?;
    let size = needed(config, "engram_compressed_vocab_size")?;
    let pad = needed(config, "engram_pad_token_id")?;
    // The pad is a token, and the gram holds symbols.
    let pad = match token_map {
        None => pad,
        Some(map) => map.get_item(integer("engram_pad_token_id", &pad, 0, map.len()? as i64 - 1)?)?,
    };
    let place = ids.iter().position(|&id| layer.extract::<i64>().is_ok_and(|layer| layer == id));
    let heads = heads(Some(&needed(config, "engram_n_heads")?))?;
    let built = Deepseek {
        layer,
        layer_ids: ids,
        vocab_sizes: vec![vocab_size; order as usize - 1],
        heads,
        seed: 0,
        pad: Some(&pad),
        dead: Vec::new(),
        compressed_vocab_size: if token_map.is_none() { Some(&size) } else { None },
        token_map,
    }
    .build()?;
    if let (Some(rows), Some(place)) = (field(config, "engram_num_embeddings")?, place) {
        let declared = counts("engram_num_embeddings", &rows, i64::MAX as u64)?;
        if declared.get(place) != Some(&built.entries()) {
            return Err(PyValueError::new_err(format!(
                "engram_num_embeddings declares {:?} rows for layer {layer}; its other fields make {}",
                declared.get(place),
                built.entries()
            )));
        }
    }
    Ok(built)
}

fn qwen_config<'py>(config: &Bound<'py, PyAny>, layer: Option<&Bound<'py, PyAny>>) -> PyResult<Addressing> {
    let ids = integers("ple_layer_ids", &needed(config, "ple_layer_ids")?, 0, 1 << 32, 1024)?;
    let layer_index = match layer {
        None if ids.len() == 1 => 0,
        None => return Err(PyValueError::new_err(format!("which layer? The model has n-gram memories at {ids:?}"))),
        Some(layer) => {
            let layer = integer("layer", layer, 0, 1 << 32)?;
            ids.iter().position(|&id| id == layer).ok_or_else(|| {
                PyValueError::new_err(format!("layer {layer} has no n-gram memory; ple_layer_ids are {ids:?}"))
            })? as u64
        }
    };
    let eos = needed(config, "eos_token_id")?;
    let eos = if eos.hasattr("__index__")? { eos } else { eos.get_item(0)? };
    let number = |name: &str, most: u64| positive(name, &needed(config, name)?, most);
    let max_order = number("ngram_size", 64)?;
    if max_order < 2 {
        return Err(PyValueError::new_err(format!("ngram_size must be 2 or more, not {max_order}")));
    }
    Qwen {
        layer_index,
        max_order,
        heads: number("heads_per_ngram", MOST_HEADS)? as usize,
        base: number("ngram_vocab_size_base", 1 << 40)?,
        vocab_size: number("vocab_size", 1 << 40)?,
        seed: integer("seed", &needed(config, "seed")?, 0, i64::MAX)? as u64,
        divisor: number("make_ngram_vocab_size_divisible_by", 1 << 40)?,
        eos: integer("eos_token_id", &eos, 0, i64::MAX)?,
    }
    .build()
}

/// A field of a configuration object or of a dictionary; `None` counts as absent.
fn field<'py>(config: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let value = match config.cast::<PyDict>() {
        Ok(config) => config.get_item(name)?,
        Err(_) => config.getattr_opt(name)?,
    };
    Ok(value.filter(|value| !value.is_none()))
}

fn needed<'py>(config: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    field(config, name)?.ok_or_else(|| PyTypeError::new_err(format!("the configuration lacks {name}")))
}
