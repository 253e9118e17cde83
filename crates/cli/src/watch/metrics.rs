//! `--metrics` and `--otlp`: counters and a histogram in Prometheus' text format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Counters count all traffic: if only a share of the connections was captured, the increase in
//! each interval is scaled up. The number of series is bounded.

mod otlp;
mod server;

pub use otlp::Push;
pub use server::Server;

use super::lines::Cost;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;
use tcpwhy_core::model::{EndpointReport, Report};

/// Upper bounds of the latency histogram's buckets, s.
const BUCKETS: [f64; 15] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0,
];
/// Number of series for causes at endpoints; all others are summed up by cause.
const SERIES_MAX: usize = 100;
/// Number of endpoints with quantiles.
const ENDPOINTS_MAX: usize = 20;
/// Time limit for a whole exchange with a client that reads metrics, or with a collector.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counters since the watch began.
#[derive(Default)]
pub struct Counters {
    /// Lost time, s.
    lost: BTreeMap<Losing, Counter>,
    buckets: [Counter; BUCKETS.len() + 1],
    latency_sum: Counter,
}

/// The labels of lost time: `fault` or `cost`, the cause, who has to change something, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Losing {
    class: &'static str,
    cause: &'static str,
    role: &'static str,
    endpoint: String,
}

/// A sum that only grows, estimated from the captured part.
#[derive(Clone, Copy, Default)]
struct Counter {
    /// The largest captured value so far.
    captured: f64,
    total: f64,
}

impl Counter {
    /// Updates the sum: `captured` is the captured value since the beginning, and the increase
    /// since the last call is multiplied by `scale`.
    fn set(&mut self, captured: f64, scale: f64) {
        let more = (captured - self.captured).max(0.0);
        self.captured += more;
        self.total += more * scale;
    }
}

impl Counters {
    /// Takes a report on everything since the watch began.
    pub fn take(&mut self, whole: &Report, scale: f64) {
        let lost = whole.findings.iter().map(|finding| {
            let (cause, culprit) = (finding.cause, &finding.culprit);
            let losing = Losing {
                class: cause.class().id(),
                cause: cause.id(),
                role: culprit.role.id(),
                endpoint: culprit.endpoint.to_string(),
            };
            (losing, finding.lost_ns as f64 / 1e9)
        });
        self.lose(lost, scale);
        let mut counts = [0.0; BUCKETS.len() + 1];
        let mut sum = 0.0;
        for (ns, count) in whole.latency_histogram.points() {
            let seconds = ns as f64 / 1e9;
            counts[BUCKETS.partition_point(|bound| *bound < seconds)] += count as f64;
            sum += seconds * count as f64;
        }
        for (counter, count) in self.buckets.iter_mut().zip(counts) {
            counter.set(count, scale);
        }
        self.latency_sum.set(sum, scale);
    }

    /// Takes what was lost since the watch began, s. The first [`SERIES_MAX`] have series of their own
    /// as long as the watch lasts; the others are summed up at the endpoint `other`.
    fn lose(&mut self, lost: impl Iterator<Item = (Losing, f64)>, scale: f64) {
        let mut captured = BTreeMap::new();
        for (mut losing, seconds) in lost {
            if self.lost.len() >= SERIES_MAX && !self.lost.contains_key(&losing) {
                losing.endpoint = "other".into();
            }
            self.lost.entry(losing.clone()).or_default();
            *captured.entry(losing).or_insert(0.0) += seconds;
        }
        for (losing, seconds) in captured {
            self.lost.entry(losing).or_default().set(seconds, scale);
        }
    }

    /// Returns all metrics; `window` is the report on the sliding window.
    pub fn metrics(&self, window: &Report, cost: &Cost, share: f64) -> Vec<Metric> {
        let lost = self.lost.iter().map(|(losing, counter)| Point {
            labels: vec![
                ("class", losing.class.into()),
                ("cause", losing.cause.into()),
                ("role", losing.role.into()),
                ("endpoint", losing.endpoint.clone()),
            ],
            value: counter.total,
        });
        let latency = Histogram {
            bounds: &BUCKETS,
            counts: self.buckets.iter().map(|counter| counter.total.round() as u64).collect(),
            sum: self.latency_sum.total,
        };
        let packets: u64 = window.inputs.iter().map(|input| input.packets).sum();
        let own_s = cost.own_cpu_ns as f64 / 1e9;
        let one = |value: f64| Values::Counter(vec![Point { labels: Vec::new(), value }]);
        let now = |value: f64| Values::Gauge(vec![Point { labels: Vec::new(), value }]);
        let metric = |name, unit, help, values| Metric { name, unit, help, values };
        vec![
            metric(
                "tcpwhy_lost_seconds_total",
                "s",
                "Time that exchanges lost to a cause.",
                Values::Counter(lost.collect()),
            ),
            metric(
                "tcpwhy_exchange_latency_seconds",
                "s",
                "Wall time of exchanges, from request to response.",
                Values::Histogram(latency),
            ),
            metric(
                "tcpwhy_endpoint_latency_seconds",
                "s",
                "Quantiles of latency per server, over the last window.",
                Values::Gauge(quantiles(window)),
            ),
            metric(
                "tcpwhy_captured_packets_total",
                "{packet}",
                "Packets captured.",
                one(packets as f64),
            ),
            metric(
                "tcpwhy_dropped_packets_total",
                "{packet}",
                "Packets lost by the capture.",
                one(cost.dropped_packets as f64),
            ),
            metric("tcpwhy_cpu_seconds_total", "s", "CPU time of tcpwhy itself.", one(own_s)),
            metric(
                "tcpwhy_sampled_share",
                "1",
                "Share of the connections captured now.",
                now(share),
            ),
            metric(
                "tcpwhy_open_connections",
                "{connection}",
                "Connections followed.",
                now(cost.open_connections as f64),
            ),
        ]
    }
}

/// Median and 99th percentile of each server's latency.
fn quantiles(window: &Report) -> Vec<Point> {
    let of_endpoint = |endpoint: &EndpointReport| {
        let (at, latency) = (endpoint.endpoint.to_string(), endpoint.latency);
        [("0.5", latency.p50_ns), ("0.99", latency.p99_ns)].map(|(quantile, ns)| Point {
            labels: vec![("endpoint", at.clone()), ("quantile", quantile.to_owned())],
            value: ns as f64 / 1e9,
        })
    };
    window.endpoints.iter().take(ENDPOINTS_MAX).flat_map(of_endpoint).collect()
}

/// A metric, independent of the output format.
pub struct Metric {
    name: &'static str,
    /// Unit, in the Unified Code for Units of Measure.
    unit: &'static str,
    help: &'static str,
    values: Values,
}

enum Values {
    /// Sums that only grow.
    Counter(Vec<Point>),
    /// Current values.
    Gauge(Vec<Point>),
    Histogram(Histogram),
}

struct Point {
    labels: Vec<(&'static str, String)>,
    value: f64,
}

struct Histogram {
    /// Upper bounds of all buckets except the last, which has none.
    bounds: &'static [f64],
    /// Counts of the buckets.
    counts: Vec<u64>,
    sum: f64,
}

/// Renders the page that Prometheus reads.
pub fn page(metrics: &[Metric]) -> String {
    let mut page = Page::default();
    for metric in metrics {
        let name = metric.name;
        match &metric.values {
            Values::Counter(points) => page.points(metric, "counter", points),
            Values::Gauge(points) => page.points(metric, "gauge", points),
            Values::Histogram(histogram) => {
                page.about(metric, "histogram");
                let mut sum = 0;
                for (place, count) in histogram.counts.iter().enumerate() {
                    sum += count;
                    let bound = histogram.bounds.get(place).map_or("+Inf".into(), f64::to_string);
                    page.value(&format!("{name}_bucket"), &format!("le=\"{bound}\""), sum as f64);
                }
                page.value(&format!("{name}_sum"), "", histogram.sum);
                page.value(&format!("{name}_count"), "", sum as f64);
            }
        }
    }
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn about(&mut self, metric: &Metric, kind: &str) {
        let Metric { name, help, .. } = metric;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn points(&mut self, metric: &Metric, kind: &str, points: &[Point]) {
        self.about(metric, kind);
        for point in points {
            let labels = point.labels.iter().map(|(name, value)| format!("{name}=\"{value}\""));
            self.value(metric.name, &labels.collect::<Vec<_>>().join(","), point.value);
        }
    }

    fn value(&mut self, name: &str, labels: &str, value: f64) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_never_shrinks_and_is_scaled_from_where_sampling_began() {
        let mut counter = Counter::default();
        counter.set(10.0, 1.0);
        counter.set(8.0, 1.0);
        counter.set(12.0, 4.0);
        assert_eq!(counter.total, 18.0);
    }

    #[test]
    fn endpoints_above_the_limit_are_summed_up_as_other() {
        let of_host = |host: usize| Losing {
            class: "fault",
            cause: "nagle_delayed_ack",
            role: "server",
            endpoint: format!("10.0.{}.{}:80", host / 256, host % 256),
        };
        let mut counters = Counters::default();
        for seconds in [1.0, 3.0] {
            counters.lose((0..SERIES_MAX + 400).map(|host| (of_host(host), seconds)), 1.0);
        }
        assert_eq!(counters.lost.len(), SERIES_MAX + 1);
        assert_eq!(counters.lost[&of_host(SERIES_MAX - 1)].total, 3.0);
        let other = Losing { endpoint: "other".into(), ..of_host(0) };
        assert_eq!(counters.lost[&other].total, 1_200.0);
    }
}
