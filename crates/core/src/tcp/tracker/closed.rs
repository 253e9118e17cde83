//! Connections that are over. For what of them comes late they are kept a while: whole where something
//! may still be told of them, and as little more than their addresses and numbers where both sides closed and
//! both know it. Thousands of short ones a second would take the room of thousands of open ones otherwise.

use super::*;
use crate::capture::STEP_NS;

/// How long late segments are taken for those of a connection that is over, ns of capture time.
const LINGER_NS: u64 = 3_000_000_000;

/// How long a connection that was closed is kept whole, ns: frames of one host are captured in another
/// order than they were sent by a tenth of that ([`STEP_NS`]).
const SETTLE_NS: u64 = 10 * STEP_NS;

/// So many of one shard are kept whole, and what is left of so many: where no time goes by, or a scan meets
/// closed ports by the thousand, those that were over first give way.
const WHOLE_MAX: usize = 1 << 11;
const PAST_MAX: usize = 1 << 14;

/// How long the next repetition of what is not acknowledged may take, ns: the greatest timer that RFC 6298 §2.5
/// asks for.
const REPEATED_WITHIN_NS: u64 = 60_000_000_000;

/// Whether what passes at `now_ns` is nothing to `connection`. One lives until both FINs are acknowledged: until
/// then what is missing is sent again.
pub fn is_past(connection: &Connection, now_ns: u64) -> bool {
    let Some(over_ns) = connection.over_ns() else { return false };
    if connection.is_unacknowledged() {
        return now_ns >= connection.last.time_ns.saturating_add(REPEATED_WITHIN_NS);
    }
    is_forgotten(over_ns, now_ns)
}

/// Whether what passes at `now_ns` is nothing to a connection that was over at `over_ns`.
pub fn is_forgotten(over_ns: u64, now_ns: u64) -> bool {
    now_ns >= over_ns.saturating_add(LINGER_NS)
}

/// A connection that is over, and still in the table: addresses and ports are used again, frames are not.
#[derive(Clone, Copy)]
pub struct Over {
    /// When it was over, ns.
    pub over_ns: u64,
    /// Its hash there.
    pub hash: u64,
    /// Its key.
    pub key: FlowKey,
    /// Its first frame.
    pub first_frame: FrameId,
}

impl Over {
    /// `connection` was over at `over_ns`.
    pub fn of(connection: &Connection, hash: u64, over_ns: u64) -> Self {
        let (key, first_frame) = (connection.key, connection.first_frame);
        Self { over_ns, hash, key, first_frame }
    }

    /// Whether this is `connection`.
    pub fn is(&self, connection: &Connection) -> bool {
        self.key == connection.key && self.first_frame == connection.first_frame
    }

    fn is_forgotten(&self, now_ns: u64) -> bool {
        is_forgotten(self.over_ns, now_ns)
    }
}

/// One of which nothing more can be told.
#[derive(Clone)]
struct Past {
    key: FlowKey,
    /// Where the table looks for it.
    hash: u64,
    over_ns: u64,
    /// The numbers of both sides, those of `key.high` second.
    numbers: [Numbers; 2],
}

/// What a segment is to connections that are over.
pub enum Meeting {
    /// Nothing.
    None,
    /// It comes late.
    Late,
    /// It begins another one with the same addresses and ports.
    Reuse,
}

/// One that need not be kept as it is any more.
pub enum Due {
    /// What was sent before it was over has come.
    Settled(Over),
    /// What comes now is nothing to it.
    Forgotten(Over),
}

/// The connections of one shard that are over.
#[derive(Clone, Default)]
pub struct Closed {
    /// Those of which more might be told in a moment.
    fresh: VecDeque<Over>,
    /// Those of which more might be told later.
    doubtful: VecDeque<Over>,
    past: HashTable<Past>,
    /// Of those, when each was over and its hash.
    order: VecDeque<(u64, u64)>,
}

impl Closed {
    /// One is over.
    pub fn add(&mut self, over: Over) {
        self.fresh.push_back(over);
    }

    /// It is to be kept whole for as long as segments may come late.
    pub fn keep(&mut self, over: Over) {
        self.doubtful.push_back(over);
    }

    /// Whether another may be kept whole.
    pub fn has_room(&self) -> bool {
        self.doubtful.len() < WHOLE_MAX
    }

    /// How many are kept whole.
    pub fn whole(&self) -> usize {
        self.fresh.len() + self.doubtful.len()
    }

    /// Those of which it is to be decided by `now_ns` how they are kept on.
    pub fn due(&self, now_ns: u64) -> impl Iterator<Item = &Over> {
        self.fresh.iter().take_while(move |it| it.over_ns.saturating_add(SETTLE_NS) <= now_ns)
    }

    /// Takes out the next one that need not be kept as it is any more.
    pub fn next_due(&mut self, now_ns: u64) -> Option<Due> {
        let is_old = |over: &Over| over.is_forgotten(now_ns);
        if self.doubtful.len() > WHOLE_MAX || self.doubtful.front().is_some_and(is_old) {
            return self.doubtful.pop_front().map(Due::Forgotten);
        }
        let is_settled = self.fresh.len() > WHOLE_MAX || self.due(now_ns).next().is_some();
        if is_settled { self.fresh.pop_front().map(Due::Settled) } else { None }
    }

    /// `over` was told of; the `numbers` are those of its sides.
    pub fn remember(&mut self, over: &Over, numbers: [Numbers; 2], now_ns: u64) {
        let many = |left: usize| left >= PAST_MAX;
        while let Some(&(over_ns, hash)) =
            self.order.front().filter(|it| many(self.order.len()) || is_forgotten(it.0, now_ns))
        {
            self.order.pop_front();
            if let Ok(entry) =
                self.past.find_entry(hash, |it| (it.hash, it.over_ns) == (hash, over_ns))
            {
                entry.remove();
            }
        }
        let &Over { over_ns, hash, key, .. } = over;
        self.order.push_back((over_ns, hash));
        self.past.insert_unique(hash, Past { key, hash, over_ns, numbers }, |it| it.hash);
    }

    /// What `segment`, which is of none in the table and may begin one, is to those that were told of.
    #[inline]
    pub fn meet(&mut self, hash: u64, segment: &Segment) -> Meeting {
        let Ok(entry) = self.past.find_entry(hash, |it| it.key == segment.flow) else {
            return Meeting::None;
        };
        let past = entry.get();
        let begins = segment.flags.0 & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN;
        let forgotten = is_forgotten(past.over_ns, segment.time_ns);
        let sender = &past.numbers[segment.from_high() as usize];
        // What only ends a connection follows the one that was.
        let late = if begins { sender.began_with(segment.seq) } else { sender.holds(segment.seq) };
        if !forgotten && late || segment.only_ends() {
            return Meeting::Late;
        }
        entry.remove();
        if forgotten { Meeting::None } else { Meeting::Reuse }
    }
}
