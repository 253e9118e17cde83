//! Errors in changing a running system: each names the object, the failure and the remedy.

use std::io;
use std::path::PathBuf;

use tcpwhy_live::error::LiveError;

/// Error in changing the running system or in restoring it.
#[derive(Debug, thiserror::Error)]
pub enum TreatError {
    /// Sockets or namespaces cannot be read.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The directory of the journal cannot be used.
    #[error(
        "{path}: the journal of treatments cannot be kept there, so nothing was changed; use \
         sudo, or name a directory that you may write to in TCPWHY_TREAT_DIR"
    )]
    NoJournal {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A directory that another user may write to.
    #[error(
        "{path}: {why}, so the journal of treatments is not kept there, and nothing was changed; \
         name another directory in TCPWHY_TREAT_DIR"
    )]
    ForeignJournal {
        /// The directory.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// A record cannot be written.
    #[error("{path}: the record cannot be written or removed")]
    Journal {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The map of the kernel hook's changes cannot be read.
    #[error("{path}: what the kernel hook has changed cannot be read")]
    HookMap {
        /// The kernel's file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A record cannot be understood.
    #[error(
        "{path}: is no record of a treatment ({why}); what it changed cannot be restored from \
         it. Look into it, then move it away"
    )]
    Garbage {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// A change failed, and what was changed before it could not be restored.
    #[error(
        "{failure}. Not all of it could be undone, and the rest is still in the journal: {left}; \
         then: sudo tcpwhy treat undo {id}"
    )]
    Half {
        /// The failure.
        failure: String,
        /// The part of the treatment that is left.
        left: String,
        /// Number of the treatment.
        id: u32,
    },
    /// A namespace cannot be found.
    #[error(transparent)]
    Namespace(io::Error),
    /// Another treatment changes the same object.
    #[error(
        "treatment {id} changes the same already ({what}, since {since}); end it first: sudo \
         tcpwhy treat undo {id}"
    )]
    Treated {
        /// Number of that treatment.
        id: u32,
        /// The treated object.
        what: String,
        /// Begin of that treatment.
        since: String,
    },
    /// There is no such treatment.
    #[error("there is no treatment {id}; `tcpwhy treat status` lists them")]
    NoTreatment {
        /// The number asked for.
        id: u32,
    },
    /// Options of other processes' sockets cannot be set.
    #[error(
        "options of {sockets} that match cannot be set; it needs CAP_SYS_PTRACE over their \
         processes: use sudo; in a container, run it on the host, or with --cap-add SYS_PTRACE \
         --pid host; /proc/sys/kernel/yama/ptrace_scope must not be 3"
    )]
    NoPermission {
        /// "1 socket", "12 sockets".
        sockets: String,
    },
    /// The kernel has no `pidfd_getfd`.
    #[error(
        "this kernel or sandbox has no pidfd_getfd (Linux 5.6; containers allow it with \
         --cap-add SYS_PTRACE): options of running processes \
         cannot be set; change the application's configuration and restart it instead"
    )]
    NotSupported,
    /// The kernel refuses the value for all sockets.
    #[error("the kernel refuses {option} = {value} for all {sockets} that match")]
    Refused {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// "1 socket", "12 sockets".
        sockets: String,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// There is no congestion control of this name.
    #[error(
        "the kernel has no congestion control {name} loaded; it has {available} (`modprobe \
         tcp_{name}` may load it)"
    )]
    NoCongestionControl {
        /// The name asked for.
        name: String,
        /// Names of the loaded ones.
        available: String,
    },
    /// There is no such control group.
    #[error(
        "{path} is no control group of version 2; name one as /proc/PID/cgroup shows it after `0::`"
    )]
    NoCgroup {
        /// The path asked for.
        path: String,
    },
    /// There are no control groups.
    #[error(
        "no control groups of version 2 are mounted here: name the process by --pid, or its port \
         by --port, instead of --cgroup"
    )]
    NoCgroups,
    /// A setting that is not on the list.
    #[error(
        "{name} is not a setting that tcpwhy takes back; set it by `sysctl -w`, and note what \
         was there. It takes back: {known}"
    )]
    UnknownSysctl {
        /// The name asked for.
        name: String,
        /// Names of the settings on the list.
        known: String,
    },
    /// The text is no `NAME=VALUE`.
    #[error("write NAME=VALUE, as in tcp_slow_start_after_idle=0")]
    NoAssignment,
    /// A value that cannot be meant.
    #[error("{name} = {value}: {why}")]
    Value {
        /// The setting.
        name: &'static str,
        /// The value asked for.
        value: String,
        /// Description of the permitted values.
        why: String,
    },
    /// The setting cannot be read or written.
    #[error("{path}: {what}")]
    Sysctl {
        /// The file of the setting.
        path: PathBuf,
        /// Failure and remedy.
        what: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The setting has the value already.
    #[error("{name} is {value} already: there is nothing to change")]
    HasIt {
        /// The setting or object.
        name: String,
        /// The value.
        value: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: it cannot be read or replaced; where it is root's, use sudo")]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A namespace uses the file of the host.
    #[error(
        "network namespace {netns} has no {path}: its processes use the file of the host; \
         name the file with --file"
    )]
    NoResolverFile {
        /// The namespace.
        netns: String,
        /// Path that a separate file would have.
        path: PathBuf,
    },
    /// The file has no nameserver that a cache could ask.
    #[error("the file has no nameserver that a cache could ask: name one with --nameserver")]
    NoNameserver,
    /// No loopback address is free.
    #[error("port 53 is taken at each address of 127.0.53.0/24")]
    NoCacheAddress,
    /// dnsmasq is not installed.
    #[error(
        "dnsmasq is not installed, which --cache runs for the time: apt-get install dnsmasq-base"
    )]
    NoDnsmasq,
    /// dnsmasq does not start.
    #[error("dnsmasq does not start: {said}")]
    Cache {
        /// Output of dnsmasq.
        said: String,
    },
    /// No connection is in the scope, and nothing listens there.
    #[error("no connection matches ({scope}), and nothing listens there: {listening}")]
    NoConnection {
        /// The scope in words.
        scope: String,
        /// The ports that are listened at, with their processes.
        listening: String,
    },
    /// A table of the packet filter has the name already.
    #[error(
        "the packet filter has a table inet {table} already, which no treatment in the journal \
         made; look at it (nft list table inet {table}), then remove it: nft delete table inet \
         {table}"
    )]
    TableExists {
        /// Name of the table.
        table: String,
    },
    /// No socket listens at the port.
    #[error(
        "nothing listens at port {port} in this network namespace; `tcpwhy sockets` lists what does"
    )]
    NoListener {
        /// The port asked for.
        port: u16,
    },
    /// `listen` is refused.
    #[error(
        "the accept queue of {local} cannot be set; it needs CAP_SYS_PTRACE over its process: use \
         sudo"
    )]
    Listener {
        /// Address of the listener.
        local: String,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// nft is not installed.
    #[error("nft is not installed, which limits SYNs per source: apt-get install nftables")]
    NoNft,
    /// The packet filter refuses.
    #[error("the packet filter cannot be changed, which needs CAP_NET_ADMIN (sudo): {said}")]
    Filter {
        /// Output of the packet filter.
        said: String,
    },
    /// An XDP program cannot be attached.
    #[error("the XDP program cannot be attached: {said}")]
    Xdp {
        /// The obstacle.
        said: String,
    },
    /// The interfaces at which packets arrive are not known.
    #[error(
        "there is no default route, and not one interface that is up ({devices}): name those where \
         the SYNs come in by --device"
    )]
    NoDevice {
        /// Names of the interfaces that are up.
        devices: String,
    },
    /// There is no route.
    #[error("there is no route to {to} in the main table of this network namespace")]
    NoRoute {
        /// An address or a prefix.
        to: String,
    },
    /// Several routes have one prefix.
    #[error(
        "there are several routes {prefix}: a change of one could not be taken back; use `ip route \
         change`, and note what was there"
    )]
    SeveralRoutes {
        /// The prefix of the routes.
        prefix: String,
    },
    /// A route cannot be written back as it was.
    #[error(
        "`{word}` of the route `{route}` could not be restored, so it is not changed; use `ip route \
         change`, and note what was there"
    )]
    RouteNotRestorable {
        /// The route.
        route: String,
        /// The attribute that cannot be restored.
        word: String,
    },
    /// The route cannot be read or changed.
    #[error("the route cannot be changed, which needs CAP_NET_ADMIN (sudo): {said}")]
    Route {
        /// Output of `ip`.
        said: String,
    },
}

/// Returns an error with its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
