//! Compares one name server with the next by the same queries to each, instead of requests.

use std::net::SocketAddr;
use std::time::Duration;

use tcpwhy_core::dns::thresholds::SLOW_MIN_NS;
use tcpwhy_core::experiment::median_ns;
use tcpwhy_core::model::experiment::Suspect;
use tcpwhy_core::model::{Cause, Culprit, Role};
use tcpwhy_core::wire::Side;

use super::connection::Subject;
use super::kinds::{Others, Skipped};
use super::statistics::{Coin, Shown};
use super::trials::{Bounds, Pairs, Trial};
use crate::dns::{Query, ask, record_type};
use crate::nanoseconds;

/// Longest wait for an answer: a name server that takes longer counts as silent.
const WAIT: Duration = Duration::from_secs(1);

/// Queries the first name server and the second for the subject's name.
///
/// # Errors
/// The target has no name, there is no second name server, or one of the two does not answer.
pub fn pairs(
    subject: &Subject,
    others: &Others,
    bounds: &Bounds,
    coin: &mut Coin,
) -> Result<Pairs, Skipped> {
    if subject.target.address().is_some() {
        return Err(Skipped::DoesNotApply("the target is an address: no name is looked up"));
    }
    let &[first, second, ..] = others.resolvers.as_slice() else {
        return Err(Skipped::DoesNotApply("there is one name server only"));
    };
    let wanted = if subject.server.is_ipv4() { "A" } else { "AAAA" };
    let Some(wanted) = record_type(wanted) else {
        return Err(Skipped::DoesNotApply("addresses cannot be asked for"));
    };
    let name = &subject.target.host;
    // Without this check, a server that does not answer would cost its timeout in each pair, and
    // not only once.
    let fails = |server| is_failure(&ask(server, name, wanted, WAIT, &others.queries));
    if fails(first) || fails(second) {
        let why = "a name server fails or refuses to answer; tcpwhy dns compares them";
        return Err(Skipped::DoesNotApply(why));
    }
    Ok(Pairs::make(bounds, coin, |arm| {
        let query = ask(arm.of(first, second), name, wanted, WAIT, &others.queries);
        Ok(Trial { ns: query.took_ns, requests: 1 })
    })?)
}

/// Returns whether the server's reply is an error, whose time cannot be compared with that of an
/// answer.
fn is_failure(query: &Query) -> bool {
    !query.is_usable() && !query.is_silent()
}

/// Returns the suspected cause, if the first name server answers so much later than the second one
/// that look-ups are slow, or if it never answers.
pub fn suspect(resolvers: &[SocketAddr], pairs: &Pairs) -> Option<Suspect> {
    let slow_ns = i64::try_from(SLOW_MIN_NS).unwrap_or(i64::MAX);
    if pairs.differences.shown(slow_ns) != Shown::Effect {
        return None;
    }
    let is_silent = median_ns(pairs.usual_ns.iter().copied()) >= nanoseconds(WAIT);
    let cause = if is_silent { Cause::DnsTimeout } else { Cause::DnsSlow };
    let culprit = Culprit { role: Role::Resolver, endpoint: (*resolvers.first()?).into() };
    Some(Suspect { cause, culprit, sender: Side::Server })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use crate::budget::Budget;
    use crate::dns::fake::{Behaviour, Fake};
    use crate::experiment::{Kind, make};
    use crate::http::{Answers, Request};
    use hickory_proto::op::ResponseCode;
    use std::time::Instant;
    use tcpwhy_core::model::experiment::{Experiment, Verdict};
    use tcpwhy_testing::undisturbed;

    const NAME: &str = "db.lab";

    fn healthy() -> Behaviour {
        Behaviour { names: vec![NAME], ..Behaviour::default() }
    }

    fn slow() -> Behaviour {
        Behaviour { delay: Duration::from_millis(80), ..healthy() }
    }

    fn compared(host: &str, servers: Vec<Behaviour>) -> Result<Experiment, Skipped> {
        let servers: Vec<Fake> = servers.into_iter().map(Fake::start).collect();
        let resolvers = servers.iter().map(|it| it.at).collect();
        let target = Target::parse(&format!("http://{host}/")).unwrap();
        let subject = Subject {
            target,
            server: ([127, 0, 0, 1], 80).into(),
            request: Request::get(),
            tls: None,
            versions: crate::http::HttpVersions::Any,
            timeout: Duration::from_secs(5),
            budget: Budget::none(),
            answers: Answers::default(),
            usual_status: None,
        };
        let until = Instant::now() + Duration::from_secs(20);
        let bounds =
            Bounds { pairs_max: 24, until, floor_ns: 5_000_000, at_once: 1, request_ns: 0 };
        let others = Others { resolvers, ..Others::default() };
        make(Kind::Resolver, &subject, &others, &bounds, &mut Coin::new(1))
    }

    fn cause(made: Result<Experiment, Skipped>) -> Option<Cause> {
        match made.expect("it applies").verdict {
            Verdict::Supports(suspect) => Some(suspect.cause),
            Verdict::Refutes(_) | Verdict::Undecided => None,
        }
    }

    #[test]
    fn a_first_name_server_that_is_slow_or_silent_is_suspected_if_the_second_is_not() {
        undisturbed(|| {
            assert_eq!(cause(compared(NAME, vec![slow(), healthy()])), Some(Cause::DnsSlow));
        });
        let a = record_type("A").unwrap();
        let silent = Behaviour { ignores: vec![a], ..healthy() };
        assert_eq!(cause(compared(NAME, vec![silent, healthy()])), Some(Cause::DnsTimeout));
    }

    #[test]
    fn name_servers_that_are_alike_and_a_slow_second_one_are_not_suspected() {
        assert_eq!(cause(compared(NAME, vec![healthy(), healthy()])), None);
        assert_eq!(cause(compared(NAME, vec![slow(), slow()])), None);
        assert_eq!(cause(compared(NAME, vec![healthy(), slow()])), None);
    }

    #[test]
    fn the_experiment_is_skipped_if_no_two_answers_can_be_compared() {
        let failing = Behaviour { rcode: Some(ResponseCode::ServFail), ..healthy() };
        for (host, servers) in [
            (NAME, vec![healthy()]),
            ("127.0.0.1", vec![healthy(), healthy()]),
            (NAME, vec![failing, healthy()]),
        ] {
            let made = compared(host, servers);
            assert!(matches!(made, Err(Skipped::DoesNotApply(_))), "{host}: {made:?}");
        }
    }
}
