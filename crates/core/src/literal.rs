//! Names that are literals of the program, in blobs that another process of it has written.
//!
//! Facts and parts of proofs are named by literals (`&'static str`). Those of a blob are looked up
//! among the ones that have been read before, so that each takes memory once; there is a limit, as
//! the program has few.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A literal. The alias keeps `serde` from borrowing it from the blob.
pub type Literal = &'static str;

/// Number of different literals in blobs.
const LITERALS_MAX: usize = 4096;

/// Maximum length of a literal, bytes.
const LITERAL_BYTES_MAX: usize = 256;

/// Returns the literal that equals `text`; `None` beyond the limits.
fn literal(text: &str) -> Option<Literal> {
    static KNOWN: Mutex<BTreeSet<Literal>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&literal) = known.get(text) {
        return Some(literal);
    }
    if known.len() >= LITERALS_MAX || text.len() > LITERAL_BYTES_MAX {
        return None;
    }
    let literal: Literal = Box::leak(Box::from(text));
    known.insert(literal);
    Some(literal)
}

pub(crate) fn serialize<S: Serializer>(literal: &Literal, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(literal)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Literal, D::Error> {
    let text = String::deserialize(from)?;
    literal(&text).ok_or_else(|| D::Error::custom("a name that the program does not have"))
}

/// Values that are named by literals, in order.
pub(crate) mod pairs {
    use super::{Literal, literal};
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer, V: Serialize>(
        pairs: &[(Literal, V)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(pairs)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
        from: D,
    ) -> Result<Vec<(Literal, V)>, D::Error> {
        let pairs = Vec::<(String, V)>::deserialize(from)?;
        let named = |(name, value): (String, V)| literal(&name).map(|name| (name, value));
        let named: Option<_> = pairs.into_iter().map(named).collect();
        named.ok_or_else(|| D::Error::custom("a name that the program does not have"))
    }
}

/// Values by literal.
pub(crate) mod map {
    use super::{Literal, pairs};
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::{Serialize, Serializer};
    use std::collections::BTreeMap;

    pub(crate) fn serialize<S: Serializer, V: Serialize>(
        map: &BTreeMap<Literal, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, V: Deserialize<'de>>(
        from: D,
    ) -> Result<BTreeMap<Literal, V>, D::Error> {
        pairs::deserialize(from).map(|pairs| pairs.into_iter().collect())
    }
}
