//! Search domains: the resolver tries the name with each of them before it tries the name alone.

use crate::case::{Case, Observed, plain_link};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::stage::Stage;

use super::Ask;

const DOMAINS: [&str; 4] = ["shop.svc.cluster.lab", "svc.cluster.lab", "cluster.lab", "corp.lab"];

/// `ndots:5` with three or four domains, as in many container platforms.
pub const CASE: Case = Case {
    name: "dns_search",
    layer: Layer::Names,
    summary: "search domains with ndots:5: several NXDOMAINs before each hit",
    class: Class::Fault,
    knob: Some(Knob {
        at: "/etc/resolv.conf",
        faulty: "{search_domains} search domains with ndots:5",
        healthy: "no search domains",
        treat: &[Treat::at_client(&["resolver", "--file", "{resolv_conf}", "--ndots", "1"])],
    }),
    params: |rng| {
        super::params(rng)
            .with("rtt_ns", rng.pick(&[10, 30, 60]) * 1_000_000)
            .with("requests", rng.between(6, 12))
            .with("search_domains", rng.between(3, 4))
    },
    link: plain_link,
    act,
    truth: |_, _| Ok(vec![Cause::by_twin("dns_search", Role::Client, None)]),
};

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let resolvers = super::resolvers(stage, 1)?;
    let _dnsmasq = super::knowing_dnsmasq(stage, resolvers[0])?;
    let domains = DOMAINS[..(p.get("search_domains")? as usize).min(DOMAINS.len())].join(" ");
    let more = match variant {
        Variant::Faulty => format!("search {domains}\noptions ndots:5"),
        Variant::Healthy => String::new(),
    };
    let ask = Ask { resolvers: &resolvers, more, ..Default::default() };
    super::requests(stage, p, &ask)
}
