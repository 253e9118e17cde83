//! Treatments of a listener under a SYN flood: SYN cookies (RFC 4987 §3.6), longer queues, and a
//! limit per source address.

use super::error::TreatError;
use super::host::HostPlan;
use super::record::{Change, What};
use super::{filter, listener, sysctl, xdp};
use tcpwhy_live::netns::Netns;

/// Options of the treatment.
#[derive(Debug, Clone, Default)]
pub struct SynFlood {
    /// Port that is flooded.
    pub port: u16,
    /// `true` to answer SYNs without keeping state if the queue is full.
    pub cookies: bool,
    /// Length of the listener's queues.
    pub backlog: Option<u32>,
    /// SYNs a second that one source address may send.
    pub syns_per_second: Option<u32>,
    /// Limit by an XDP program at network interfaces, instead of by nftables.
    pub xdp: bool,
    /// The interfaces; if empty, those at which packets of other hosts arrive.
    pub devices: Vec<String>,
    /// The network namespace.
    pub netns: Option<String>,
}

/// Plans the changes for `asked`.
///
/// # Errors
/// No socket listens at the port, or there is nothing to change.
pub fn plan(asked: &SynFlood) -> Result<HostPlan, TreatError> {
    let netns = namespace(asked.netns.as_deref())?;
    let (mut changes, mut risks) = (Vec::new(), Vec::new());
    if asked.cookies {
        changes.extend(sysctl::change(&netns, "tcp_syncookies", "1", |now| now == 0)?);
        risks.push(
            "connections that come by a SYN cookie have window scaling and SACK only where the \
             client has timestamps",
        );
    }
    if let Some(backlog) = asked.backlog {
        changes.extend(queues(&netns, asked.port, backlog)?);
        risks.push("longer queues take memory, about 300 bytes for each half-open connection");
    }
    if let Some(most) = asked.syns_per_second {
        if asked.xdp {
            let programs = xdp::plan(&netns, asked.port, most, &asked.devices)?;
            changes.extend(programs.into_iter().map(Change::Xdp));
        } else {
            changes.push(Change::Filter(filter::plan(&netns, asked.port, most)?));
        }
        risks.push(
            "clients behind one address (NAT, a proxy), or in one /64 of IPv6, share its limit; a \
             flood from made-up addresses passes it",
        );
    }
    if changes.is_empty() {
        let name = format!("the defence of port {}", asked.port);
        return Err(TreatError::HasIt { name, value: "so".into() });
    }
    Ok(HostPlan { what: What::SynFlood { port: asked.port }, changes, risks })
}

/// Plans a longer accept queue.
///
/// # Errors
/// No socket listens at the port, or the queue is that long already.
pub fn plan_backlog(port: u16, backlog: u32, netns: Option<&str>) -> Result<HostPlan, TreatError> {
    let changes = queues(&namespace(netns)?, port, backlog)?;
    if !changes.iter().any(|change| matches!(change, Change::Listener(_))) {
        let name = format!("the accept queue of port {port}");
        return Err(TreatError::HasIt { name, value: format!("for {backlog} or more") });
    }
    let risks = vec!["a longer queue holds clients longer where the server does not keep up"];
    Ok(HostPlan { what: What::Backlog { port }, changes, risks })
}

fn namespace(name: Option<&str>) -> Result<Netns, TreatError> {
    Ok(match name {
        Some(name) => Netns::find(name)?,
        None => Netns::own(),
    })
}

/// Plans longer queues. The limits come first, because the kernel shortens a queue to them.
fn queues(netns: &Netns, port: u16, backlog: u32) -> Result<Vec<Change>, TreatError> {
    let mut changes = Vec::new();
    let wanted = backlog.to_string();
    for name in ["somaxconn", "tcp_max_syn_backlog"] {
        let is_less = |now: u64| now < u64::from(backlog);
        changes.extend(sysctl::change(netns, name, &wanted, is_less)?);
    }
    let listeners = listener::plan(netns, port, backlog)?;
    changes.extend(listeners.into_iter().map(Change::Listener));
    Ok(changes)
}
