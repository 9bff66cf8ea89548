//! The JSON form of an addressing: strict to read, canonical to write.
//!
//! Canonical means: keys in ascending order, no white space, integers in decimal. The structures
//! below list their fields in that order, and serde_json writes them so.

use serde::{Deserialize, Serialize};

use crate::addressing::{Addressing, Column, Scheme};
use crate::error::Error;
use crate::symbols::BYTE_OFFSET;

/// The name and version of the form; a reader refuses any other.
const FORMAT: &str = "engram-addressing-v1";
/// No honest document comes near this; a larger one is refused unread.
const MAX_BYTES: usize = 8 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    boundary: Boundary,
    columns: Vec<ColumnDocument>,
    entries: u64,
    format: String,
    scheme: String,
    symbols: Symbols,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Boundary {
    start: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnDocument {
    offset: u64,
    order: u64,
    rows: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Symbols {
    kind: String,
    offset: u64,
}

pub(crate) fn write(scheme: Scheme, columns: &[Column], entries: u64) -> String {
    let document = Document {
        boundary: Boundary { start: "null_row".into() },
        columns: columns
            .iter()
            .map(|column| ColumnDocument { offset: 0, order: column.order as u64, rows: entries })
            .collect(),
        entries,
        format: FORMAT.into(),
        scheme: scheme.name().into(),
        symbols: Symbols { kind: "bytes".into(), offset: BYTE_OFFSET.into() },
    };
    serde_json::to_string(&document).expect("strings and integers always serialise")
}

pub(crate) fn read(text: &str) -> Result<Addressing, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::new(format!("the addressing JSON has {} bytes; at most {MAX_BYTES} are read", text.len())));
    }
    let document: Document = serde_json::from_str(text)
        .map_err(|error| Error::new(format!("this is not the JSON of an addressing: {error}")))?;
    expect("format", &document.format, FORMAT)?;
    let scheme = Scheme::from_name(&document.scheme)?;
    expect("boundary.start", &document.boundary.start, "null_row")?;
    expect("symbols.kind", &document.symbols.kind, "bytes")?;
    expect("symbols.offset", &document.symbols.offset, &u64::from(BYTE_OFFSET))?;
    let mut orders = Vec::with_capacity(document.columns.len());
    for (index, column) in document.columns.iter().enumerate() {
        expect(&format!("columns[{index}].offset"), &column.offset, &0)?;
        expect(&format!("columns[{index}].rows"), &column.rows, &document.entries)?;
        orders.push(column.order);
    }
    match scheme {
        Scheme::ByteFnv1a => Addressing::byte_fnv1a(document.entries, &orders),
    }
}

fn expect<T, U>(name: &str, given: &T, wanted: &U) -> Result<(), Error>
where
    T: std::fmt::Debug + PartialEq<U> + ?Sized,
    U: std::fmt::Debug + ?Sized,
{
    if given == wanted {
        return Ok(());
    }
    Err(Error::new(format!("the addressing JSON has {name} = {given:?}; wanted {wanted:?}")))
}
