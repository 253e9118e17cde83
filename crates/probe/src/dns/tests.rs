//! Whole look-ups against real servers on loopback.

use std::net::UdpSocket;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tcpwhy_core::model::{Cause, Fact, Language, Role};
use tcpwhy_core::report::Phrases;

use super::fake::{Behaviour, Fake, free};
use super::*;
use crate::budget::Budget;

const PAIR: [RecordType; 2] = [RecordType::A, RecordType::AAAA];

fn healthy() -> Behaviour {
    Behaviour { names: vec!["db.lab"], ..Behaviour::default() }
}

/// Options of a second's timeout, so that tests are short.
fn config(options: &str, servers: &[&Fake]) -> Config {
    let servers = servers.iter().map(|it| it.at).collect();
    Config::of(&format!("options timeout:1 attempts:2\n{options}")).with_servers(servers)
}

/// A UDP socket that receives queries and never reads them, with its address.
fn silent() -> (UdpSocket, std::net::SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

fn seconds(ns: u64) -> u64 {
    (ns + 500_000_000) / 1_000_000_000
}

/// The budget that a survey of two rounds states.
fn counted(name: &str, config: &Config) -> Budget {
    Budget::new(survey_limits(name, &PAIR, config, 2))
}

/// The causes with their culprits' roles, and the look-up that is expected.
fn diagnosis(name: &str, config: &Config) -> (Vec<(Cause, Role)>, Lookup, Survey) {
    let survey = survey(name, &PAIR, config, 2, &counted(name, config));
    let expected = expect(name, &PAIR, config, &survey.first());
    let judged = judge(config, &survey, &expected);
    for judged in &judged {
        let phrases = Phrases::of(&judged.finding, Language::English);
        assert!(!phrases.headline.contains('{') && !phrases.what.is_empty(), "{phrases:?}");
        assert!(!phrases.fixes.is_empty() && !judged.evidence.is_empty());
    }
    let causes = judged.iter().map(|it| (it.finding.cause, it.finding.culprit.role)).collect();
    (causes, expected, survey)
}

#[test]
fn a_healthy_server_has_no_finding() {
    let server = Fake::start(healthy());
    let (causes, expected, survey) = diagnosis("db.lab", &config("", &[&server]));
    assert_eq!(causes, []);
    assert_eq!(expected.addresses, ["192.0.2.7".parse::<std::net::IpAddr>().unwrap()]);
    assert!(expected.took_ns < 500_000_000, "{}", expected.took_ns);
    assert_eq!(u64::from(server.questions()), survey.sent(), "no question more than announced");
}

#[test]
fn a_silent_first_server_costs_its_timeout() {
    let (_kept, silent) = silent();
    let server = Fake::start(healthy());
    let mut config = config("", &[&server]);
    config.servers.insert(0, silent);
    let (causes, expected, survey) = diagnosis("db.lab", &config);
    assert_eq!(causes, [(Cause::DnsTimeout, Role::Resolver)]);
    assert_eq!(seconds(expected.took_ns), 1);
    assert_eq!(survey.servers[0].rounds.len(), 2);
    let real = look_up("db.lab", &config, &Budget::new(look_up_limits("db.lab", &config)));
    assert_eq!((seconds(real.took_ns), real.addresses), (1, expected.addresses), "as it is walked");
}

#[test]
fn a_closed_port_is_passed_over_at_once() {
    let closed = silent().1;
    let server = Fake::start(healthy());
    let mut config = config("", &[&server]);
    config.servers.insert(0, closed);
    let (causes, expected, _) = diagnosis("db.lab", &config);
    assert_eq!(causes, [(Cause::DnsTimeout, Role::Resolver)]);
    assert_eq!((seconds(expected.took_ns), expected.ended), (0, Ended::Found));
}

#[test]
fn a_type_that_is_never_answered_costs_three_timeouts() {
    let ignores = vec![RecordType::AAAA];
    let server = Fake::start(Behaviour { ignores, ..healthy() });
    let config = config("", &[&server]);
    let (causes, expected, survey) = diagnosis("db.lab", &config);
    assert_eq!(causes, [(Cause::DnsTimeout, Role::Resolver)]);
    // Together, one after the other, and from another port: `send_dg` of glibc.
    assert_eq!((seconds(expected.took_ns), expected.ended), (3, Ended::Found));
    assert!(survey.servers[0].alone.iter().all(Query::is_silent));
    let real = look_up("db.lab", &config, &Budget::new(look_up_limits("db.lab", &config)));
    assert_eq!(seconds(real.took_ns), 3);
}

#[test]
fn the_second_of_a_pair_that_gets_lost_is_the_networks() {
    let ignores_in_pairs = Some(RecordType::AAAA);
    let server = Fake::start(Behaviour { ignores_in_pairs, ..healthy() });
    let config = config("", &[&server]);
    let survey = survey("db.lab", &PAIR, &config, 2, &counted("db.lab", &config));
    assert!(survey.servers[0].alone.iter().all(Query::is_heard), "alone it is answered");
    let expected = expect("db.lab", &PAIR, &config, &survey.first());
    let judged = judge(&config, &survey, &expected);
    assert_eq!(judged[0].finding.cause, Cause::DnsTimeout);
    assert!(judged[0].finding.facts.iter().any(|(name, _)| *name == "pairs"));
    // The server drops the second query from the same port; both are answered only from different
    // ports.
    assert_eq!(
        seconds(
            look_up("db.lab", &config, &Budget::new(look_up_limits("db.lab", &config))).took_ns
        ),
        2
    );
}

#[test]
fn failures_are_distinguished_from_names_that_do_not_exist() {
    let rcode = Some(ResponseCode::ServFail);
    let failing = Fake::start(Behaviour { rcode, ..healthy() });
    let server = Fake::start(healthy());
    let config = config("", &[&failing, &server]);
    let (causes, expected, _) = diagnosis("db.lab", &config);
    assert_eq!(causes, [(Cause::DnsFailure, Role::Resolver)]);
    assert_eq!(expected.ended, Ended::Found);
    let (causes, expected, _) = diagnosis("none.lab", &config.with_servers(vec![server.at]));
    assert_eq!((causes, expected.ended), (vec![], Ended::NotFound));
}

#[test]
fn a_slow_server_is_distinguished_from_one_that_fills_its_cache() {
    let delay = Duration::from_millis(150);
    let slow = Fake::start(Behaviour { delay, ..healthy() });
    let (causes, _, survey) = diagnosis("db.lab", &config("", &[&slow]));
    assert_eq!(causes, [(Cause::DnsSlow, Role::Resolver)]);
    assert_ne!(survey.servers[0].cache, Cache::Filled);
    let filling = Fake::start(Behaviour { first_delay: delay, counts_down: true, ..healthy() });
    let (causes, _, survey) = diagnosis("db.lab", &config("", &[&filling]));
    assert_eq!(causes, [], "a cache that fetches once does its work");
    assert_eq!(survey.servers[0].cache, Cache::Filled);
}

#[test]
fn a_server_that_is_late_once_is_cleared_when_it_is_asked_again() {
    let delay = Duration::from_millis(150);
    let late_once = Behaviour { first_delay: delay, ..healthy() };
    for (behaviour, expected) in
        [(late_once, vec![]), (Behaviour { delay, ..healthy() }, vec![Cause::DnsSlow])]
    {
        let (first, other) = (Fake::start(behaviour), Fake::start(healthy()));
        let config = config("", &[&first, &other]);
        let mut survey = survey("db.lab", &PAIR, &config, 1, &Budget::none());
        let causes = |survey: &Survey| -> Vec<Cause> {
            let lookup = expect("db.lab", &PAIR, &config, &survey.first());
            judge(&config, survey, &lookup).iter().map(|it| it.finding.cause).collect()
        };
        assert_eq!(causes(&survey), [Cause::DnsSlow]);
        let asked = other.questions();
        survey.repeat(&PAIR, &config, &Budget::none(), |it| it == first.at);
        assert_eq!((causes(&survey), other.questions()), (expected, asked));
    }
}

#[test]
fn a_ttl_that_counts_down_shows_a_cache() {
    // On a busy machine a first answer may come late by chance, as that of a cache does that it fills.
    let shows = |counts_down: bool, wanted: Cache| {
        let server = Fake::start(Behaviour { counts_down, ..healthy() });
        let cache = || diagnosis("db.lab", &config("", &[&server])).2.servers[0].cache;
        (0..5).any(|_| cache() == wanted)
    };
    assert!(shows(true, Cache::Held));
    assert!(shows(false, Cache::NotShown));
}

#[test]
fn search_domains_are_tried_in_their_order() {
    let delay = Duration::from_millis(20);
    let server = Fake::start(Behaviour { delay, ..healthy() });
    let config = config("search a.lab b.lab\noptions ndots:3", &[&server]);
    let (causes, expected, _) = diagnosis("db.lab", &config);
    assert_eq!(causes, [(Cause::DnsSearch, Role::Client)]);
    let mut names: Vec<&str> = expected.queries.iter().map(|it| it.name.as_str()).collect();
    names.dedup();
    assert_eq!(names, ["db.lab.a.lab", "db.lab.b.lab", "db.lab"]);
    assert_eq!(expected.found.as_deref(), Some("db.lab"));
    let whole = look_up("db.lab.", &config, &Budget::new(look_up_limits("db.lab.", &config)));
    assert_eq!(whole.queries.len(), 2, "a final dot ends the name");
}

#[test]
fn a_name_is_tried_itself_after_a_search_domain_without_an_answer() {
    let (_kept, silent) = silent();
    let options = "options timeout:1 attempts:1 ndots:3\nsearch a.lab b.lab";
    let config = Config::of(options).with_servers(vec![silent]);
    let (_, expected, _) = diagnosis("db.lab", &config);
    let names: Vec<&str> = expected.queries.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["db.lab.a.lab", "db.lab.a.lab", "db.lab", "db.lab"]);
    assert_eq!((seconds(expected.took_ns), expected.ended), (2, Ended::TryAgain));
}

#[test]
fn what_is_cut_short_is_asked_for_over_tcp() {
    let server = Fake::start(Behaviour { truncates: true, ..healthy() });
    let (causes, expected, survey) = diagnosis("db.lab", &config("", &[&server]));
    assert_eq!((causes, expected.ended), (vec![], Ended::Found));
    let queries = &survey.servers[0].rounds[0].queries;
    let over_tcp = queries.iter().filter(|it| it.transport == Transport::Tcp).count();
    assert_eq!((queries.len(), over_tcp), (4, 2));
    assert!(queries.iter().all(|it| it.took_ns > 0));
}

#[test]
fn a_silent_reverse_zone_is_distinguished() {
    let ignores = vec![RecordType::PTR];
    let server = Fake::start(Behaviour { ignores, ..healthy() });
    let (causes, expected, _) = diagnosis("db.lab", &config("", &[&server]));
    assert_eq!(causes, [(Cause::ReverseDnsTimeout, Role::Resolver)]);
    assert_eq!(seconds(expected.took_ns), 0, "the name itself resolves at once");
}

#[test]
fn garbage_is_no_answer() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut bytes = [0; 512];
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        // Another id, then an echo of the question, then noise.
        bytes[0] ^= 0xff;
        bytes[2] |= 0x80;
        socket.send_to(&bytes[..length], from).unwrap();
        socket.send_to(&[0xff; 40], from).unwrap();
        socket.send_to(&[], from).unwrap();
    });
    let query = ask(at, "db.lab", RecordType::A, Duration::from_millis(300), &Budget::none());
    assert_eq!(query.outcome, QueryOutcome::Timeout);
    server.join().unwrap();
}

#[test]
fn referrals_are_followed_from_the_root() {
    let root_at = "127.0.0.9:0".parse().unwrap();
    let (root, zone) = free(|| {
        let refers = Behaviour { refers_to: Some("lab"), ..healthy() };
        let root = Fake::start_at(root_at, refers)?;
        // The server of the zone listens at the same port of the address that the referral names.
        let zone_at = std::net::SocketAddr::new("127.0.0.1".parse().unwrap(), root.at.port());
        Ok((root, Fake::start_at(zone_at, healthy())?))
    });
    let found = trace("db.lab", RecordType::A, &[root.at], Duration::from_secs(1));
    assert_eq!(found.failure, None);
    let zones: Vec<&str> = found.hops.iter().map(|it| it.zone.as_str()).collect();
    assert_eq!(zones, [".", "lab"]);
    assert_eq!(found.hops[1].queries[0].server, zone.at);
    assert_eq!(found.hops[1].queries[0].outcome, QueryOutcome::Answered);
    // A root that refers to itself leads nowhere, and ends.
    let looping = trace("db.lab", RecordType::A, &[zone.at, root.at], Duration::from_secs(1));
    assert!(looping.hops.len() <= 24);
}

#[test]
fn rotation_makes_each_server_the_first_one_as_often() {
    let (_kept, silent) = silent();
    let server = Fake::start(healthy());
    let mut config = config("options rotate", &[&server]);
    config.servers.push(silent);
    let survey = survey("db.lab", &PAIR, &config, 2, &counted("db.lab", &config));
    let each = expect_each("db.lab", &PAIR, &config, &survey.first());
    let times: Vec<_> = each.iter().map(|(at, it)| (*at, seconds(it.took_ns))).collect();
    assert_eq!(times, [(server.at, 0), (silent, 1)]);
    let (causes, expected, _) = diagnosis("db.lab", &config);
    assert_eq!(seconds(expected.took_ns), 1, "the slowest");
    assert_eq!(causes, [(Cause::DnsTimeout, Role::Resolver)]);
}

#[test]
fn no_aaaa_leaves_out_the_type_that_is_not_answered() {
    let server = Fake::start(Behaviour { ignores: vec![RecordType::AAAA], ..healthy() });
    let config = config("options no-aaaa", &[&server]);
    let look_up = look_up("db.lab", &config, &Budget::new(look_up_limits("db.lab", &config)));
    assert_eq!((seconds(look_up.took_ns), look_up.queries.len()), (0, 1));
}

#[test]
fn a_truncated_answer_without_a_tcp_port_is_a_failure_of_the_server() {
    let server = Fake::start(Behaviour { truncates: true, refuses_tcp: true, ..healthy() });
    let (causes, expected, _) = diagnosis("db.lab", &config("", &[&server]));
    assert_eq!(causes, [(Cause::DnsFailure, Role::Resolver)]);
    assert_eq!(expected.ended, Ended::TryAgain);
}

#[test]
fn servers_that_contradict_each_other_are_reported() {
    let (one, other) = (Fake::start(healthy()), Fake::start(Behaviour::default()));
    let of = |servers: &[&Fake]| {
        let config = config("", servers);
        survey("db.lab", &PAIR, &config, 2, &counted("db.lab", &config)).contradictions()
    };
    let sentences = of(&[&other, &one]);
    let [sentence] = &sentences[..] else { panic!("{sentences:?}") };
    let said = format!("db.lab does not exist at {} and has records at {}", other.at, one.at);
    assert!(sentence.starts_with(&said), "{sentence}");
    assert!(of(&[&one, &one]).is_empty() && of(&[&other]).is_empty());
}

#[test]
fn an_option_that_is_set_is_not_proposed() {
    let (_kept, silent) = silent();
    let fixes = |timeout_s: u64| {
        let mut config = config("", &[]);
        config.servers = vec![silent];
        let survey = survey("db.lab", &PAIR, &config, 1, &counted("db.lab", &config));
        config.resolver.timeout_s = timeout_s;
        let expected = expect("db.lab", &PAIR, &config, &survey.first());
        let judged = judge(&config, &survey, &expected).remove(0);
        Phrases::of(&judged.finding, Language::English)
            .fixes
            .iter()
            .map(|it| it.change.clone())
            .collect::<String>()
    };
    assert!(fixes(5).contains("timeout:1"), "{}", fixes(5));
    assert!(!fixes(1).contains("timeout:1"), "{}", fixes(1));
}

/// glibc leaves the port to a server open and repeats a query with the same id, so that an answer to the
/// first is taken while it waits for the second.
#[test]
fn an_answer_after_the_timeout_is_taken_by_the_second_query() {
    let server = Fake::start(Behaviour { delay: Duration::from_millis(1_400), ..healthy() });
    let config = config("options no-aaaa", &[&server]);
    let types = config.address_types();
    let budget = Budget::new(survey_limits("db.lab", &types, &config, 2));
    let survey = survey("db.lab", &types, &config, 2, &budget);
    let late_ns =
        |round: usize| survey.servers[0].rounds[round].queries[0].late.as_ref().unwrap().took_ns;
    let is_late = |ns: u64| (1_400_000_000..2_400_000_000).contains(&ns);
    assert!(is_late(late_ns(0)) && is_late(late_ns(1)), "{survey:?}");
    let expected = expect("db.lab", &types, &config, &survey.first());
    assert_eq!((expected.ended, expected.queries.len()), (Ended::Found, 2));
    assert!(is_late(expected.took_ns), "{expected:?}");
    let causes = |judged: Vec<Judged>| -> Vec<_> {
        let is_patience = |fact: &(&str, Fact)| *fact == ("patience_ns", Fact::Ns(1_000_000_000));
        let is_late = |it: &Judged| it.finding.facts.iter().any(is_patience);
        judged.iter().map(|it| (it.finding.cause, is_late(it))).collect()
    };
    assert_eq!(causes(judge(&config, &survey, &expected)), [(Cause::DnsSlow, true)]);
    let real = look_up("db.lab", &config, &Budget::new(look_up_limits("db.lab", &config)));
    assert_eq!((real.ended, real.queries.len()), (Ended::Found, 2));
    assert!(is_late(real.took_ns), "{real:?}");
    // With one attempt nobody is there to take it: the look-up fails, which is a fault.
    let mut once = config.clone();
    once.resolver.attempts = 1;
    let expected = expect("db.lab", &types, &once, &survey.first());
    assert_eq!((expected.ended, seconds(expected.took_ns)), (Ended::TryAgain, 1));
    let judged = judge(&once, &survey, &expected);
    let ruled_out: Vec<_> = judged[0].finding.ruled_out.iter().map(|it| it.cause).collect();
    assert!(!ruled_out.contains(&Cause::DnsSlow), "it answers late: {ruled_out:?}");
    assert!(judged[0].evidence[0].what.contains("answered after 1.4"), "{:?}", judged[0].evidence);
    assert_eq!(causes(judged), [(Cause::DnsTimeout, false)]);
}
