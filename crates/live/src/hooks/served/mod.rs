//! Requests that servers answered, and what the threads that had each in their hands did meanwhile.

use serde::{Deserialize, Serialize};

use super::flow::{FLOW_BYTES, Fields, Flow};
use super::object::Object;

/// `struct served_record` in served.h.
const RECORD_BYTES: usize = 360;
/// `struct thread` in threads.h and `struct served_socket` in served.bpf.c.
const THREAD_BYTES: usize = 416;
const SOCKET_BYTES: usize = 816;
/// `struct standstill` and the process of a thread in collector.h.
const STANDSTILL_BYTES: usize = 24;
const PROCESS_BYTES: usize = 4;
/// `READER_KNOWN`, `CHAIN_KNOWN`, `HANDED_OVER` and `NO_WORKER` of its flags.
const READER_KNOWN: u32 = 1;
const CHAIN_KNOWN: u32 = 2;
const HANDED_OVER: u32 = 4;
const NO_WORKER: u32 = 8;

/// Requests that are answered faster are not recorded, ns.
pub const SLOW_NS: u64 = 1_000_000;

/// Times that threads spent in each state, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct States {
    /// On a processor.
    pub running_ns: u64,
    /// In a run queue: other threads had the processors.
    pub runnable_ns: u64,
    /// Stopped by the quota of its control group.
    pub throttled_ns: u64,
    /// Blocked until a peer or another event: receive, poll, accept and connect calls.
    pub awaiting_ns: u64,
    /// Blocked in futex, in a lock of a file or in a semaphore, until another thread ended the wait.
    pub locked_ns: u64,
    /// Blocked in block I/O, in fsync, or without signals in a call on a file.
    pub disk_ns: u64,
    /// Blocked outside of a call or in one on memory: page faults, swap, reclaim.
    pub memory_ns: u64,
    /// Blocked in nanosleep, or in futex until its own timer expired.
    pub sleeping_ns: u64,
    /// Blocked in another call.
    pub other_ns: u64,
    /// Blocked in futex or a lock while its Java virtual machine stood still: the machine's own
    /// threads, which collect garbage meanwhile, were not blocked.
    pub stopped_ns: u64,
}

impl States {
    fn parse(fields: &mut Fields<'_>) -> Self {
        // The order of `enum state`.
        let mut states = Self {
            running_ns: fields.u64(),
            runnable_ns: fields.u64(),
            throttled_ns: fields.u64(),
            awaiting_ns: fields.u64(),
            locked_ns: fields.u64(),
            disk_ns: fields.u64(),
            memory_ns: fields.u64(),
            sleeping_ns: fields.u64(),
            other_ns: fields.u64(),
            stopped_ns: fields.u64(),
        };
        // Waits whose timer expired count as sleep in the kernel. Where another thread ended the last wait at the
        // same futex, they were parts of a wait for a lock.
        let retried_ns = fields.u64().min(states.sleeping_ns);
        states.sleeping_ns -= retried_ns;
        states.locked_ns = states.locked_ns.saturating_add(retried_ns);
        states
    }

    /// Returns the sum; saturates, as readings that contradict each other may be anything.
    pub fn sum_ns(&self) -> u64 {
        [
            self.running_ns,
            self.runnable_ns,
            self.throttled_ns,
            self.awaiting_ns,
            self.locked_ns,
            self.disk_ns,
            self.memory_ns,
            self.sleeping_ns,
            self.other_ns,
            self.stopped_ns,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// A request that took its server a millisecond or more until the first byte of the answer had left.
/// Times by `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Flow of the connection, the server's end as the source.
    pub flow: Flow,
    /// Inode of the network namespace.
    pub netns: u32,
    /// The process that wrote the answer.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// Name of that thread.
    pub command: String,
    /// The last data of the request came to the socket, ns.
    pub ready_ns: u64,
    /// The first read after that, ns.
    pub read_ns: u64,
    /// The first byte of the answer was written, ns.
    pub written_ns: u64,
    /// TCP gave it to the queue of an interface, and then the interface's driver got it, ns; `None` if it was
    /// not seen to leave.
    pub left_ns: Option<(u64, u64)>,
    /// Times of the reader by state until it read. `None` if it is not known that early: it never read on
    /// this connection, nor did it read last on another one of the same port.
    pub unread: Option<States>,
    /// Time for which the reader's Java virtual machine stood still from ready to read, ns; 0 where it
    /// is not known.
    pub unread_stopped_ns: u64,
    /// Times by state, from the read to the answer, of the threads that had the request in their hands.
    /// `None` where another thread answered than the one that read, and no chain of wake-ups leads
    /// from one to the other.
    pub serving: Option<States>,
    /// The part of `serving.running_ns` in which the reader ran for other requests.
    pub others_ns: u64,
    /// Another thread answered than the one that read.
    pub is_handed_over: bool,
    /// The connection was not accepted when the request came, and the thread that read it had other
    /// requests until then: it did not wait for connections meanwhile.
    pub no_worker_free: bool,
    /// The peer on whose answer a thread waited longest, and how long, ns. The flow's source is this
    /// host's end.
    pub peer: Option<(Flow, u64)>,
}

/// Removes what is known of threads and sockets: while the hook was not attached, they went on.
pub(super) fn clear(object: &mut Object) {
    object.clear::<4, THREAD_BYTES>("threads");
    object.clear::<8, SOCKET_BYTES>("sockets");
    object.clear::<4, STANDSTILL_BYTES>("standstills");
    object.clear::<4, PROCESS_BYTES>("collecting");
}

pub(super) fn parse(record: &[u8]) -> Option<Served> {
    let mut fields = Fields(record.first_chunk::<RECORD_BYTES>()?);
    let seen = fields.seen();
    let (pid, tid, command) = (fields.u32(), fields.u32(), fields.text::<16>());
    let flags = fields.u32();
    let (ready_ns, read_ns, written_ns) = (fields.u64(), fields.u64(), fields.u64());
    let (queued_ns, sent_ns) = (fields.u64(), fields.u64());
    let unread = States::parse(&mut fields);
    let unread_stopped_ns = fields.u64();
    let serving = States::parse(&mut fields);
    let others_ns = fields.u64();
    let peer_ns = fields.u64();
    let peer = Fields(&fields.take::<FLOW_BYTES>()).seen().flow;
    if !(ready_ns..=written_ns).contains(&read_ns) {
        return None;
    }
    // Readings of a thread that another processor ran at that moment may contradict each other.
    let sums_to = |it: &States, flag: u32, ns: u64| flags & flag != 0 && it.sum_ns() == ns;
    let serving_ns = written_ns - read_ns;
    let serving = Some(serving).filter(|it| sums_to(it, CHAIN_KNOWN, serving_ns));
    let running_ns = serving.map_or(0, |it| it.running_ns);
    Some(Served {
        flow: seen.flow?,
        netns: seen.netns,
        pid,
        tid,
        command,
        ready_ns,
        read_ns,
        written_ns,
        left_ns: (written_ns <= queued_ns && queued_ns <= sent_ns).then_some((queued_ns, sent_ns)),
        unread: Some(unread).filter(|it| sums_to(it, READER_KNOWN, read_ns - ready_ns)),
        unread_stopped_ns: unread_stopped_ns.min(read_ns - ready_ns),
        serving,
        others_ns: others_ns.min(running_ns),
        is_handed_over: flags & HANDED_OVER != 0,
        no_worker_free: flags & NO_WORKER != 0,
        peer: peer.map(|flow| (flow, peer_ns)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(unread_ns: [u64; 11], serving_ns: [u64; 11], flags: u32) -> Vec<u8> {
        let mut bytes = vec![0; RECORD_BYTES];
        bytes[37] = 4;
        bytes[68..72].copy_from_slice(&flags.to_ne_bytes());
        let numbers = [100_u64, 150, 400, 420, 500]
            .into_iter()
            .chain(unread_ns)
            .chain([30])
            .chain(serving_ns)
            .chain([7]);
        for (at, number) in (72..).step_by(8).zip(numbers) {
            bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn times_that_do_not_sum_are_unknown() {
        let (unread, serving) =
            ([50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [5, 0, 0, 180, 0, 0, 0, 20, 15, 30, 8]);
        let all = READER_KNOWN | CHAIN_KNOWN;
        let served = parse(&record(unread, serving, all)).unwrap();
        assert_eq!(served.unread.unwrap().running_ns, 50);
        let did = served.serving.unwrap();
        assert_eq!((did.awaiting_ns, did.stopped_ns), (180, 30));
        assert_eq!((did.sleeping_ns, did.locked_ns), (12, 8), "a part was for a lock");
        assert_eq!(served.left_ns, Some((420, 500)));
        assert_eq!(served.unread_stopped_ns, 30);
        assert_eq!((served.others_ns, served.peer), (5, None), "no more than it ran");
        let torn = parse(&record([51, 0, 0, 0, 0, 0, 0, 0, u64::MAX, 0, 0], serving, all)).unwrap();
        assert_eq!((torn.unread, torn.serving.is_some()), (None, true));
        let unknown = parse(&record(unread, serving, 0)).unwrap();
        assert_eq!((unknown.unread, unknown.serving, unknown.others_ns), (None, None, 0));
    }
}
