//! The JSON form of an addressing: strict to read, canonical to write.
//!
//! Canonical means: keys in ascending order, no white space, integers in decimal. The structures
//! below list their fields in that order, and serde_json writes them so. Multipliers stand as strings,
//! since they exceed what a reader that takes numbers for doubles can hold.

use serde::{Deserialize, Serialize};

use crate::addressing::{order, Column, Family, Parts, Symbols};
use crate::boundary::{Boundary, Missing};
use crate::error::Error;
use crate::symbols::BYTE_OFFSET;

/// The name and version of the form; a reader refuses any other.
const FORMAT: &str = "engram-addressing-v1";
/// No honest document comes near this; a larger one is refused unread.
pub(crate) const MAX_BYTES: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    boundary: BoundaryDocument,
    columns: Vec<ColumnDocument>,
    entries: u64,
    format: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    multipliers: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    radix: Option<u64>,
    scheme: String,
    symbols: SymbolsDocument,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundaryDocument {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dead: Vec<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pad: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reset: Vec<i64>,
    start: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnDocument {
    offset: u64,
    order: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prime: Option<i64>,
    rows: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SymbolsDocument {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    map: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
}

pub(crate) fn write(parts: &Parts) -> String {
    let (multipliers, primes, radix) = match &parts.family {
        Family::MultiplyXor { multipliers } => (Some(multipliers.iter().map(i64::to_string).collect()), None, None),
        Family::Polynomial { primes } => (None, Some(primes), None),
        Family::VocabularyRadix { radix } => (None, None, Some(*radix)),
        Family::ByteFnv1a | Family::Utf8Fnv1a => (None, None, None),
    };
    let columns = parts.columns.iter().enumerate().map(|(index, column)| ColumnDocument {
        offset: column.offset,
        order: column.order as u64,
        prime: primes.map(|primes| primes[index]),
        rows: column.rows,
    });
    let (start, pad) = match parts.boundary.missing {
        Missing::NullRow => ("null_row", None),
        Missing::Pad(pad) => ("pad", Some(pad)),
    };
    let symbols = match &parts.symbols {
        Symbols::Bytes => ("bytes", None, Some(u64::from(BYTE_OFFSET)), None),
        Symbols::Tokens(size) => ("tokens", None, None, *size),
        Symbols::Map(map) => ("map", Some(map.clone()), None, None),
    };
    let document = Document {
        boundary: BoundaryDocument {
            dead: parts.boundary.dead.clone(),
            pad,
            reset: parts.boundary.reset.clone(),
            start: start.into(),
        },
        columns: columns.collect(),
        entries: parts.entries,
        format: FORMAT.into(),
        multipliers,
        radix,
        scheme: parts.family.name().into(),
        symbols: SymbolsDocument { kind: symbols.0.into(), map: symbols.1, offset: symbols.2, size: symbols.3 },
    };
    serde_json::to_string(&document).expect("strings and integers always serialise")
}

pub(crate) fn read(text: &str) -> Result<Parts, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::new(format!("the addressing JSON has {} bytes; at most {MAX_BYTES} are read", text.len())));
    }
    let mut document: Document = serde_json::from_str(text)
        .map_err(|error| Error::new(format!("this is not the JSON of an addressing: {error}")))?;
    objects(text)?;
    if document.format != FORMAT {
        return Err(wrong("format", &document.format, FORMAT));
    }
    let family = family(&mut document)?;
    unused("multipliers", document.multipliers.is_some(), &document.scheme)?;
    unused("radix", document.radix.is_some(), &document.scheme)?;
    if !matches!(family, Family::Polynomial { .. }) {
        unused("prime", document.columns.iter().any(|column| column.prime.is_some()), &document.scheme)?;
    }
    Ok(Parts {
        symbols: symbols(document.symbols)?,
        family,
        columns: document
            .columns
            .iter()
            .map(|column| Ok(Column { order: order(column.order)?, rows: column.rows, offset: column.offset }))
            .collect::<Result<_, Error>>()?,
        boundary: boundary(document.boundary)?,
        entries: document.entries,
    })
}

/// That every structure is an object: serde takes an array of the values in order for one, too.
fn objects(text: &str) -> Result<(), Error> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| Error::new(format!("this is not the JSON of an addressing: {error}")))?;
    let columns = value["columns"].as_array().map_or(&[][..], Vec::as_slice);
    let all = [&value, &value["boundary"], &value["symbols"]].into_iter().chain(columns);
    if all.into_iter().all(serde_json::Value::is_object) {
        return Ok(());
    }
    Err(Error::new("this is not the JSON of an addressing: an array stands where an object should"))
}

/// Takes what the family needs out of the document; what is left behind belongs to another.
fn family(document: &mut Document) -> Result<Family, Error> {
    let missing = |key: &str| Error::new(format!("the addressing JSON of {} lacks {key}", document.scheme));
    match document.scheme.as_str() {
        "byte_fnv1a" => Ok(Family::ByteFnv1a),
        "utf8_fnv1a" => Ok(Family::Utf8Fnv1a),
        "multiply_xor" => {
            let given = document.multipliers.take().ok_or_else(|| missing("multipliers"))?;
            let parse = |text: &String| {
                // Only the canonical spelling: "+5" or "05" would give one scheme two documents.
                text.parse::<i64>()
                    .ok()
                    .filter(|number| number.to_string() == *text)
                    .ok_or_else(|| wrong("multipliers", text, "int64 numbers as strings"))
            };
            Ok(Family::MultiplyXor { multipliers: given.iter().map(parse).collect::<Result<_, _>>()? })
        }
        "polynomial" => {
            let primes = document.columns.iter().map(|column| column.prime.ok_or_else(|| missing("prime")));
            Ok(Family::Polynomial { primes: primes.collect::<Result<_, _>>()? })
        }
        "vocabulary_radix" => {
            Ok(Family::VocabularyRadix { radix: document.radix.take().ok_or_else(|| missing("radix"))? })
        }
        other => Err(wrong("scheme", other, "byte_fnv1a, utf8_fnv1a, multiply_xor, polynomial or vocabulary_radix")),
    }
}

fn symbols(document: SymbolsDocument) -> Result<Symbols, Error> {
    match document {
        SymbolsDocument { kind, map: None, offset: Some(offset), size: None } if kind == "bytes" => {
            if offset == u64::from(BYTE_OFFSET) {
                Ok(Symbols::Bytes)
            } else {
                Err(wrong("symbols.offset", &offset.to_string(), "3"))
            }
        }
        SymbolsDocument { kind, map: None, offset: None, size } if kind == "tokens" => Ok(Symbols::Tokens(size)),
        SymbolsDocument { kind, map: Some(map), offset: None, size: None } if kind == "map" => Ok(Symbols::Map(map)),
        SymbolsDocument { kind, .. } => Err(wrong(
            "symbols.kind",
            &kind,
            "bytes with an offset, tokens with a size or none, or map with a map, and nothing else",
        )),
    }
}

fn boundary(document: BoundaryDocument) -> Result<Boundary, Error> {
    let missing = match (document.start.as_str(), document.pad) {
        ("null_row", None) => Missing::NullRow,
        ("pad", Some(pad)) => Missing::Pad(pad),
        (other, _) => return Err(wrong("boundary.start", other, "null_row, or pad with a pad")),
    };
    Ok(Boundary { missing, reset: document.reset, dead: document.dead })
}

fn unused(key: &str, given: bool, scheme: &str) -> Result<(), Error> {
    if given {
        return Err(Error::new(format!("the addressing JSON of {scheme} has {key}; that scheme has none")));
    }
    Ok(())
}

fn wrong(key: &str, given: &str, wanted: &str) -> Error {
    let short: String = given.chars().take(80).collect();
    Error::new(format!("the addressing JSON has {key} = {short:?}; wanted {wanted}"))
}
