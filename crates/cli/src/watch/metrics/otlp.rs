//! `--otlp`: pushes the metrics to a collector by OTLP over HTTP, in its JSON encoding
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>).

use super::{Metric, PATIENCE, Point, Values};
use crate::error::Error;
use crate::sandbox;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Default port of a collector, and the path for metrics.
const PORT: u16 = 4318;
const PATH: &str = "/v1/metrics";
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: counts since the watch began.
const CUMULATIVE: u8 = 2;
/// Maximum number of bytes of a response that are read.
const ANSWER_BYTES_MAX: u64 = 4096;

/// Pushes metrics to a collector, on its own thread without privileges.
pub struct Push {
    wanted: SyncSender<Value>,
    failed: Receiver<String>,
    started_ns: u64,
}

impl Push {
    /// Pushes to `url` (`http://HOST[:4318][/v1/metrics]`) from now on.
    ///
    /// # Errors [`Error::Otlp`] if the URL is invalid.
    pub fn to(url: &str) -> Result<Self, Error> {
        let target = Target::parse(url).ok_or_else(|| Error::Otlp { url: url.to_owned() })?;
        // A queue of one: the next document has newer counts.
        let (wanted, bodies) = sync_channel::<Value>(1);
        let (failures, failed) = sync_channel(1);
        thread::spawn(move || {
            sandbox::confine_measuring(None);
            let mut has_failed = false;
            for body in bodies {
                let pushed = target.post(&body.to_string());
                if let (Err(error), false) = (&pushed, has_failed) {
                    let _ = failures.try_send(format!(
                        "metrics cannot be pushed to {}: {error}; it is tried again each interval",
                        target.host
                    ));
                }
                has_failed = pushed.is_err();
            }
        });
        Ok(Self { wanted, failed, started_ns: now_ns() })
    }

    /// Pushes `metrics`, unless the last push is still in progress. Returns an error message once
    /// until a push succeeds again.
    pub fn push(&self, metrics: &[Metric]) -> Option<String> {
        let _ = self.wanted.try_send(body(metrics, self.started_ns, now_ns()));
        self.failed.try_recv().ok()
    }
}

fn now_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns an `ExportMetricsServiceRequest`.
fn body(metrics: &[Metric], started_ns: u64, now_ns: u64) -> Value {
    let time = (started_ns.to_string(), now_ns.to_string());
    let metrics: Vec<_> = metrics.iter().map(|metric| document(metric, &time)).collect();
    json!({ "resourceMetrics": [{
        "resource": { "attributes": [attribute("service.name", "tcpwhy")] },
        "scopeMetrics": [{
            "scope": { "name": "tcpwhy", "version": env!("CARGO_PKG_VERSION") },
            "metrics": metrics,
        }],
    }]})
}

fn document(metric: &Metric, time: &(String, String)) -> Value {
    let points = |points: &[Point]| -> Vec<Value> {
        let point = |point: &Point| {
            let attributes = point.labels.iter().map(|(name, value)| attribute(name, value));
            json!({
                "attributes": attributes.collect::<Vec<_>>(),
                "startTimeUnixNano": time.0, "timeUnixNano": time.1, "asDouble": point.value,
            })
        };
        points.iter().map(point).collect()
    };
    let (kind, data) = match &metric.values {
        Values::Counter(all) => (
            "sum",
            json!({ "dataPoints": points(all), "aggregationTemporality": CUMULATIVE,
                    "isMonotonic": true }),
        ),
        Values::Gauge(all) => ("gauge", json!({ "dataPoints": points(all) })),
        Values::Histogram(it) => (
            "histogram",
            json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": [{
                "startTimeUnixNano": time.0, "timeUnixNano": time.1,
                "count": it.counts.iter().sum::<u64>().to_string(), "sum": it.sum,
                "bucketCounts": it.counts.iter().map(u64::to_string).collect::<Vec<_>>(),
                "explicitBounds": it.bounds,
            }]}),
        ),
    };
    // OTLP has separate fields for unit and kind, so they are removed from the name.
    let name = metric.name.trim_end_matches("_total").trim_end_matches("_seconds");
    let mut document = json!({
        "name": name.replacen('_', ".", 1), "description": metric.help, "unit": metric.unit,
    });
    document[kind] = data;
    document
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// The destination of metrics.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// `HOST:PORT`.
    host: String,
    path: String,
}

impl Target {
    fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (host, path) = match rest.split_once('/') {
            Some((host, path)) if !path.is_empty() => (host, format!("/{path}")),
            Some((host, _)) => (host, PATH.to_owned()),
            None => (rest, PATH.to_owned()),
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
        (!host.starts_with(':') && is_plain(&host) && is_plain(&path))
            .then_some(Self { host, path })
    }

    /// Posts `body`; a status other than 2xx is an error.
    fn post(&self, body: &str) -> io::Result<()> {
        let address = self.host.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the name has no address"))?;
        let until = Instant::now() + PATIENCE;
        let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
        let mut stream = Timed { socket, until };
        let (path, host, length) = (&self.path, &self.host, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        let status = answer.get(9..12).unwrap_or_default();
        match status {
            [b'2', ..] => Ok(()),
            _ => {
                let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
                Err(io::Error::other(format!("it answers {}", String::from_utf8_lossy(line))))
            }
        }
    }
}

/// A connection whose reads and writes all end at one time: a limit for each of them would let a
/// collector that sends single bytes hold the thread.
struct Timed {
    socket: TcpStream,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<std::time::Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Histogram;
    use super::*;
    use std::net::TcpListener;

    fn metrics() -> Vec<Metric> {
        let point = Point { labels: vec![("cause", "send_buffer".into())], value: 1.5 };
        let histogram = Histogram { bounds: &[0.1, 1.0], counts: vec![3, 2, 1], sum: 4.5 };
        let metric = |name, values| Metric { name, unit: "s", help: "Help.", values };
        vec![
            metric("tcpwhy_lost_seconds_total", Values::Counter(vec![point])),
            metric("tcpwhy_exchange_latency_seconds", Values::Histogram(histogram)),
        ]
    }

    #[test]
    fn a_collector_gets_sums_and_buckets() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let push = Push::to(&format!("http://{}", listener.local_addr().expect("an address")));
        assert_eq!(push.expect("a target").push(&metrics()), None);
        let (mut stream, _) = listener.accept().expect("a push");
        let mut request = vec![0; 1 << 16];
        let mut length = 0;
        let text = loop {
            length += stream.read(&mut request[length..]).expect("a request");
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            if text.ends_with("}]}]}") {
                break text;
            }
        };
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics[0]["name"], "tcpwhy.lost");
        assert_eq!(metrics[0]["sum"]["isMonotonic"], true);
        assert_eq!(metrics[0]["sum"]["dataPoints"][0]["asDouble"], 1.5);
        assert_eq!(metrics[1]["histogram"]["dataPoints"][0]["count"], "6");
        let buckets = &metrics[1]["histogram"]["dataPoints"][0]["bucketCounts"];
        assert_eq!(*buckets, json!(["3", "2", "1"]));
    }

    #[test]
    fn a_collector_that_is_not_there_is_said_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        drop(listener);
        let push = Push::to(&url).expect("a target");
        let said: Vec<_> = (0..100)
            .filter_map(|_| {
                thread::sleep(std::time::Duration::from_millis(10));
                push.push(&metrics())
            })
            .collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("cannot be pushed to 127.0.0.1:"), "{said:?}");
    }

    #[test]
    fn a_collector_that_answers_byte_by_byte_is_left_at_the_time_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let push = Push::to(&format!("http://{}", listener.local_addr().expect("an address")));
        let push = push.expect("a target");
        assert_eq!(push.push(&metrics()), None);
        let (mut stream, _) = listener.accept().expect("a push");
        // Each byte comes in time; the whole answer would take minutes.
        while stream.write_all(b"H").is_ok() {
            thread::sleep(PATIENCE / 10);
        }
        let said = push.failed.recv_timeout(PATIENCE * 10).expect("a failure");
        assert!(said.contains("cannot be pushed"), "{said}");
    }

    #[test]
    fn a_url_names_host_port_and_path() {
        let target = |url| Target::parse(url).map(|it| (it.host, it.path));
        let default = Some(("collector:4318".to_owned(), "/v1/metrics".to_owned()));
        assert_eq!(target("http://collector"), default);
        assert_eq!(target("http://collector:4318/"), default);
        let other = Some(("[::1]:9".to_owned(), "/in".to_owned()));
        assert_eq!(target("http://[::1]:9/in"), other);
        for url in ["https://collector", "collector:4318", "http://", "http://a b"] {
            assert_eq!(target(url), None, "{url}");
        }
    }
}
