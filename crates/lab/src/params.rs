//! The parameters of a case: numbers whose names end in their unit.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// Parameters by name; the suffix is the unit: `_ns`, `_bps`, `_bytes`, `_ppm`, none for counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Params(BTreeMap<String, u64>);

/// The unit of a parameter, which is the last part of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// `_ns`
    Time,
    /// `_bps`: bits per second.
    Rate,
    /// `_bytes`
    Bytes,
    /// `_ppm`: a share, in parts per million.
    Share,
    /// No suffix: a count, or 0 and 1 for no and yes.
    Count,
}

impl Unit {
    const ALL: [Unit; 5] = [Unit::Time, Unit::Rate, Unit::Bytes, Unit::Share, Unit::Count];

    fn suffix(self) -> &'static str {
        match self {
            Unit::Time => "_ns",
            Unit::Rate => "_bps",
            Unit::Bytes => "_bytes",
            Unit::Share => "_ppm",
            Unit::Count => "",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Unit::Time => "20ms",
            Unit::Rate => "100mbit",
            Unit::Bytes => "16KiB",
            Unit::Share => "1%",
            Unit::Count => "10",
        }
    }

    /// Returns the placeholder for the value in a help text.
    pub fn value_name(self) -> &'static str {
        match self {
            Unit::Time => "TIME",
            Unit::Rate => "BITRATE",
            Unit::Bytes => "BYTES",
            Unit::Share => "PERCENT",
            Unit::Count => "N",
        }
    }

    /// Returns the suffixes that may follow a number, each with its factor; a value is written with
    /// the first that divides it.
    fn multiples(self) -> &'static [(&'static str, f64)] {
        match self {
            Unit::Time => &[("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)],
            Unit::Rate => &[("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)],
            Unit::Bytes => &[
                ("MiB", 1_048_576.0),
                ("M", 1_048_576.0),
                ("MB", 1e6),
                ("KiB", 1024.0),
                ("K", 1024.0),
                ("k", 1024.0),
                ("kB", 1e3),
                ("B", 1.0),
                ("", 1.0),
            ],
            Unit::Share => &[("%", 1e4), ("ppm", 1.0)],
            Unit::Count => &[("", 1.0)],
        }
    }

    fn parse(self, text: &str) -> Option<u64> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let number: f64 = number.parse().ok()?;
        if number == 0.0 {
            return Some(0);
        }
        let known = self.multiples().iter().find(|(name, _)| *name == suffix.trim());
        known.map(|(_, factor)| (number * factor).round() as u64)
    }

    /// Returns the value as it can be given: `20ms`, `16KiB`, `1%`.
    pub fn show(self, value: u64) -> String {
        let least = if self == Unit::Share { 0.1 } else { 1.0 };
        let whole = |factor: f64| {
            let scaled = value as f64 / factor;
            scaled >= least && scaled * 10.0 % 1.0 == 0.0
        };
        let found = self.multiples().iter().find(|(_, factor)| whole(*factor));
        match found {
            Some((name, factor)) if value > 0 => format!("{}{name}", value as f64 / factor),
            _ => value.to_string(),
        }
    }
}

/// Parameters that must not be 0.
const AT_LEAST_ONE: [&str; 2] = ["requests", "connections"];

/// Returns a parameter's name as an option, without its unit, and the unit.
pub fn option(name: &str) -> (String, Unit) {
    let unit = Unit::ALL.into_iter().find(|unit| name.ends_with(unit.suffix()));
    let unit = unit.unwrap_or(Unit::Count);
    (name.trim_end_matches(unit.suffix()).replace('_', "-"), unit)
}

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

    /// Multiplies the number of requests by `factor`, for each kind of request that the case has.
    #[must_use]
    pub fn with_requests_times(mut self, factor: u64) -> Params {
        let requests = self.0.iter_mut().filter(|(name, _)| name.ends_with("requests"));
        requests.for_each(|(_, value)| *value *= factor);
        self
    }

    /// Returns the value of `name`, in the unit with which its name ends.
    ///
    /// # Errors The case has no such parameter.
    pub fn get(&self, name: &str) -> Result<u64, LabError> {
        self.0.get(name).copied().ok_or_else(|| self.unknown(name))
    }

    /// Returns the value of a `_ns` parameter as a duration.
    ///
    /// # Errors The case has no such parameter.
    pub fn duration(&self, name: &str) -> Result<Duration, LabError> {
        self.get(name).map(Duration::from_nanos)
    }

    /// Sets `rtt` to `20ms` if the case has `rtt_ns`: the unit is part of the value, not of the
    /// name.
    ///
    /// # Errors The case has no such parameter, or the value cannot be read.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), LabError> {
        let (wanted, _) = option(&name.replace('-', "_"));
        let slot = self.0.iter_mut().find(|(full, _)| option(full).0 == wanted);
        let Some((full, slot)) = slot else {
            return Err(self.unknown(name));
        };
        let (_, unit) = option(full);
        let is_possible = |number: &u64| match unit {
            Unit::Share => *number <= 1_000_000,
            _ => *number > 0 || !AT_LEAST_ONE.contains(&full.as_str()),
        };
        let number = unit.parse(value).filter(is_possible);
        *slot = number.ok_or_else(|| LabError::BadValue {
            name: wanted,
            value: value.to_owned(),
            example: unit.example(),
        })?;
        Ok(())
    }

    /// Returns names and values in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(k, v)| (k.as_str(), *v))
    }

    fn unknown(&self, name: &str) -> LabError {
        let known: Vec<_> = self.0.keys().map(|k| format!("--{}", option(k).0)).collect();
        LabError::UnknownParam { name: name.replace('_', "-"), known: known.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::{Params, Unit};

    #[test]
    fn values_are_shown_as_they_can_be_given() {
        let shown = [
            (Unit::Time, 20_000_000, "20ms"),
            (Unit::Time, 1_500_000_000, "1.5s"),
            (Unit::Rate, 100_000_000, "100mbit"),
            (Unit::Bytes, 16_384, "16KiB"),
            (Unit::Bytes, 376_000, "376kB"),
            (Unit::Bytes, 183_254, "183254B"),
            (Unit::Share, 5_000, "0.5%"),
            (Unit::Count, 0, "0"),
        ];
        for (unit, value, text) in shown {
            assert_eq!(unit.show(value), text);
            assert_eq!(unit.parse(text), Some(value));
        }
    }

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
        assert!(p.set("loss", "101%").is_err());
        assert!(p.set("requests", "0").is_err());
        assert!(p.set("colour", "1").is_err());
    }
}
