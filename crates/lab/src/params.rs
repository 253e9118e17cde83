//! The parameters of a case: numbers whose names end in their unit.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// Parameters by name; the suffix is the unit: `_ns`, `_bps`, `_bytes`, `_ppm`, none for counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, u64>);

const UNITS: [(&str, &str); 5] =
    [("_ns", "20ms"), ("_bps", "100mbit"), ("_bytes", "16KiB"), ("_ppm", "1%"), ("", "10")];

impl Params {
    /// Adds a parameter with its default.
    pub fn with(mut self, name: &str, value: u64) -> Params {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// Adds a parameter unless the case has set it.
    pub fn or(mut self, name: &str, value: u64) -> Params {
        self.0.entry(name.to_owned()).or_insert(value);
        self
    }

    /// The value of `name`, in the unit its name ends in.
    ///
    /// # Errors
    /// The case has no such parameter.
    pub fn get(&self, name: &str) -> Result<u64, LabError> {
        self.0.get(name).copied().ok_or_else(|| self.unknown(name))
    }

    /// The value of a `_ns` parameter as a duration.
    ///
    /// # Errors
    /// The case has no such parameter.
    pub fn duration(&self, name: &str) -> Result<Duration, LabError> {
        self.get(name).map(Duration::from_nanos)
    }

    /// Sets `rtt=20ms` where the case has `rtt_ns`: the unit is in the value, not in the name.
    ///
    /// # Errors
    /// The case has no such parameter, or the value cannot be read.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), LabError> {
        let name = name.replace('-', "_");
        for (unit, example) in UNITS {
            let full = if name.ends_with(unit) { name.clone() } else { format!("{name}{unit}") };
            let Some(slot) = self.0.get_mut(&full) else {
                continue;
            };
            *slot = parse(unit, value).ok_or_else(|| LabError::BadValue {
                name: name.clone(),
                value: value.to_owned(),
                example,
            })?;
            return Ok(());
        }
        Err(self.unknown(&name))
    }

    /// Name and value of each, in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(k, v)| (k.as_str(), *v))
    }

    fn unknown(&self, name: &str) -> LabError {
        let known = self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        LabError::UnknownParam { name: name.to_owned(), known }
    }
}

fn parse(unit: &str, text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let factor = match (unit, suffix.trim()) {
        ("_ns", "s") => 1e9,
        ("_ns", "ms") => 1e6,
        ("_ns", "us") => 1e3,
        ("_ns", "ns") => 1.0,
        ("_bps", "gbit") => 1e9,
        ("_bps", "mbit") => 1e6,
        ("_bps", "kbit") => 1e3,
        ("_bps", "bit") => 1.0,
        ("_bytes", "" | "B") => 1.0,
        ("_bytes", "KiB" | "K" | "k") => 1024.0,
        ("_bytes", "MiB" | "M") => 1_048_576.0,
        ("_bytes", "kB") => 1e3,
        ("_bytes", "MB") => 1e6,
        ("_ppm", "%") => 1e4,
        ("_ppm", "ppm") => 1.0,
        ("", "") => 1.0,
        _ if number == 0.0 => 1.0,
        _ => return None,
    };
    Some((number * factor).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::Params;

    #[test]
    fn values_carry_their_unit() {
        let mut p = Params::default()
            .with("rtt_ns", 0)
            .with("rate_bps", 0)
            .with("loss_ppm", 0)
            .with("sndbuf_bytes", 0)
            .with("requests", 0);
        let given = [
            ("rtt", "20ms", "rtt_ns", 20_000_000),
            ("rate", "100mbit", "rate_bps", 100_000_000),
            ("loss", "1%", "loss_ppm", 10_000),
            ("sndbuf", "16KiB", "sndbuf_bytes", 16_384),
            ("requests", "10", "requests", 10),
            ("rtt", "0.1ms", "rtt_ns", 100_000),
        ];
        for (name, text, full, want) in given {
            assert!(p.set(name, text).is_ok(), "{name}");
            assert_eq!(p.get(full).ok(), Some(want), "{name}={text}");
        }
        assert!(p.set("sndbuf_bytes", "2KiB").is_ok());
        assert_eq!(p.get("sndbuf_bytes").ok(), Some(2_048));
        assert!(p.set("rtt", "20").is_err());
        assert!(p.set("colour", "1").is_err());
    }
}
