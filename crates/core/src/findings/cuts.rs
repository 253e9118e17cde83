//! Connections that one side ended, or fell silent on, while the other still expected something, though
//! no exchange waited for it: programs report them as errors.

use crate::judge::thresholds::{ALIKE_PART, APPLICATION_TIMEOUT_MIN_NS, HABIT_MIN};
use crate::model::{Fact, units};
use crate::tcp::Connection;
use crate::wire::Side;

/// The observations, in the order in which they are reported.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
pub(super) struct Cuts {
    /// WebSocket connections that their server's host ended by a FIN or RST without a Close frame (RFC
    /// 6455 §7.1.5). A client that leaves needs none.
    websockets: Cut,
    /// Streams of events in chunks (HTTP/1.1) that their server's host ended by a FIN or RST without the last
    /// chunk (RFC 9112 §8).
    streams: Cut,
    /// Other sessions of a database or a broker that their server's host ended while nothing was asked.
    sessions: Cut,
    /// Sessions that their server's host ended after the client's window had been closed.
    readers: Cut,
    /// Connections on which neither side sent anything until the client ended them.
    mute: Cut,
    /// Requests of which the client sent a part, and then nothing as long as anything was seen of it.
    bodies: Cut,
}

/// Connections of one kind.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, serde::Serialize)]
struct Cut {
    count: u64,
    /// Least and greatest time without data before the end, ns.
    idle_ns: Option<(u64, u64)>,
}

/// Name of an observation and its facts.
type Noted = (&'static str, Vec<(&'static str, Fact)>);

impl Cuts {
    /// Adds a connection that is over.
    pub fn connection(&mut self, connection: &Connection) {
        if let Some(idle_ns) = connection.view().silent_amid_request_ns()
            && idle_ns >= APPLICATION_TIMEOUT_MIN_NS
        {
            self.bodies.add(idle_ns);
        }
        let Some((by, idle_ns)) = connection.view().ended_first() else { return };
        if by == Side::Client {
            self.mute.add_mute(connection);
            return;
        }
        let window = &connection.senders[Side::Server].history().window;
        if connection.framer.lacks_close_frame() {
            self.websockets.add(idle_ns);
        } else if connection.framer.is_amid_stream_of_events() {
            self.streams.add(idle_ns);
        } else if connection.framer.protocol().has_sessions()
            && connection.view().has_answered_last()
        {
            let is_behind = window.zero_advertisements > 0;
            let cut = if is_behind { &mut self.readers } else { &mut self.sessions };
            cut.add(idle_ns);
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.websockets.merge(&other.websockets);
        self.streams.merge(&other.streams);
        self.sessions.merge(&other.sessions);
        self.readers.merge(&other.readers);
        self.bodies.merge(&other.bodies);
        self.mute.merge(&other.mute);
    }

    /// Returns the observations with their facts.
    pub fn facts(&self) -> Vec<Noted> {
        let mut noted = Vec::new();
        if self.websockets.count > 0 {
            noted.push(("cut_websockets", self.websockets.facts()));
        }
        if self.streams.count > 0 {
            noted.push(("cut_streams", self.streams.facts()));
        }
        if self.sessions.is_timeout() && self.sessions.is_habit() {
            noted.push(("ended_sessions", self.sessions.facts()));
        }
        if self.readers.count > 0 {
            noted.push(("cut_readers", vec![("count", Fact::Count(self.readers.count))]));
        }
        if self.bodies.count > 0 {
            noted.push(("unsent_bodies", self.bodies.facts()));
        }
        if self.mute.count > 0 {
            noted.push(("mute_connections", self.mute.facts()));
        }
        noted
    }
}

impl Cut {
    fn add(&mut self, idle_ns: u64) {
        self.count += 1;
        self.include((idle_ns, idle_ns));
    }

    /// Adds a connection that its client ended, if neither side had sent anything for as long as a timeout
    /// of an application takes.
    fn add_mute(&mut self, connection: &Connection) {
        let is_mute = connection.senders.iter().all(|it| it.counts().actual_data_bytes == 0);
        let established_ns = connection.setup.established_ns().filter(|_| is_mute);
        let ends = connection.cold.ending();
        let ended = ends.fin[Side::Client].or(ends.reset);
        if let Some((from_ns, ended)) = established_ns.zip(ended)
            && ended.time_ns.saturating_sub(from_ns) >= APPLICATION_TIMEOUT_MIN_NS
        {
            self.add(ended.time_ns - from_ns);
        }
    }

    fn include(&mut self, (least_ns, most_ns): (u64, u64)) {
        let (least, most) = self.idle_ns.unwrap_or((least_ns, most_ns));
        self.idle_ns = Some((least.min(least_ns), most.max(most_ns)));
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        other.idle_ns.into_iter().for_each(|range| self.include(range));
    }

    /// Returns whether all had been idle for so long that a timeout may have ended them.
    fn is_timeout(&self) -> bool {
        self.idle_ns.is_some_and(|(least_ns, _)| least_ns >= APPLICATION_TIMEOUT_MIN_NS)
    }

    /// Returns whether there are several, which had been idle for the same time.
    fn is_habit(&self) -> bool {
        let alike = |(least, most): (u64, u64)| most - least <= least / ALIKE_PART;
        self.count >= HABIT_MIN.into() && self.idle_ns.is_some_and(alike)
    }

    /// Returns their number and, if a timeout may have ended them, the time after which it did.
    fn facts(&self) -> Vec<(&'static str, Fact)> {
        let mut facts = vec![("count", Fact::Count(self.count))];
        if let Some((least_ns, most_ns)) = self.idle_ns.filter(|_| self.is_timeout()) {
            facts.push(("idle_min_ns", Fact::Ns(least_ns)));
            if units::duration(least_ns) != units::duration(most_ns) {
                facts.push(("idle_max_ns", Fact::Ns(most_ns)));
            }
        }
        facts
    }
}
