//! How the server of each case is examined, and the cause that is true of it.

use crate::lab::Temporary;
use crate::lab::error::Error;
use serde_json::Value;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use tcpwhy_core::model::Cause;
use tcpwhy_lab::cases::tls_proxy;
use tcpwhy_lab::{LabError, Stage, cleanup, dns};

/// Runs a command as `nobody` without other groups.
const UNPRIVILEGED: [&str; 5] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];

/// Port at which the servers of the cases listen, and the TLS proxy in front of them.
const PORT: u16 = 8080;
const TLS_PORT: u16 = 8443;

/// The doctor's command without the steps in which no case shows.
const DOCTOR: &[&str] = &["doctor", "--no-load", "--no-path", "--no-progress"];
/// The same for uploads, without the experiments, in which an upload would take long.
const UPLOADS: &[&str] = &["doctor", "--no-load", "--no-path", "--no-progress", "--no-experiments"];
/// A load with more connections at a time than the case's accept queue holds.
const LOAD: &[&str] = &["load", "-c", "16", "--requests", "48", "--new-connections"];

/// A case whose cause shows when its server is examined.
pub struct Active {
    pub case: &'static str,
    pub cause: Cause,
    pub role: &'static str,
    /// The command and its options.
    words: &'static [&'static str],
    more: &'static [&'static str],
    /// Host in the URL; `None` is the server's address.
    host: Option<&'static str>,
    path: &'static str,
    /// Length of the body of each request, bytes.
    upload_bytes: usize,
    /// `true` if a TLS proxy stands in front of the server.
    pub is_tls: bool,
    /// `true` if own sockets or an experiment can decide the case without packets.
    pub is_decided: bool,
}

const fn active(case: &'static str, cause: Cause, role: &'static str) -> Active {
    Active {
        case,
        cause,
        role,
        words: DOCTOR,
        more: &[],
        host: None,
        path: "/",
        upload_bytes: 0,
        is_tls: false,
        is_decided: true,
    }
}

const fn with_root(case: &'static str, cause: Cause, role: &'static str) -> Active {
    Active { is_decided: false, ..active(case, cause, role) }
}

/// A case whose server has a name that its resolvers answer slowly.
const fn named(case: &'static str, cause: Cause) -> Active {
    Active { host: Some("api.shop.lab"), ..active(case, cause, "resolver") }
}

const fn over_tls(case: Active) -> Active {
    Active { is_tls: true, ..case }
}

const fn upload(case: &'static str, cause: Cause, upload_bytes: usize) -> Active {
    Active { words: UPLOADS, upload_bytes, ..active(case, cause, "server") }
}

pub const ACTIVE: [Active; 36] = [
    Active { path: "/file.bin", ..active("nginx_nodelay_off", Cause::NagleDelayedAck, "server") },
    active("nagle_server", Cause::NagleDelayedAck, "server"),
    active("nagle_python", Cause::NagleDelayedAck, "server"),
    active("nagle_node", Cause::NagleDelayedAck, "server"),
    active("nagle_java", Cause::NagleDelayedAck, "server"),
    active("nagle_c", Cause::NagleDelayedAck, "server"),
    active("nagle_go", Cause::NagleDelayedAck, "server"),
    Active {
        more: &["--body", "a-form-of-a-hundred-bytes"],
        ..active("jdk_httpserver", Cause::NagleDelayedAck, "server")
    },
    active("server_think", Cause::ServerThink, "server"),
    over_tls(active("server_think", Cause::ServerThink, "server")),
    active("think_between_header_and_body", Cause::ServerThink, "server"),
    active("script_server_think", Cause::ServerThink, "server"),
    Active { path: "/api/items/7", ..active("nginx_slow_backend", Cause::ServerThink, "server") },
    active("refused", Cause::Refused, "server"),
    active("rejected_port", Cause::Refused, "server"),
    active("filtered_port", Cause::SynRetransmit, "network"),
    active("distance", Cause::PathRtt, "network"),
    over_tls(active("distance", Cause::PathRtt, "network")),
    active("mtu_black_hole", Cause::MtuBlackHole, "network"),
    active("reset_mid_stream", Cause::Reset, "server"),
    Active { path: "/part", ..active("error_responses", Cause::ErrorResponses, "server") },
    Active { path: "/part", ..active("no_answer", Cause::NoAnswer, "server") },
    Active {
        path: "/upload",
        more: &["--body", "u", "--experiment", "expect"],
        ..active("http_100_continue", Cause::Http100Continue, "server")
    },
    named("dns_slow", Cause::DnsSlow),
    named("dns_uncached", Cause::DnsSlow),
    named("dns_dead_first", Cause::DnsTimeout),
    named("dns_servfail", Cause::DnsFailure),
    active("loss_syn", Cause::SynRetransmit, "network"),
    active("loss_syn_ack", Cause::SynRetransmit, "network"),
    with_root("loss_tail", Cause::RetransmissionTimeout, "network"),
    over_tls(with_root("loss_tail", Cause::RetransmissionTimeout, "network")),
    with_root("loss_single", Cause::FastRecovery, "network"),
    upload("receive_window", Cause::ReceiveWindow, 100_000),
    upload("slow_reader_server", Cause::ZeroWindow, 9_000_000),
    Active {
        words: LOAD,
        ..with_root("accept_queue_overflow", Cause::AcceptQueueOverflow, "server")
    },
    with_root("send_buffer", Cause::SendBuffer, "server"),
];

impl Active {
    /// Name of the case in tables.
    pub fn label(&self, seed: u64) -> String {
        let tls = if self.is_tls { "+tls" } else { "" };
        format!("{}{tls}-{seed}", self.case)
    }

    /// Returns the reports for root and for `nobody`, made in the client's namespace.
    pub fn ask(&self, stage: &Stage) -> Result<[Result<Value, Error>; 2], Error> {
        let server = |port| SocketAddr::new(stage.server_addr, port);
        let _proxy =
            self.is_tls.then(|| tls_proxy(stage, server(TLS_PORT), server(PORT))).transpose()?;
        let kept = Temporary(cleanup::temporary_dir()?);
        let body = kept.0.join("body");
        std::fs::write(&body, vec![b'u'; self.upload_bytes]).map_err(Error::Keep)?;
        let (scheme, port) = if self.is_tls { ("https", TLS_PORT) } else { ("http", PORT) };
        let at = self.host.map_or_else(|| server(port).to_string(), |it| format!("{it}:{port}"));
        let url = format!("{scheme}://{at}{}", self.path);
        let mut words: Vec<&str> = self.words.to_vec();
        words.insert(1, &url);
        words.push("--json");
        words.extend(self.more);
        words.extend(self.is_tls.then_some("--insecure"));
        // `nobody` may not look into the directory, but may read the file that it is given.
        words.extend(["--body", "@/dev/stdin"].into_iter().filter(|_| self.upload_bytes > 0));
        Ok([true, false].map(|is_root| report(stage, is_root, &words, &body)))
    }
}

/// Runs the command as root or as `nobody` with `input` and returns its report.
pub fn report(stage: &Stage, is_root: bool, words: &[&str], input: &Path) -> Result<Value, Error> {
    let own = crate::lab::tcpwhy()?;
    let own = own.to_string_lossy();
    let program = if is_root { &*own } else { "setpriv" };
    let (resolv_conf, hosts) = (stage.dir().join("resolv.conf"), stage.dir().join("hosts"));
    let mut command: Command = match (resolv_conf.exists(), hosts.exists()) {
        (true, _) => dns::command(&stage.client, &resolv_conf, program),
        (_, true) => dns::mounting(&stage.client, &hosts, "/etc/hosts", program),
        _ => stage.client.command(program),
    };
    if !is_root {
        command.args(UNPRIVILEGED).arg(&*own);
    }
    command.args(words).current_dir("/");
    let input = File::open(input).map_err(Error::Keep)?;
    let output = command.stdin(input).output().map_err(Error::Keep)?;
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).map_err(|_| {
        LabError::NotReproduced(format!("tcpwhy printed no report: {}", said.trim())).into()
    })
}
