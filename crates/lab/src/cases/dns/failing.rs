//! The first resolver fails, the second works.

use crate::case::{Case, Observed, plain_link};
use crate::describe::{Knob, Layer, Treat};
use crate::dns::{Behaviour, NameServer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::stage::Stage;

use super::{Ask, timeout_option};

const SECOND_NS: u64 = 1_000_000_000;

/// The first `nameserver` never answers: glibc waits 5 s, then asks the second.
pub const DEAD_FIRST: Case = Case {
    name: "dns_dead_first",
    layer: Layer::Names,
    summary: "the first nameserver is dead: each look-up waits for the timeout",
    class: Class::Fault,
    knob: Some(Knob {
        at: "/etc/resolv.conf",
        faulty: "lists a dead nameserver first",
        healthy: "lists only the one that answers",
        treat: &[Treat::at_client(&["resolver", "--file", "{resolv_conf}", "--cache"])],
    }),
    params: |rng| {
        super::params(rng)
            .with("requests", rng.between(2, 4))
            .with("timeout_ns", rng.pick(&[5, 5, 2, 1]) * SECOND_NS)
    },
    link: plain_link,
    act: |stage, p, variant| act(stage, p, variant, Behaviour::dead()),
    truth: |_, ran| {
        let culprit = super::first_resolver(ran);
        Ok(vec![Cause::by_twin("dns_timeout", Role::Resolver, culprit)])
    },
};

/// The first answers SERVFAIL, like a resolver that cannot reach its own servers.
pub const SERVFAIL: Case = Case {
    name: "dns_servfail",
    layer: Layer::Names,
    summary: "the first nameserver answers SERVFAIL after a while, the second helps",
    class: Class::Fault,
    knob: Some(Knob {
        at: "/etc/resolv.conf",
        faulty: "lists a failing nameserver first",
        healthy: "lists only the one that works",
        treat: &[Treat::at_client(&["resolver", "--file", "{resolv_conf}", "--cache"])],
    }),
    params: |rng| {
        super::params(rng)
            .with("requests", rng.between(4, 10))
            .with("timeout_ns", 5 * SECOND_NS)
            .with("delay_ns", rng.between(50, 800) * 1_000_000)
    },
    link: plain_link,
    act: |stage, p, variant| {
        let first = Behaviour { fails: true, delay: p.duration("delay_ns")?, ..Default::default() };
        act(stage, p, variant, first)
    },
    truth: |_, ran| {
        let culprit = super::first_resolver(ran);
        let cause = Cause::by_twin("dns_failure", Role::Resolver, culprit);
        Ok(vec![cause.or(&["dns_slow"])])
    },
};

/// The fix removes the first resolver from `resolv.conf`.
fn act(
    stage: &mut Stage,
    p: &Params,
    variant: Variant,
    first: Behaviour,
) -> Result<Observed, LabError> {
    let resolvers = super::resolvers(stage, 2)?;
    let _first = NameServer::start(&stage.server, resolvers[0], first)?;
    let _second = super::knowing_dnsmasq(stage, resolvers[1])?;
    let listed = match variant {
        Variant::Faulty => &resolvers[..],
        Variant::Healthy => &resolvers[1..],
    };
    let ask = Ask { resolvers: listed, more: timeout_option(p)?, ..Default::default() };
    super::requests(stage, p, &ask)
}
