//! Formats quantities and endpoints for people: three significant digits, one unit.

pub use super::clean::printable;
use crate::wire::Endpoint;

/// Formats a duration: `850 ns`, `41.4 ms`, `2 s`, `3 min 20 s`.
pub fn duration(ns: u64) -> String {
    const MINUTE: u64 = 60_000_000_000;
    const HOUR: u64 = 60 * MINUTE;
    match ns {
        0..1_000 => format!("{ns} ns"),
        // The next unit begins where three digits would be rounded up to 1000.
        1_000..999_500 => scaled(ns, 1e3, "µs"),
        999_500..999_500_000 => scaled(ns, 1e6, "ms"),
        999_500_000..120_000_000_000 => scaled(ns, 1e9, "s"),
        _ if ns < HOUR => format!("{} min {} s", ns / MINUTE, ns % MINUTE / 1_000_000_000),
        _ if ns < 48 * HOUR => format!("{} h {} min", ns / HOUR, ns / MINUTE % 60),
        _ => format!("{} d {} h", count(ns / (24 * HOUR)), ns / HOUR % 24),
    }
}

/// Formats a duration that is known roughly, with two significant digits: `1.4 ms`. It is no longer than
/// `most_ns`, and what is formatted is not either.
pub fn roughly(ns: u64, most_ns: u64) -> String {
    two_digits(ns, most_ns, |ns, step| ns.saturating_add(step / 2) / step)
}

/// Formats an upper end with two significant digits, rounded up. It is not above `most_ns`, and what is
/// formatted is not either.
pub fn upper_end(ns: u64, most_ns: u64) -> String {
    two_digits(ns, most_ns, u64::div_ceil)
}

fn two_digits(ns: u64, most_ns: u64, divide: impl Fn(u64, u64) -> u64) -> String {
    let step = 10u64.pow(ns.checked_ilog10().unwrap_or(0).saturating_sub(1));
    let rounded_ns = divide(ns, step).saturating_mul(step);
    let text = duration(if rounded_ns > most_ns { ns } else { rounded_ns });
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Formats an interval of durations in one unit, rounded outward: `0.3–1.4 ms`, `103–118 ms`.
pub fn range(least_ns: u64, most_ns: u64) -> String {
    let (unit, step_ns, tenths) = steps(most_ns);
    let shown = |steps: u64| match tenths {
        true if !steps.is_multiple_of(10) => format!("{}.{}", steps / 10, steps % 10),
        true => format!("{}", steps / 10),
        false => count(steps),
    };
    let (least, most) = (shown(least_ns / step_ns), shown(most_ns.div_ceil(step_ns)));
    if least == most { format!("{most} {unit}") } else { format!("{least}–{most} {unit}") }
}

/// Formats an interval like [`range`] of which nothing is above `present_ns`: an upper end that rounding
/// would carry beyond that keeps three digits.
pub fn range_below(least_ns: u64, most_ns: u64, present_ns: u64) -> String {
    let (unit, step_ns, _) = steps(most_ns);
    let is_beyond = most_ns.div_ceil(step_ns) * step_ns > present_ns;
    let exact = duration(most_ns);
    match exact.strip_suffix(unit).map(str::trim_end).filter(|_| is_beyond) {
        Some(most) if most.parse::<f64>().is_ok() => {
            let floor = range(least_ns / step_ns * step_ns, most_ns / step_ns * step_ns);
            let least = floor.split(['–', ' ']).next().unwrap_or_default();
            if least == most { exact } else { format!("{least}–{exact}") }
        }
        _ => range(least_ns, most_ns),
    }
}

/// Returns whether a duration lies in the interval that [`range`] prints.
pub fn is_in_range(least_ns: u64, most_ns: u64, ns: u64) -> bool {
    let (_, step_ns, _) = steps(most_ns);
    (least_ns / step_ns * step_ns..=most_ns.div_ceil(step_ns) * step_ns).contains(&ns)
}

/// Returns the unit in which an interval up to `most_ns` is printed, the smallest step, ns, and whether
/// that is a tenth of the unit.
fn steps(most_ns: u64) -> (&'static str, u64, bool) {
    let (unit_ns, unit) = match most_ns {
        0..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        1_000_000_000..7_200_000_000_000 => (1_000_000_000, "s"),
        _ => (60_000_000_000, "min"),
    };
    // A tenth of the unit is shown where the greater end has one digit before it.
    let tenths = most_ns < 10 * unit_ns;
    (unit, if tenths { unit_ns / 10 } else { unit_ns }, tenths)
}

/// Formats a number of bytes: exact below 10 KiB, then KiB, MiB, GiB.
pub fn bytes(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    match bytes {
        0..10_240 if !bytes.is_multiple_of(KIB) || bytes == 0 => format!("{} B", count(bytes)),
        0..1_048_576 => scaled(bytes, KIB as f64, "KiB"),
        1_048_576..1_073_741_824 => scaled(bytes, (1u64 << 20) as f64, "MiB"),
        _ => scaled(bytes, (1u64 << 30) as f64, "GiB"),
    }
}

/// Formats a number of bytes exactly: `1,448 B`.
pub fn bytes_exact(bytes: u64) -> String {
    format!("{} B", count(bytes))
}

/// Formats a rate in bits per second, with decimal multiples.
pub fn rate(bits_per_second: u64) -> String {
    match bits_per_second {
        0..1_000 => format!("{bits_per_second} bit/s"),
        1_000..1_000_000 => scaled(bits_per_second, 1e3, "kbit/s"),
        1_000_000..1_000_000_000 => scaled(bits_per_second, 1e6, "Mbit/s"),
        _ => scaled(bits_per_second, 1e9, "Gbit/s"),
    }
}

/// Formats a whole number with thousands separated: `4,812`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with its noun: `1 exchange`, `4,812 exchanges`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Formats a share of one as a percentage: `98 %`, `1.9 %`, `< 0.1 %`. Only exactly 1 is `100 %`.
pub fn share(share: f64) -> String {
    let percent = share.clamp(0.0, 1.0) * 100.0;
    if percent == 0.0 {
        "0 %".into()
    } else if percent < 0.1 {
        "< 0.1 %".into()
    } else if percent < 9.95 {
        format!("{percent:.1} %")
    } else if percent < 99.5 {
        format!("{percent:.0} %")
    } else if percent < 100.0 {
        format!("{:.1} %", percent.min(99.9))
    } else {
        "100 %".into()
    }
}

/// Formats `value / unit` with three significant digits, without a fraction of zeros.
fn scaled(value: u64, unit: f64, name: &str) -> String {
    let scaled = value as f64 / unit;
    let text = match scaled {
        _ if scaled < 9.995 => format!("{scaled:.2}"),
        _ if scaled < 99.95 => format!("{scaled:.1}"),
        _ => format!("{scaled:.0}"),
    };
    let text = match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole,
        _ => &text,
    };
    format!("{text} {name}")
}

/// Formats an endpoint; port 0 means any and is left out.
pub fn endpoint(endpoint: &Endpoint) -> String {
    if endpoint.port == 0 { endpoint.ip().to_string() } else { endpoint.to_string() }
}

/// Formats an endpoint in a sentence; the default endpoint means several servers in one row.
pub fn endpoint_or_others(at: &Endpoint) -> String {
    if *at == Endpoint::default() { "other servers".into() } else { endpoint(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_rounded_outward_in_one_unit() {
        assert_eq!(range(312_000, 1_380_000), "0.3–1.4 ms");
        assert_eq!(range(0, 499_000), "0–499 µs");
        assert_eq!(range(59_400_000, 60_100_000), "59–61 ms");
        assert_eq!(range(980_000_000, 1_020_000_000), "0.9–1.1 s");
        assert_eq!(range(2_000_000, 2_000_000), "2 ms");
        assert_eq!(range(150_000_000_000, 170_000_000_000), "150–170 s");
        assert!(is_in_range(3_790_000, 4_830_000, 4_860_000), "3.7–4.9 ms");
        assert!(!is_in_range(3_790_000, 4_830_000, 4_910_000));
    }

    #[test]
    fn two_digits_are_kept_of_a_predicted_duration() {
        let rough = [1_364_000, 1_320_000, 84_499_999].map(|ns| roughly(ns, u64::MAX));
        assert_eq!(rough, ["1.4 ms", "1.3 ms", "84 ms"]);
        let ends = [1_310_000, 450_001, 2_000_000].map(|ns| upper_end(ns, u64::MAX));
        assert_eq!(ends, ["1.4 ms", "460 µs", "2 ms"]);
        assert_eq!(upper_end(0, 0), "0 ns");
    }

    #[test]
    fn rounding_carries_no_prediction_beyond_the_present_value() {
        let present_ns = 128_000_000;
        assert_eq!(upper_end(127_400_000, present_ns), "127 ms");
        assert_eq!(roughly(126_000_000, present_ns), "126 ms");
        assert_eq!(range_below(59_000_000, 59_200_000, 59_400_000), "59–59.2 ms");
        assert_eq!(range_below(4_100_000, 4_830_000, 4_860_000), "4.1–4.83 ms");
        assert_eq!(range_below(59_000_000, 59_200_000, 80_000_000), "59–60 ms");
        assert_eq!(range_below(0, 127_400_000, present_ns), "0–128 ms");
    }

    #[test]
    fn durations_keep_three_digits_and_one_unit() {
        let shown = [0, 850, 3_000, 41_400, 43_912_345, 999_960_000, 2_000_000_000];
        let texts = shown.map(duration);
        assert_eq!(texts, ["0 ns", "850 ns", "3 µs", "41.4 µs", "43.9 ms", "1 s", "2 s"]);
        assert_eq!(duration(200_000_000_000), "3 min 20 s");
        assert_eq!(duration(7_500_000_000_000), "2 h 5 min");
        assert_eq!(duration(200_000_000_000_000), "2 d 7 h");
    }

    #[test]
    fn sizes_are_exact_where_segments_are_meant() {
        assert_eq!([238, 1_448, 8_192, 16_384].map(bytes), ["238 B", "1,448 B", "8 KiB", "16 KiB"]);
        assert_eq!(bytes(22_300_000), "21.3 MiB");
        assert_eq!(rate(6_553_600), "6.55 Mbit/s");
    }

    #[test]
    fn shares_never_round_to_all_or_nothing() {
        let shares = [0.0, 0.0004, 0.019, 0.98, 0.9999, 1.0].map(share);
        assert_eq!(shares, ["0 %", "< 0.1 %", "1.9 %", "98 %", "99.9 %", "100 %"]);
    }
}
