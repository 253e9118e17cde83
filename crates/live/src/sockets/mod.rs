//! A survey of TCP sockets: the kernel's list, the process and the options of each socket, and
//! verdicts on latency.

mod limits;
pub mod listeners;
mod select;
pub mod verdict;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::counters::Counters;
use crate::diag::{Diag, Entry, Memory, TcpState};
use crate::error::LiveError;
use crate::netns::Netns;
use crate::options::{InspectedProcess, Options};
use crate::process::{Holder, Holders, Process, threads};
use crate::tcp_info::TcpInfo;

pub use limits::{Conntrack, LocalPorts};
pub use listeners::half_open;
pub use listeners::{Listener, ListenerCounters};
pub use select::{Peer, PeerError, Selection, Where};
pub use verdict::{Strength, Verdict};

/// Result of a survey.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Survey {
    /// Time at which it began, ns since the Unix epoch.
    pub read_ns: u64,
    /// Network namespaces that were read.
    pub netns: Vec<NetnsCounters>,
    /// Sockets in the order of the kernel's list; half-open and TIME-WAIT ones are only counted.
    pub sockets: Vec<Socket>,
    /// Sockets whose options could not be read, by the reason.
    pub options_unread: Vec<Unread>,
}

/// Number of sockets whose options could not be read, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Unread {
    /// The reason.
    pub reason: Reason,
    /// Number of sockets.
    pub sockets: u64,
}

/// Reason why the options of a socket could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// `pidfd_getfd` needs `CAP_SYS_PTRACE` over the process.
    NoPermission,
    /// No readable process holds the socket: it belongs to another user, or only to the kernel (a
    /// connection that waits to be accepted, or that its process has closed).
    NoProcess,
    /// The process has closed it since the kernel listed it.
    Closed,
    /// The kernel has no `pidfd_getfd` (Linux 5.6), or a sandbox forbids it.
    NotSupported,
}

impl Reason {
    /// Returns the reason as the end of the sentence "… were not read: {}".
    pub fn words(self) -> &'static str {
        match self {
            Self::NoPermission => "it needs CAP_SYS_PTRACE; use sudo",
            Self::NoProcess => {
                "no process that you may look into holds them (with sudo: they wait to be \
                 accepted, or their process has closed them)"
            }
            Self::Closed => "they were closed meanwhile",
            Self::NotSupported => "this kernel or sandbox has no pidfd_getfd (Linux 5.6)",
        }
    }

    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NoPermission,
            Some(libc::ENOSYS) => Self::NotSupported,
            _ => Self::Closed,
        }
    }
}

/// Counters per network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct NetnsCounters {
    /// Name under `ip netns`, or `pid N`; `None` for the caller's own.
    pub name: Option<String>,
    /// Number of selected sockets.
    pub sockets: u64,
    /// Number of those in TIME-WAIT.
    pub time_wait: u64,
    /// Number of those that are half open (SYN-RECEIVED).
    pub half_open: u64,
    /// Counters of the listeners together, since the namespace was made.
    #[serde(flatten)]
    pub listeners: ListenerCounters,
    /// The table of connection tracking; `None` where the kernel tracks no connections there.
    pub conntrack: Option<Conntrack>,
    /// Local ports in use towards the destination that takes most of them.
    pub local_ports: Option<LocalPorts>,
}

/// A socket.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Socket {
    /// State.
    pub state: TcpState,
    /// Local address.
    pub local: SocketAddr,
    /// The other end; `None` where the socket listens.
    pub peer: Option<SocketAddr>,
    /// `true` if the connection was made to a listener of this namespace.
    pub is_server: bool,
    /// Network namespace by name; `None` is the caller's own.
    pub netns: Option<String>,
    /// The process that holds it.
    pub process: Option<Process>,
    /// User id of its owner.
    pub uid: u32,
    /// Received bytes that the application has not read; `None` for a listener.
    pub unread_bytes: Option<u64>,
    /// Bytes sent or waiting that the peer has not acknowledged; `None` for a listener.
    pub unacked_bytes: Option<u64>,
    /// Queue and drops, of a listener.
    pub listener: Option<Listener>,
    /// Options, by the kernel's names in lower case; all `None` where they could not be read.
    #[serde(flatten)]
    pub options: Options,
    /// Reason why the options could not be read: `nodelay` and the others are `None` then.
    pub options_unread: Option<Reason>,
    /// Buffers and memory.
    #[serde(flatten)]
    pub memory: Memory,
    /// Congestion control.
    pub congestion_control: Option<String>,
    /// `TCP_INFO`.
    pub tcp_info: Option<TcpInfo>,
    /// Verdicts on latency, the strongest first.
    pub verdicts: Vec<Verdict>,
}

/// Surveys the sockets of a selection.
///
/// # Errors
/// The kernel refuses to list sockets, or a namespace or process asked for does not exist.
pub fn survey(selection: &Selection) -> Result<Survey, LiveError> {
    let namespaces = selection.namespaces()?;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let read_ns = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
    let mut survey = Survey { read_ns, ..Survey::default() };
    let mut unread: HashMap<Reason, u64> = HashMap::new();
    // Reading the descriptors of all processes takes about as long as the kernel's list.
    let (holders, lists) = thread::scope(|scope| {
        let pids = selection.pid.as_ref().map(std::slice::from_ref);
        let holders = scope.spawn(move || Holders::read(pids));
        let list_in = |netns: &Netns| netns.inside(|| list().map(read_counters))?;
        let lists: Result<Vec<_>, LiveError> = namespaces.iter().map(list_in).collect();
        holders.join().map(|holders| (holders, lists))
    })
    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    for (netns, (entries, mut here)) in namespaces.iter().zip(lists?) {
        here.name.clone_from(&netns.name);
        let listening = listeners::Listening::of(&entries);
        let half_open = listeners::half_open(&entries);
        let mut chosen: Vec<(Entry, Option<Holder>)> = Vec::new();
        for entry in entries {
            let holder = holders.by_inode.get(&entry.inode).copied().filter(|_| entry.inode != 0);
            let is_held = holder.is_some() || selection.pid.is_none();
            if !is_held || !selection.takes(&entry) {
                continue;
            }
            here.sockets += 1;
            match entry.state {
                TcpState::TimeWait => here.time_wait += 1,
                TcpState::SynReceived => here.half_open += 1,
                _ => chosen.push((entry, holder)),
            }
        }
        let place = NamespaceData { netns: &netns.name, listening, half_open };
        survey.sockets.extend(ask_all(chosen, &holders.processes, &place));
        survey.netns.push(here);
    }
    for reason in survey.sockets.iter().filter_map(|it| it.options_unread) {
        *unread.entry(reason).or_default() += 1;
    }
    let unread = unread.into_iter().map(|(reason, sockets)| Unread { reason, sockets });
    survey.options_unread = unread.collect();
    survey.options_unread.sort_by_key(|unread| (std::cmp::Reverse(unread.sockets), unread.reason));
    Ok(survey)
}

/// Returns the counters of the calling thread's namespace, together with the `entries` that were
/// listed in it.
fn read_counters(entries: Vec<Entry>) -> (Vec<Entry>, NetnsCounters) {
    let mut counters = Counters::default();
    let file = |name: &str| {
        fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
    };
    counters.add_pairs(&file("netstat"));
    counters.add_columns("nf_conntrack", &file("stat/nf_conntrack"));
    let counters = NetnsCounters {
        listeners: ListenerCounters::of(&counters),
        conntrack: Conntrack::read(&counters),
        local_ports: LocalPorts::read(&entries),
        ..NetnsCounters::default()
    };
    (entries, counters)
}

/// Lists the TCP sockets of the calling thread's namespace.
///
/// # Errors
/// The kernel does not list them.
pub fn list() -> Result<Vec<Entry>, LiveError> {
    use TcpState::{
        Close, CloseWait, Closing, Established, FinWait1, FinWait2, LastAck, Listen, SynReceived,
        SynSent, TimeWait,
    };
    let states = [
        Established,
        SynSent,
        SynReceived,
        FinWait1,
        FinWait2,
        TimeWait,
        Close,
        CloseWait,
        LastAck,
        Listen,
        Closing,
    ];
    let mut entries = Vec::new();
    Diag::open()?.dump(&states, |entry| entries.push(entry))?;
    Ok(entries)
}

/// Data that the sockets of a namespace share.
struct NamespaceData<'a> {
    netns: &'a Option<String>,
    listening: listeners::Listening,
    /// Half-open connections by the address that was asked.
    half_open: HashMap<SocketAddr, u64>,
}

/// Asks sockets for their options and judges them, on several threads where there are many: each takes
/// eight system calls.
fn ask_all(
    mut sockets: Vec<(Entry, Option<Holder>)>,
    processes: &[Process],
    place: &NamespaceData<'_>,
) -> Vec<Socket> {
    const EACH_MIN: usize = 1_000;
    let threads = threads().min(sockets.len().div_ceil(EACH_MIN)).max(1);
    let each = sockets.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let mut others = Vec::new();
        while sockets.len() > each {
            let part = sockets.split_off((sockets.len() - 1) / each * each);
            others.push(scope.spawn(|| ask_part(part, processes, place)));
        }
        let mut all = ask_part(sockets, processes, place);
        for other in others.into_iter().rev() {
            match other.join() {
                Ok(sockets) => all.extend(sockets),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

/// Asks one socket after the other; each process is opened only once.
fn ask_part(
    sockets: Vec<(Entry, Option<Holder>)>,
    processes: &[Process],
    place: &NamespaceData<'_>,
) -> Vec<Socket> {
    let mut asked: HashMap<usize, Result<InspectedProcess, Reason>> = HashMap::new();
    let mut options = |entry: &Entry, holder: Option<Holder>| {
        let holder = holder.ok_or(Reason::NoProcess)?;
        let pid = processes[holder.process].pid;
        let process = asked
            .entry(holder.process)
            .or_insert_with(|| InspectedProcess::open(pid).map_err(|error| Reason::of(&error)));
        let process = process.as_ref().map_err(|reason| *reason)?;
        process.options(holder.fd, entry.cookie).map_err(|error| Reason::of(&error))
    };
    let judged = |(entry, holder): (Entry, Option<Holder>)| {
        let options = options(&entry, holder);
        let mut socket = socket(entry, options, place);
        socket.process = holder.map(|it| processes[it.process].clone());
        socket.verdicts = verdict::judge(&socket);
        socket
    };
    sockets.into_iter().map(judged).collect()
}

fn socket(entry: Entry, options: Result<Options, Reason>, place: &NamespaceData<'_>) -> Socket {
    let is_listener = entry.state == TcpState::Listen;
    let listener = is_listener.then(|| Listener {
        accept_queue: u64::from(entry.recv_queue),
        backlog: u64::from(entry.send_queue),
        half_open: place.half_open.get(&entry.local).copied().unwrap_or(0),
    });
    Socket {
        state: entry.state,
        local: entry.local,
        peer: (!is_listener).then_some(entry.peer),
        is_server: is_listener || place.listening.took(entry.local),
        netns: place.netns.clone(),
        process: None,
        uid: entry.uid,
        unread_bytes: (!is_listener).then_some(u64::from(entry.recv_queue)),
        unacked_bytes: (!is_listener).then_some(u64::from(entry.send_queue)),
        listener,
        options: options.unwrap_or_default(),
        options_unread: options.err(),
        memory: entry.memory.unwrap_or_default(),
        congestion_control: entry.congestion_control,
        tcp_info: entry.tcp_info,
        verdicts: Vec::new(),
    }
}
