//! Converts pcapng times to nanoseconds: `if_tsresol` and `if_tsoffset` (pcapng §4.2).

const NS_PER_S: u128 = 1_000_000_000;

/// The latest supported time, in 2116, which the 32-bit seconds of pcap cannot exceed: sums with
/// durations, and small multiples, fit into 64 bits.
pub const LATEST_NS: u64 = (1 << 62) - 1;

/// The meaning of an interface's 64-bit times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resolution {
    unit: Unit,
    offset_ns: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A whole number of nanoseconds: all resolutions in practice.
    Nanoseconds(u64),
    /// 10^-n s, finer than a nanosecond.
    PowerOfTen(u32),
    /// 2^-n s.
    PowerOfTwo(u32),
}

impl Resolution {
    /// Microseconds, the default if an interface states nothing.
    pub(super) const DEFAULT: Self = Self { unit: Unit::Nanoseconds(1_000), offset_ns: 0 };

    /// Returns the same offset with the unit of an `if_tsresol` byte: the top bit is the base, the
    /// others are the negative exponent.
    pub(super) fn with_tsresol(self, tsresol: u8) -> Self {
        let exponent = u32::from(tsresol & 0x7f);
        let unit = match (tsresol & 0x80 != 0, exponent) {
            (true, _) => Unit::PowerOfTwo(exponent),
            (false, 0..=9) => Unit::Nanoseconds(10_u64.pow(9 - exponent)),
            (false, _) => Unit::PowerOfTen(exponent),
        };
        Self { unit, ..self }
    }

    /// Returns the same unit with an `if_tsoffset`, seconds.
    pub(super) fn with_offset_s(self, offset_s: i64) -> Self {
        Self { offset_ns: i128::from(offset_s) * NS_PER_S as i128, ..self }
    }

    /// Returns the unit in nanoseconds if times are whole multiples of it since the epoch.
    pub(super) fn plain(self) -> Option<u64> {
        match (self.unit, self.offset_ns) {
            (Unit::Nanoseconds(factor), 0) => Some(factor),
            _ => None,
        }
    }

    /// Returns nanoseconds since the epoch; `Err` is the nearest supported time if the time is
    /// before 1970 or after [`LATEST_NS`].
    pub(super) fn nanoseconds(self, time: u64) -> Result<u64, u64> {
        let time = u128::from(time);
        let ns = match self.unit {
            Unit::Nanoseconds(factor) => time * u128::from(factor),
            Unit::PowerOfTen(exponent) => match 10_u128.checked_pow(exponent) {
                Some(units_per_s) => time * NS_PER_S / units_per_s,
                None => 0,
            },
            Unit::PowerOfTwo(exponent) => (time * NS_PER_S) >> exponent,
        };
        let ns = ns as i128 + self.offset_ns;
        let exact = u64::try_from(ns).ok().filter(|&ns| ns <= LATEST_NS);
        exact.ok_or(if ns < 0 { 0 } else { LATEST_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::{LATEST_NS, Resolution};

    #[test]
    fn every_tsresol_and_offset_is_a_time_or_the_nearest() {
        for tsresol in 0..=u8::MAX {
            for time in [0, 1, u64::from(u32::MAX), 1 << 62, u64::MAX] {
                for offset in [i64::MIN, -1, 0, 1, i64::MAX] {
                    let resolution =
                        Resolution::DEFAULT.with_tsresol(tsresol).with_offset_s(offset);
                    let exact = resolution.nanoseconds(time);
                    assert!(exact.unwrap_or_else(|nearest_ns| nearest_ns) <= LATEST_NS);
                }
            }
        }
    }

    #[test]
    fn units_are_powers_of_ten_or_two() {
        let ns = |tsresol, time| Resolution::DEFAULT.with_tsresol(tsresol).nanoseconds(time);
        assert_eq!(Resolution::DEFAULT.nanoseconds(7), Ok(7_000));
        assert_eq!(ns(0, 7), Ok(7_000_000_000));
        assert_eq!(ns(3, 7), Ok(7_000_000));
        assert_eq!(ns(9, 7), Ok(7));
        assert_eq!(ns(12, 7_999), Ok(7));
        assert_eq!(ns(127, u64::MAX), Ok(0));
        assert_eq!(ns(0x80, 7), Ok(7_000_000_000));
        assert_eq!(ns(0x80 | 20, 3 << 19), Ok(1_500_000_000));
        assert_eq!(ns(0x80 | 32, 1 << 31), Ok(500_000_000));
        assert_eq!(ns(0, u64::MAX), Err(LATEST_NS));
    }

    #[test]
    fn an_offset_moves_the_epoch() {
        let shifted = Resolution::DEFAULT.with_offset_s(10);
        assert_eq!(shifted.nanoseconds(5), Ok(10_000_005_000));
        let before_1970 = Resolution::DEFAULT.with_offset_s(-1);
        assert_eq!(before_1970.nanoseconds(5), Err(0));
        assert_eq!(before_1970.nanoseconds(1_000_001), Ok(1_000));
    }
}
