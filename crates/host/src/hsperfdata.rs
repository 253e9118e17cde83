//! Counters that a Java virtual machine (HotSpot) publishes in a file of its own,
//! `/tmp/hsperfdata_USER/PID`. Read first: `PerfDataPrologue` and `PerfDataEntry` in
//! src/hotspot/share/runtime/perfMemory.hpp. The file is written by the process that it speaks of, and
//! may be anything.

use std::collections::BTreeMap;

/// Values that are read of a file at most; a JVM has about 200.
const ENTRIES_MAX: usize = 4_096;
/// Text of a value that is kept at most, bytes.
const TEXT_BYTES_MAX: usize = 64;

const MAGIC: [u8; 4] = [0xca, 0xfe, 0xc0, 0xc0];
const LITTLE_ENDIAN: u8 = 1;
const MAJOR: u8 = 2;
/// Where the prologue has the offset of the first entry and the number of entries.
const FIRST_AT: usize = 24;
const COUNT_AT: usize = 28;

/// Counters of one machine, since it was started or over a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time of all pauses for collections, ns.
    pub paused_ns: u64,
    /// Number of collections with a pause.
    pub collections: u64,
    /// Names of the collectors, such as `G1 young collection pauses`.
    pub collectors: Vec<String>,
    /// Version of Java, such as `17.0.15`; empty if it is not there.
    pub version: String,
}

impl Counters {
    /// Returns the counters with the increase since `before`.
    pub fn since(mut self, before: &Self) -> Self {
        self.paused_ns = self.paused_ns.saturating_sub(before.paused_ns);
        self.collections = self.collections.saturating_sub(before.collections);
        self
    }
}

/// The bytes of a file with its byte order.
struct Data<'a> {
    bytes: &'a [u8],
    is_little: bool,
}

impl<'a> Data<'a> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    /// Returns an offset or a length.
    fn size(&self, at: usize) -> Option<usize> {
        let bytes = self.array(at)?;
        let number =
            if self.is_little { i32::from_le_bytes(bytes) } else { i32::from_be_bytes(bytes) };
        usize::try_from(number).ok()
    }

    fn number(&self, at: usize) -> Option<u64> {
        let bytes = self.array(at)?;
        let number =
            if self.is_little { i64::from_le_bytes(bytes) } else { i64::from_be_bytes(bytes) };
        u64::try_from(number).ok()
    }

    /// Returns the text that begins here, up to a NUL and of at most `bytes_max`.
    fn text(&self, at: usize, bytes_max: usize) -> Option<&'a str> {
        let rest = self.bytes.get(at..)?;
        let rest = rest.get(..bytes_max).unwrap_or(rest);
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        std::str::from_utf8(&rest[..end]).ok()
    }
}

/// The values of a file by their names.
#[derive(Default)]
struct Values<'a> {
    numbers: BTreeMap<&'a str, u64>,
    texts: BTreeMap<&'a str, &'a str>,
}

fn values(bytes: &[u8]) -> Option<Values<'_>> {
    let [order, major] = [*bytes.get(4)?, *bytes.get(5)?];
    if !bytes.starts_with(&MAGIC) || major != MAJOR {
        return None;
    }
    let data = Data { bytes, is_little: order == LITTLE_ENDIAN };
    let (mut at, count) = (data.size(FIRST_AT)?, data.size(COUNT_AT)?);
    let mut values = Values::default();
    for _ in 0..count.min(ENTRIES_MAX) {
        let (length, name_at) = (data.size(at)?, at.checked_add(data.size(at + 4)?)?);
        let (elements, kind) = (data.size(at + 8)?, *bytes.get(at + 12)?);
        let value_at = at.checked_add(data.size(at + 16)?)?;
        let name = data.text(name_at, TEXT_BYTES_MAX)?;
        match (kind, elements) {
            (b'J', 0) => {
                values.numbers.extend(data.number(value_at).map(|it| (name, it)));
            }
            (b'B', 1..) => {
                let text = data.text(value_at, elements.min(TEXT_BYTES_MAX));
                values.texts.extend(text.map(|it| (name, it)));
            }
            _ => {}
        }
        // An entry of no length would be read for ever.
        at = at.checked_add(Some(length).filter(|it| *it > 0)?)?;
    }
    Some(values)
}

/// Parses a file. Returns `None` if it is not of the known format.
pub fn parse(bytes: &[u8]) -> Option<Counters> {
    let values = values(bytes)?;
    let of = |number: u64, name: &str| format!("sun.gc.collector.{number}.{name}");
    let hertz = values.numbers.get("sun.os.hrt.frequency").copied().filter(|it| *it > 0)?;
    let mut counters = Counters::default();
    for number in 0.. {
        let Some(ticks) = values.numbers.get(&*of(number, "time")) else { break };
        let ns = u128::from(*ticks) * 1_000_000_000 / u128::from(hertz);
        let ns = u64::try_from(ns).unwrap_or(u64::MAX);
        counters.paused_ns = counters.paused_ns.saturating_add(ns);
        let count = values.numbers.get(&*of(number, "invocations")).copied().unwrap_or(0);
        counters.collections = counters.collections.saturating_add(count);
        counters.collectors.extend(values.texts.get(&*of(number, "name")).map(|&it| plain(it)));
    }
    counters.version =
        values.texts.get("java.property.java.version").map_or_else(String::new, |it| plain(it));
    Some(counters)
}

/// Returns the text without what a terminal would take for a command.
fn plain(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file as a JVM writes it, with these numbers and texts.
    fn file(numbers: &[(&str, i64)], texts: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &[LITTLE_ENDIAN, MAJOR, 0, 1], &[0; 16]].concat();
        let count = i32::try_from(numbers.len() + texts.len()).unwrap();
        bytes.extend([32_i32, count].iter().flat_map(|it| it.to_le_bytes()));
        let mut entry = |name: &str, kind: u8, elements: usize, value: &[u8]| {
            let value_at = (20 + name.len() + 1).next_multiple_of(8);
            let length = (value_at + value.len()).next_multiple_of(8);
            let start = bytes.len();
            let sizes = [length, 20, elements].map(|it| i32::try_from(it).unwrap().to_le_bytes());
            bytes.extend(sizes.as_flattened());
            bytes.extend([kind, 0, 0, 0]);
            bytes.extend(i32::try_from(value_at).unwrap().to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.resize(start + value_at, 0);
            bytes.extend(value);
            bytes.resize(start + length, 0);
        };
        numbers.iter().for_each(|(name, value)| entry(name, b'J', 0, &value.to_le_bytes()));
        for (name, value) in texts {
            entry(name, b'B', value.len() + 1, &[value.as_bytes(), &[0]].concat());
        }
        bytes
    }

    fn machine() -> Vec<u8> {
        let numbers = [
            ("sun.os.hrt.frequency", 1_000_000),
            ("sun.gc.collector.0.time", 250_000),
            ("sun.gc.collector.0.invocations", 3),
            ("sun.gc.collector.1.time", 1_000_000),
            ("sun.gc.collector.1.invocations", 2),
        ];
        let texts = [
            ("sun.gc.collector.0.name", "Copy"),
            ("sun.gc.collector.1.name", "MSC"),
            ("java.property.java.version", "17.0.15\u{1b}"),
        ];
        file(&numbers, &texts)
    }

    #[test]
    fn pauses_of_all_collectors_are_added_up() {
        let counters = parse(&machine()).expect("the format");
        assert_eq!((counters.paused_ns, counters.collections), (1_250_000_000, 5));
        assert_eq!(counters.collectors, ["Copy", "MSC"]);
        assert_eq!(counters.version, "17.0.15", "no control characters");
        let before = Counters { paused_ns: 1_000_000_000, collections: 6, ..Counters::default() };
        let grew = counters.since(&before);
        assert_eq!((grew.paused_ns, grew.collections), (250_000_000, 0));
    }

    #[test]
    fn a_file_cut_or_changed_anywhere_is_read_within_its_bounds() {
        let whole = machine();
        for end in 0..whole.len() {
            let _ = parse(&whole[..end]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = parse(&changed);
            }
        }
        assert_eq!(parse(b"\xca\xfe\xba\xbe\0\0\0\0"), None, "a class file");
        let mut endless = whole;
        endless[32..36].fill(0);
        assert_eq!(parse(&endless), None, "an entry without a length");
    }
}
