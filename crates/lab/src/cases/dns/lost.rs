//! One query of the pair (A and AAAA) gets no answer.

use crate::case::{Case, Observed, Ran, plain_link};
use crate::describe::{Knob, Layer};
use crate::dns::{A, AAAA, Behaviour, NameServer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::relay::{Direction, DropRule, Kind, RelayParams};
use crate::stage::{Link, Stage};

use super::{Ask, NAME, timeout_option};

const SECOND_NS: u64 = 1_000_000_000;

/// The path loses some queries of one type.
pub const LOST: Case = Case {
    name: "dns_lost_question",
    layer: Layer::Names,
    summary: "one question of an A and AAAA pair is lost: glibc waits for its timeout",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the link",
        faulty: "loses some DNS questions",
        healthy: "loses nothing",
        treat: &[],
    }),
    params: |rng| {
        super::params(rng)
            .with("rtt_ns", rng.pick(&[1, 2, 10, 30]) * 1_000_000)
            .with("requests", rng.between(4, 5))
            .with("qtype", rng.pick(&[u64::from(A), u64::from(AAAA)]))
            .with("timeout_ns", rng.pick(&[5, 5, 2]) * SECOND_NS)
    },
    link,
    act: |stage, p, _| {
        let resolvers = super::resolvers(stage, 1)?;
        let _dnsmasq = super::knowing_dnsmasq(stage, resolvers[0])?;
        let ask = Ask { resolvers: &resolvers, more: timeout_option(p)?, ..Default::default() };
        super::requests(stage, p, &ask)
    },
    truth: lost,
};

/// The resolver never answers queries for the other address family.
pub const IGNORED: Case = Case {
    name: "dns_ignored_family",
    layer: Layer::Names,
    summary: "the resolver answers only one question of an A and AAAA pair",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the resolver",
        faulty: "answers only one of A and AAAA",
        healthy: "answers both",
        treat: &[],
    }),
    params: |rng| {
        super::params(rng)
            .with("requests", rng.between(2, 3))
            .with("timeout_ns", rng.pick(&[2, 1]) * SECOND_NS)
    },
    link: plain_link,
    act: ignored,
    truth: |_, ran| {
        let culprit = super::first_resolver(ran);
        Ok(vec![Cause::by_twin("dns_timeout", Role::Resolver, culprit)])
    },
};

fn link(p: &Params, variant: Variant, seed: u64) -> Result<Link, LabError> {
    let link = RelayParams::symmetric(p.get("rtt_ns")?, 0, seed);
    let kind = Kind::DnsQuestion { qtype: p.get("qtype")? as u16 };
    // Never two consecutive ones, so that the repetition passes.
    let rule = DropRule::new(Direction::ClientToServer, kind, 2, 3);
    Ok(Link::Relay(match variant {
        Variant::Faulty => link.dropping(rule),
        Variant::Healthy => link,
    }))
}

/// A capture at the client cannot distinguish this from a race in a NAT's connection table.
fn lost(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    if ran.stage.relay.as_ref().map_or(0, |r| r.dropped()) == 0 {
        return Err(LabError::NotReproduced("no question was lost".to_owned()));
    }
    let cause = Cause::by_twin("dns_timeout", Role::Network, None);
    let cause = cause.unseen_at(&["server"]);
    Ok(vec![cause.looks_like(&[
        ("conntrack_race", Role::Host),
        ("conntrack_race", Role::Network),
        ("dns_timeout", Role::Resolver),
    ])])
}

fn ignored(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let resolvers = super::resolvers(stage, 1)?;
    let mut behaviour = Behaviour::healthy(NAME, stage.server_addr);
    if variant == Variant::Faulty {
        let ignores = if stage.server_addr.is_ipv6() { A } else { AAAA };
        behaviour.ignores.push(ignores);
    }
    let _resolver = NameServer::start(&stage.server, resolvers[0], behaviour)?;
    let ask = Ask { resolvers: &resolvers, more: timeout_option(p)?, ..Default::default() };
    super::requests(stage, p, &ask)
}
