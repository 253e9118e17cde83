//! Facts about the server that HTTP/2 shows: its settings and windows, whether it answers streams at the same
//! time, and what its flow control and its ends of streams cost.

use super::asked::RequestResults;
use super::experimenting::{FLOOR_NS, FLOOR_PART};
use super::faults::OutsideFault;
use super::steps::Steps;
use serde::Serialize;
use std::time::{Duration, Instant};
use tcpwhy_core::experiment::{is_within_a_trip, median_ns};
use tcpwhy_core::model::units::{bytes, counted, duration};
use tcpwhy_probe::experiment::{Connection, ExchangeError, Settings, Subject, Together};
use tcpwhy_probe::http::http2::{Code, Seen, ServerSettings, Wait};

/// Number of streams at once, and of rounds.
const STREAMS: usize = 10;
const ROUNDS: usize = 3;
/// Requests of all rounds: one alone and as many as streams.
pub const REQUESTS: u64 = (ROUNDS * (1 + STREAMS)) as u64;
/// Least time of the server for a request alone, ns, by which it can be said whether it works on streams
/// at the same time: shorter ones are as much of the client as of the server.
const SERVER_NS_MIN: u64 = 1_000_000;

/// Facts that HTTP/2 shows: docs/report.schema.json, `doctor.http2`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Http2 {
    /// The server's SETTINGS (RFC 9113 §6.5.2); the standard's values where it states none.
    settings: ServerSettings,
    /// The greatest window of the connection that it has offered, bytes.
    connection_window_bytes: u32,
    /// Waits of request bodies for a WINDOW_UPDATE; `None` without any.
    flow_control: Option<FlowControl>,
    /// Several requests at once on one connection; `None` if none were sent.
    streams: Option<AtOnce>,
    /// The server ended a connection (GOAWAY); `None` if it did not.
    go_away: Option<GoAway>,
    /// Streams that the server reset with an error (RST_STREAM); `None` without any.
    resets: Option<Resets>,
}

/// The waits of request bodies for the server's windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlowControl {
    /// Number of waits.
    #[cfg_attr(test, schemars(range(min = 1)))]
    waits: u64,
    /// Number of requests that were sent.
    requests: u64,
    /// Sum of the waits, ns.
    lost_ns: u64,
    /// Median of the waits, ns.
    wait_ns: u64,
    /// The window that is used up.
    #[cfg_attr(test, schemars(extend("enum" = ["stream", "connection"])))]
    of: &'static str,
    /// Its size before the wait.
    window_bytes: u32,
    /// One round trip, ns; 0 if unknown.
    rtt_ns: u64,
    /// `true` if the distance makes the waits: each lasts one round trip.
    is_distance: bool,
}

/// The answers to requests on several streams of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct AtOnce {
    /// Number of requests at once.
    #[cfg_attr(test, schemars(range(min = 1)))]
    streams: usize,
    /// Median latency of a request alone, ns.
    alone_ns: u64,
    /// Median time from the first request to the last byte of the last answer, ns.
    together_ns: u64,
    /// About how many the server works on at a time; `None` if it answers too quickly to tell.
    #[cfg_attr(test, schemars(range(min = 1)))]
    at_a_time: Option<u64>,
    /// The longest pause of all streams while segments came out of order, ns; 0 without any.
    blocked_ns: u64,
    /// Streams without a complete answer then.
    blocked_streams: usize,
}

/// The end of a connection that the server announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GoAway {
    /// The error code by its name (RFC 9113 §7).
    code: String,
    /// Requests that the server did not process.
    unprocessed: u64,
}

/// Streams that the server reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Resets {
    /// The first error code by its name.
    code: String,
    /// Number of streams.
    #[cfg_attr(test, schemars(range(min = 1)))]
    streams: u64,
}

impl Http2 {
    /// Returns what the single requests have shown; `None` if they were not in HTTP/2.
    pub fn of(asked: &RequestResults) -> Option<Http2> {
        let seen = asked.http2.as_ref()?;
        let rtt_ns = asked.layers().path_ns;
        Some(Http2 {
            settings: seen.settings?,
            connection_window_bytes: seen.connection_window_bytes,
            flow_control: FlowControl::of(seen, rtt_ns, asked.sent),
            streams: None,
            go_away: seen
                .go_away
                .map(|it| GoAway { code: it.code.to_string(), unprocessed: asked.unprocessed }),
            resets: seen.resets.map(|(code, streams)| Resets { code: code.to_string(), streams }),
        })
    }

    /// Sends several requests on the streams of one connection, and as many rounds alone.
    pub fn ask_at_once(&mut self, subject: &Subject, exchange_bytes: u64, steps: &mut Steps) {
        if subject.budget.left_bytes() < REQUESTS * exchange_bytes {
            let size = bytes(exchange_bytes);
            let why = format!("with {size} for each answer it would exceed the budget");
            return steps.skipped("streams", why);
        }
        let began = Instant::now();
        match AtOnce::measure(subject, STREAMS) {
            Ok(streams) => {
                steps.done("streams", began, streams.words(&self.settings));
                self.streams = Some(streams);
            }
            Err(ExchangeError::Budget(exceeded)) => steps.skipped("streams", exceeded.to_string()),
            Err(error) => steps.failed("streams", began, error.to_string()),
        }
    }

    /// Describes the server's limits, and what is worth knowing about its streams.
    pub fn words(&self) -> Vec<String> {
        let it = &self.settings;
        let streams = match it.max_concurrent_streams {
            Some(most) => format!("{} at once", counted(most.into(), "stream", "streams")),
            None => "any number of streams at once".to_owned(),
        };
        let settings = format!(
            "HTTP/2: the server allows {streams} (SETTINGS_MAX_CONCURRENT_STREAMS), {} of a request body \
             before it has read some (SETTINGS_INITIAL_WINDOW_SIZE), {} on the connection, frames of \
             {}, and {} of compressed header fields (SETTINGS_HEADER_TABLE_SIZE)",
            bytes(it.initial_window_size.into()),
            bytes(self.connection_window_bytes.into()),
            bytes(it.max_frame_size.into()),
            bytes(it.header_table_size.into())
        );
        let flow = self.flow_control.as_ref().filter(|it| !it.is_distance);
        let streams = self.streams.as_ref();
        [settings]
            .into_iter()
            .chain(streams.map(|it| it.words(&self.settings)))
            .chain(streams.and_then(AtOnce::blocked_words))
            .chain(flow.map(|it| {
                format!(
                    "request bodies waited {} for the server's HTTP/2 window of {}; it may read \
                     slowly, or the path may be slow",
                    duration(it.lost_ns),
                    bytes(it.window_bytes.into())
                )
            }))
            .collect()
    }

    /// Returns the faults of the server's flow control and of its ends of streams.
    pub fn faults(&self, subject: &Subject, request_ns: u64) -> Vec<OutsideFault> {
        let server = subject.server;
        let floor_ns = FLOOR_NS.max(request_ns / FLOOR_PART);
        let flow = self.flow_control.as_ref();
        let is_worth =
            |it: &&FlowControl| it.is_distance && it.lost_ns / it.requests.max(1) >= floor_ns;
        let flow = flow.filter(is_worth).map(|it| {
            // With one wait, the window is larger for the rest of the body.
            let per_second = u64::from(it.window_bytes) * 1_000_000_000 / it.rtt_ns.max(1);
            let rate = match it.waits > it.requests {
                true => format!(", which allows {}/s at most", bytes(per_second)),
                false => String::new(),
            };
            OutsideFault {
                kind: "http2_flow_control",
                headline: format!(
                    "{server} limits uploads by its HTTP/2 window: {} of a {} at a round trip of \
                     {}{rate}; {} waited {} for a WINDOW_UPDATE, {} each time.",
                    bytes(it.window_bytes.into()),
                    it.of,
                    duration(it.rtt_ns),
                    counted(it.requests, "request body", "request bodies"),
                    counted(it.waits, "time", "times"),
                    duration(it.wait_ns)
                ),
                fix: "the server: a larger window, as http2_body_preread_size of nginx, \
                      initial_stream_window_size and initial_connection_window_size of Envoy, \
                      MaxUploadBufferPerStream and MaxUploadBufferPerConnection of Go, \
                      flowControlWindow of gRPC in Java"
                    .to_owned(),
            }
        });
        let go_away = self.go_away.as_ref().filter(|it| it.code != Code(0).to_string());
        let go_away = go_away.map(|it| OutsideFault {
            kind: "http2_go_away",
            headline: format!(
                "{server} ends the HTTP/2 connection with GOAWAY, {}: {} got no answer.",
                it.code,
                counted(it.unprocessed, "stream", "streams")
            ),
            fix: match it.code.as_str() {
                "ENHANCE_YOUR_CALM" => {
                    "the server or the proxy before it: its limits of requests, \
                                        pings and resets on a connection"
                }
                _ => "the server or the proxy before it: its error log",
            }
            .to_owned(),
        });
        let resets = self.resets.as_ref().map(|it| OutsideFault {
            kind: "http2_reset",
            headline: format!(
                "{server} reset {} with RST_STREAM, {}.",
                counted(it.streams, "stream", "streams"),
                it.code
            ),
            fix: match it.code.as_str() {
                "REFUSED_STREAM" => {
                    "the server: its limit of streams at once, as \
                                     http2_max_concurrent_streams of nginx"
                }
                "HTTP_1_1_REQUIRED" => "the client: ask this resource in HTTP/1.1 (--http1.1)",
                _ => "the server's application or proxy: its error log for these requests",
            }
            .to_owned(),
        });
        [flow, go_away, resets].into_iter().flatten().collect()
    }
}

impl FlowControl {
    fn of(seen: &Seen, rtt_ns: u64, requests: u64) -> Option<FlowControl> {
        let waits = &seen.waits;
        let of_connection = waits.iter().filter(|it| it.of_connection).count() * 2 > waits.len();
        let ns = |it: &Wait| nanos(it.lasted);
        let wait_ns = median_ns(waits.iter().map(ns));
        let of = if of_connection { "connection" } else { "stream" };
        let own = waits.iter().filter(|it| it.of_connection == of_connection);
        let window_bytes = own.map(|it| it.window_bytes).max().unwrap_or(0);
        // A window that is used up is opened again one round trip later at the earliest. A wait that is
        // longer is of a slow reader or a slow path; one that is shorter than what users notice, or
        // happens once, costs nothing.
        let is_distance =
            waits.len() > 1 && wait_ns >= FLOOR_NS && is_within_a_trip(wait_ns, rtt_ns);
        (!waits.is_empty()).then(|| FlowControl {
            waits: waits.len() as u64,
            requests,
            lost_ns: waits.iter().map(ns).sum(),
            wait_ns,
            of,
            window_bytes,
            rtt_ns,
            is_distance,
        })
    }
}

impl AtOnce {
    fn measure(subject: &Subject, streams: usize) -> Result<AtOnce, ExchangeError> {
        let mut connection = Connection::open(subject, Settings::default())?;
        let (mut alone, mut rounds): (Vec<u64>, Vec<Together>) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(connection.ask()?.0.latency_ns());
            rounds.push(connection.ask_together(streams)?);
        }
        let rtt_ns = connection.kernel().rtt_min_ns;
        let (alone_ns, together_ns) =
            (median_ns(alone), median_ns(rounds.iter().map(|it| nanos(it.lasted))));
        // TCP delivers nothing behind a missing segment. It is sent again when those behind it are
        // acknowledged, so it comes a round trip later (RFC 6675 §5); one that was overtaken comes sooner.
        let is_held =
            |it: &&Together| it.blocked_streams > 1 && rtt_ns > 0 && nanos(it.blocked) >= rtt_ns;
        let held = rounds.iter().filter(is_held).max_by_key(|it| it.blocked);
        Ok(AtOnce {
            streams,
            alone_ns,
            together_ns,
            at_a_time: at_a_time(streams as u64, alone_ns, together_ns, rtt_ns),
            blocked_ns: held.map_or(0, |it| nanos(it.blocked)),
            blocked_streams: held.map_or(0, |it| it.blocked_streams),
        })
    }

    fn words(&self, settings: &ServerSettings) -> String {
        let how = match self.at_a_time {
            None => "it answers too quickly to tell how many it works on at a time".to_owned(),
            Some(1) => "the server answers one after the other".to_owned(),
            Some(some) if some >= self.streams as u64 => {
                "the server works on all at the same time".to_owned()
            }
            Some(some) => format!("the server works on about {some} at a time"),
        };
        let limit = settings.max_concurrent_streams.filter(|it| (*it as usize) < self.streams);
        let limit = limit.map_or_else(String::new, |most| {
            format!(
                "; it allows {} at once, so the others queue at the client: raise \
                 SETTINGS_MAX_CONCURRENT_STREAMS, as http2_max_concurrent_streams of nginx",
                counted(most.into(), "stream", "streams")
            )
        });
        format!(
            "{} at once on one connection take {}, one alone {}: {how}{limit}",
            counted(self.streams as u64, "request", "requests"),
            duration(self.together_ns),
            duration(self.alone_ns)
        )
    }

    fn blocked_words(&self) -> Option<String> {
        (self.blocked_ns > 0).then(|| {
            format!(
                "segments came out of order, and TCP delivers nothing behind a missing one: {} on one \
                 connection stood still for {} at once (head-of-line blocking)",
                counted(self.blocked_streams as u64, "stream", "streams"),
                duration(self.blocked_ns)
            )
        })
    }
}

/// Returns about how many of `streams` requests a server works on at a time, if each takes what one
/// alone takes: the least number whose rounds are nearest to those that all took. `None` if one takes
/// too short.
fn at_a_time(streams: u64, alone_ns: u64, together_ns: u64, rtt_ns: u64) -> Option<u64> {
    let server_ns = alone_ns.saturating_sub(rtt_ns);
    let all_ns = together_ns.saturating_sub(rtt_ns).max(1);
    let rounds = all_ns as f64 / server_ns.max(1) as f64;
    let distance = |number: &u64| {
        let expected = streams.div_ceil(*number) as f64;
        (expected / rounds).max(rounds / expected)
    };
    let nearest = (1..=streams).min_by(|one, other| distance(one).total_cmp(&distance(other)));
    nearest.filter(|_| server_ns >= SERVER_NS_MIN)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seen(waits_ms: &[u64], of_connection: bool) -> Seen {
        let window_bytes = 65_535;
        let wait =
            |&ms: &u64| Wait { lasted: Duration::from_millis(ms), of_connection, window_bytes };
        Seen { waits: waits_ms.iter().map(wait).collect(), ..Seen::default() }
    }

    #[test]
    fn waits_of_one_round_trip_are_those_of_the_distance() {
        for (waits, rtt_ms, is_distance) in [
            (&[80, 81, 82][..], 80, true),
            (&[40, 41, 42], 80, true),
            (&[90, 91, 92], 80, true),
            (&[92, 93, 94], 80, false),
            // A server that reads slowly, a path that is slow, a window that was used up once, and
            // waits that nobody notices.
            (&[300, 310, 290], 80, false),
            (&[80], 80, false),
            (&[0, 0, 0], 80, false),
        ] {
            let found = FlowControl::of(&seen(waits, false), rtt_ms * MS, 1).unwrap();
            assert_eq!(found.is_distance, is_distance, "{waits:?}");
        }
        let found = FlowControl::of(&seen(&[80, 80], true), 80 * MS, 1).unwrap();
        assert_eq!((found.of, found.lost_ns), ("connection", 160 * MS));
        assert_eq!(FlowControl::of(&seen(&[], false), 80 * MS, 1), None);
    }

    #[test]
    fn streams_at_a_time_follow_from_the_time_of_all() {
        for (together_ms, rtt_ms, at_once) in [
            (100, 0, Some(1)),
            (94, 0, Some(1)),
            (10, 0, Some(10)),
            (11, 0, Some(10)),
            (50, 0, Some(2)),
            (105, 5, Some(1)),
        ] {
            let found = at_a_time(10, (10 + rtt_ms) * MS, together_ms * MS, rtt_ms * MS);
            assert_eq!(found, at_once, "{together_ms}");
        }
        assert_eq!(at_a_time(10, MS / 2, 5 * MS, 0), None);
    }
}
