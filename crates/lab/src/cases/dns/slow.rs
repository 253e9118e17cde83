//! Every look-up takes long: dnsmasq forwards it to a slow server, or has no cache.

use crate::case::{Case, Observed, plain_link};
use crate::describe::{Knob, Layer, Treat};
use crate::dns::{Behaviour, NameServer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::stage::Stage;

use super::{Ask, NAME};

/// dnsmasq without a cache in front of a slow server; the twin's server is fast.
pub const SLOW: Case = Case {
    name: "dns_slow",
    layer: Layer::Names,
    summary: "the resolver takes long for every answer",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the resolver",
        faulty: "takes {delay_ns} for an answer",
        healthy: "answers at once",
        treat: &[Treat::at_client(&["resolver", "--file", "{resolv_conf}", "--cache"])],
    }),
    params,
    link: plain_link,
    act: |stage, p, variant| act(stage, p, variant == Variant::Faulty, false),
    truth: |_, ran| {
        let culprit = super::first_resolver(ran);
        Ok(vec![Cause::by_twin("dns_slow", Role::Resolver, culprit)])
    },
};

/// The same slow server, but the twin has dnsmasq's cache enabled.
pub const UNCACHED: Case = Case {
    name: "dns_uncached",
    summary: "dnsmasq without a cache asks a far server every time",
    knob: Some(Knob {
        at: "dnsmasq",
        faulty: "cache-size=0",
        healthy: "cache-size=150, its default",
        treat: &[Treat::at_client(&["resolver", "--file", "{resolv_conf}", "--cache"])],
    }),
    act: |stage, p, variant| act(stage, p, true, variant == Variant::Healthy),
    ..SLOW
};

fn params(rng: &mut crate::rng::Rng) -> Params {
    super::params(rng)
        .with("requests", rng.between(5, 12))
        .with("delay_ns", rng.between(120, 500) * 1_000_000)
        // dnsmasq's own queries use loopback; on `any` they would look like the client's.
        .with("any_interface", 0)
}

fn act(stage: &mut Stage, p: &Params, slow: bool, cached: bool) -> Result<Observed, LabError> {
    let resolvers = super::resolvers(stage, 1)?;
    let mut upstream = Behaviour::healthy(NAME, stage.server_addr);
    if slow {
        upstream.delay = p.duration("delay_ns")?;
    }
    let _upstream = NameServer::start(&stage.server, [127, 0, 0, 53].into(), upstream)?;
    let cache = if cached { 1_000 } else { 0 };
    let options = [
        "--server=127.0.0.53".to_owned(),
        format!("--cache-size={cache}"),
        // The stub sends no SOA record, without which dnsmasq would not cache "no such address".
        "--neg-ttl=300".to_owned(),
    ];
    let _dnsmasq = crate::dns::dnsmasq(&stage.server, resolvers[0], &options)?;
    let ask = Ask { resolvers: &resolvers, warm: true, ..Default::default() };
    super::requests(stage, p, &ask)
}
