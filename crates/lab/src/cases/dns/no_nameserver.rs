//! `resolv.conf` without a `nameserver` line: glibc then asks the host itself, 127.0.0.1.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::describe::{Knob, Layer, Treat};
use crate::dns::{Behaviour, NameServer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::stage::Stage;

use super::{Ask, timeout_option};

const SECOND_NS: u64 = 1_000_000_000;

/// No program listens there, so each look-up fails at once with an ICMP port unreachable.
pub const REFUSED: Case = Case {
    name: "dns_no_nameserver",
    layer: Layer::Names,
    summary: "resolv.conf has no nameserver line: glibc asks 127.0.0.1, where no server listens",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the client's resolv.conf",
        faulty: "no nameserver",
        healthy: "nameserver of the network",
        treat: &[Treat::at_client(&[
            "resolver",
            "--file",
            "{resolv_conf}",
            "--nameserver",
            "{resolver}",
        ])],
    }),
    params: |rng| params(rng).with("requests", rng.between(4, 8)),
    link: plain_link,
    act,
    truth: |_, ran| {
        let cause = culprit(ran, "dns_failure")?;
        Ok(vec![cause.measured(0, "nothing was waited for: each look-up failed at once")])
    },
};

/// A program listens there but does not answer, like a forwarder that has lost its network.
pub const SILENT: Case = Case {
    name: "dns_no_nameserver_silent",
    summary: "resolv.conf has no nameserver line, and what listens at 127.0.0.1 keeps silent",
    params: |rng| {
        params(rng)
            .with("requests", rng.between(1, 2))
            .with("timeout_ns", rng.pick(&[1, 1, 2]) * SECOND_NS)
    },
    act: |stage, p, variant| {
        let _silent = NameServer::start(&stage.client, LOOPBACK.into(), Behaviour::dead())?;
        act(stage, p, variant)
    },
    truth: |_, ran| Ok(vec![culprit(ran, "dns_timeout")?]),
    ..REFUSED
};

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

fn params(rng: &mut crate::rng::Rng) -> Params {
    super::params(rng)
        .with("timeout_ns", 5 * SECOND_NS)
        // The queries use loopback only.
        .with("any_interface", 1)
}

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let resolvers = super::resolvers(stage, 1)?;
    let _dnsmasq = super::knowing_dnsmasq(stage, resolvers[0])?;
    let listed = match variant {
        Variant::Faulty => &[],
        Variant::Healthy => &resolvers[..],
    };
    let ask = Ask { resolvers: listed, more: timeout_option(p)?, ..Default::default() };
    super::requests(stage, p, &ask)
}

/// The configuration is at fault; packets only show a resolver on the host itself that does not
/// answer.
fn culprit(ran: &Ran, cause: &'static str) -> Result<Cause, LabError> {
    let mut requests = ran.observed.loaded.requests.iter();
    if requests.any(|r| r.error.is_none()) {
        return Err(LabError::NotReproduced("a name was resolved".to_owned()));
    }
    let seen = (cause, Role::Resolver);
    Ok(Cause::by_twin(cause, Role::Client, None).unseen_at(&["server"]).looks_like(&[seen]))
}
