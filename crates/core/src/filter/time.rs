//! Parses times as users write them.

pub(super) const SECOND_NS: u64 = 1_000_000_000;
pub(super) const DAY_NS: u64 = 86_400 * SECOND_NS;

/// A time in a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub(super) enum Time {
    /// Nanoseconds after the first frame.
    SinceFirst(u64),
    /// Nanoseconds after midnight UTC.
    OfDay(u64),
    /// Nanoseconds since the epoch.
    Absolute(u64),
}

impl Time {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(offset) = text.strip_prefix('+') {
            return Some(Self::SinceFirst(parse_duration_ns(offset)?));
        }
        match text.split_once('T') {
            Some((date, time)) => {
                let days = days_since_epoch(date)?;
                let ns = of_day_ns(time.strip_suffix('Z').unwrap_or(time))?;
                Some(Self::Absolute(days.checked_mul(DAY_NS)?.checked_add(ns)?))
            }
            None => Some(Self::OfDay(of_day_ns(text.strip_suffix('Z').unwrap_or(text))?)),
        }
    }

    /// Returns whether it can be before `other`; times of day may belong to different days.
    pub(super) fn precedes(self, other: Self) -> bool {
        match (self, other) {
            (Self::SinceFirst(mine), Self::SinceFirst(theirs))
            | (Self::Absolute(mine), Self::Absolute(theirs)) => mine < theirs,
            (Self::OfDay(mine), Self::OfDay(theirs)) => mine != theirs,
            _ => true,
        }
    }

    pub(super) fn at(self, first_ns: u64) -> u64 {
        match self {
            Self::Absolute(ns) => ns,
            Self::SinceFirst(ns) => first_ns.saturating_add(ns),
            Self::OfDay(ns) => {
                // A capture that crosses midnight: 00:10 after a start at 23:50 is on the next day.
                // A time of day less than half a day before the start is taken as before the start.
                let at = (first_ns - first_ns % DAY_NS).saturating_add(ns);
                if first_ns > at.saturating_add(DAY_NS / 2) {
                    at.saturating_add(DAY_NS)
                } else {
                    at
                }
            }
        }
    }
}

/// Formats a time since the epoch as filters accept it, to the second: `2026-01-31T10:00:05Z`.
pub fn utc(ns: u64) -> String {
    let seconds = ns / SECOND_NS;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (hours, minutes, seconds) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

/// Returns year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Eras of 400 years, and years that begin in March, so that the leap day is the last of its
    // year.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let of_years = of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096;
    let year = of_years / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Parses a duration such as `20ms`, `1.5s` or `2m`, ns.
pub fn parse_duration_ns(text: &str) -> Option<u64> {
    let digits =
        text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ns = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND_NS,
        "m" | "min" => 60 * SECOND_NS,
        "h" => 3_600 * SECOND_NS,
        _ => return None,
    };
    decimal(number, unit_ns)
}

/// Returns `number` (which may have a fraction) times `unit`, exactly.
fn decimal(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 =
        if whole.is_empty() && !fraction.is_empty() { 0 } else { whole.parse().ok()? };
    let mut sum = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.chars() {
        place /= 10;
        sum = sum.checked_add(place * u64::from(digit.to_digit(10)?))?;
    }
    Some(sum)
}

/// Parses a time of day: `10:00`, `10:00:05`, `10:00:05.25`.
fn of_day_ns(text: &str) -> Option<u64> {
    let mut parts = text.split(':');
    let hours: u64 = parts.next()?.parse().ok().filter(|&hours| hours < 24)?;
    let minutes: u64 = parts.next()?.parse().ok().filter(|&minutes| minutes < 60)?;
    let seconds_ns = match parts.next() {
        Some(seconds) => decimal(seconds, SECOND_NS).filter(|&ns| ns < 61 * SECOND_NS)?,
        None => 0,
    };
    let whole = (hours * 3_600 + minutes * 60) * SECOND_NS + seconds_ns;
    parts.next().is_none().then_some(whole)
}

/// Days from 1970-01-01 to `YYYY-MM-DD` of the Gregorian calendar.
pub(super) fn days_since_epoch(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let year: u64 = parts.next()?.parse().ok().filter(|year| (1970..2500).contains(year))?;
    let month: u64 = parts.next()?.parse().ok().filter(|month| (1..=12).contains(month))?;
    let day: u64 = parts.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    // Years begin in March here, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    parts.next().is_none().then(|| days.checked_sub(719_468))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        assert_eq!(days_since_epoch("1970-01-01"), Some(0));
        assert_eq!(days_since_epoch("2000-02-29"), Some(11_016));
        assert_eq!(days_since_epoch("2026-11-21"), Some(20_778));
    }

    #[test]
    fn dates_are_written_as_they_are_read() {
        for text in ["1970-01-01T00:00:00Z", "2024-02-29T23:59:59Z", "2026-03-01T10:00:05Z"] {
            let Some(Time::Absolute(ns)) = Time::parse(text) else { panic!("{text}") };
            assert_eq!(utc(ns), text);
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration_ns("1.5s"), Some(1_500_000_000));
        assert_eq!(parse_duration_ns("30"), None);
    }
}
