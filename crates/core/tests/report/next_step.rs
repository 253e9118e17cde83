//! The next steps in a report: who has to change what, the drawing, the comparison after the
//! change.

use super::{fixtures, look};
use tcpwhy_core::capture::FrameId;
use tcpwhy_core::model::{
    Cause, ConnectionReport, Fact, Finding, Invocation, Language, Report, Role,
};
use tcpwhy_core::report::{Phrases, draw, text, treat, verify};
use tcpwhy_core::wire::Endpoint;

fn asked(files: &[&str], options: &[&str]) -> Invocation {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    Invocation { files: owned(files), options: owned(options), ..Invocation::default() }
}

/// Whom a cause blames.
fn culprits(cause: Cause) -> &'static [Role] {
    match cause {
        Cause::NagleDelayedAck
        | Cause::DelayedAck
        | Cause::SendBuffer
        | Cause::SlowStart
        | Cause::ReceiveWindow
        | Cause::ZeroWindow
        | Cause::Http2FlowControl => &[Role::Client, Role::Server],
        Cause::Reset | Cause::IdleReset => &[Role::Client, Role::Server, Role::Network],
        Cause::AcceptQueueOverflow
        | Cause::Refused
        | Cause::TlsHandshake
        | Cause::Http100Continue
        | Cause::NoAnswer
        | Cause::ErrorResponses
        | Cause::ServerThink
        | Cause::UpstreamWait
        | Cause::CpuThrottled
        | Cause::CpuSaturation
        | Cause::EventLoopBlocked
        | Cause::WorkersExhausted
        | Cause::LockWait
        | Cause::GcPause
        | Cause::DiskWait
        | Cause::MemoryPressure => &[Role::Server],
        Cause::ClientThink | Cause::PortExhaustion | Cause::DnsSearch => &[Role::Client],
        Cause::DnsTimeout => &[Role::Resolver, Role::Network],
        Cause::DnsSlow | Cause::DnsFailure | Cause::ReverseDnsTimeout => &[Role::Resolver],
        _ => &[Role::Network],
    }
}

/// Words by which a place is one of a role's.
fn places(role: Role) -> &'static [&'static str] {
    match role {
        Role::Client => &["client"],
        Role::Server => &["server"],
        Role::Resolver => &["resolver"],
        _ => &["path", "network", "bottleneck", "NAT"],
    }
}

#[test]
fn the_first_fix_is_for_the_culprit() {
    let mut finding = fixtures::mixture().findings.remove(2);
    finding.software = None;
    let mut wrong = Vec::new();
    for facts in [Vec::new(), vec![("slow_ns", Fact::Ns(1)), ("moved", Fact::Count(3))]] {
        finding.facts = facts;
        for &cause in Cause::ALL {
            for &role in culprits(cause) {
                (finding.cause, finding.culprit.role) = (cause, role);
                let fixes = Phrases::of(&finding, Language::English).fixes;
                let first = &fixes.first().expect("a fix").place;
                if !places(role).iter().any(|place| first.contains(place)) {
                    wrong.push(format!("{} of {role:?}: {first}", cause.id()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Advice for software that the capture does not show is a guess.
#[test]
fn software_is_named_only_where_the_capture_shows_it() {
    let names = ["nginx", "Apache", "Node", "Java", "JDK", "Netty", "Python", "Go"];
    let mut finding = fixtures::nagle().findings.remove(0);
    for &cause in Cause::ALL {
        for role in [Role::Server, Role::Client] {
            (finding.cause, finding.culprit.role, finding.software) = (cause, role, None);
            for fix in Phrases::of(&finding, Language::English).fixes {
                let named = names.iter().find(|name| fix.place.starts_with(*name));
                assert_eq!(named, None, "{}: {}", cause.id(), fix.place);
            }
        }
    }
    (finding.cause, finding.culprit.role) = (Cause::NagleDelayedAck, Role::Server);
    finding.software = Some("nginx/1.22.1".into());
    assert!(Phrases::of(&finding, Language::English).fixes[0].place.starts_with("nginx"));
}

/// The nagle case, asked for as one file.
fn nagle() -> (Report, Finding) {
    let mut report = fixtures::nagle();
    report.asked = asked(&["slow day.pcap"], &[]);
    let finding = report.findings[0].clone();
    (report, finding)
}

#[test]
fn a_finding_shows_how_to_draw_its_evidence() {
    let (mut report, mut finding) = nagle();
    finding.evidence_exchange = 7;
    let drawn = |report: &Report, finding: &Finding| draw(report, finding).expect("a command");
    report.connections_omitted = 0;
    assert_eq!(drawn(&report, &finding), "tcpwhy 'slow day.pcap' --connection 1 --exchange 7");
    // Numbers in a list that is cut may not be those in the whole.
    report.connections_omitted = 12;
    let client = "tcpwhy 'slow day.pcap' --connection 10.200.0.1:50112 --exchange 7";
    assert_eq!(drawn(&report, &finding), client);
    report.asked = asked(&["a.pcap", "b.pcap"], &["--filter", "port 8080"]);
    finding.evidence_exchange = 0;
    assert!(
        drawn(&report, &finding).starts_with("tcpwhy a.pcap b.pcap --filter 'port 8080' --conn")
    );
    finding.evidence_flow = None;
    report.connections.clear();
    assert_eq!(draw(&report, &finding), None);
    assert!(text::render(&nagle().0, &look(100)).contains("\n  draw       tcpwhy"));
}

#[test]
fn a_look_up_is_drawn_with_the_connection_that_waited_for_it() {
    let (mut report, mut finding) = nagle();
    finding.cause = Cause::DnsSlow;
    report.connections_omitted = 0;
    let last = finding.evidence[2].frame;
    let mut later = report.connections[0].clone();
    later.first_frame = FrameId::new(last.file(), last.number() + 5);
    report.connections.push(later);
    let drawn = draw(&report, &finding).expect("a command");
    assert!(drawn.ends_with("--connection 2 --exchange 1"), "{drawn}");
    report.connections.truncate(1);
    report.connections[0].first_frame = FrameId::new(last.file(), 1);
    assert_eq!(draw(&report, &finding), None);
}

#[test]
fn of_two_connections_with_the_same_ends_the_later_is_drawn_if_the_evidence_is_on_it() {
    let (mut report, finding) = nagle();
    report.connections_omitted = 0;
    let first = report.connections[0].clone();
    let evidence = finding.evidence[0].frame;
    report.connections.push(ConnectionReport { first_frame: evidence, ..first });
    assert!(draw(&report, &finding).expect("a command").contains("--connection 2"));
}

#[test]
fn a_check_ends_with_the_comparison() {
    let (mut report, mut finding) = nagle();
    let capture = "sudo timeout 60 tcpdump -i any -w after.pcap 'host 10.200.0.2 and port 8080'; tcpwhy compare";
    assert_eq!(verify(&report, &finding), format!("{capture} 'slow day.pcap' after.pcap"));
    // With more than one endpoint in the report, the comparison is limited to the culprit.
    report.endpoints.push(report.endpoints[0].clone());
    assert!(
        verify(&report, &finding).ends_with("after.pcap --filter 'host 10.200.0.2 and port 8080'")
    );
    report.asked = asked(&["-"], &[]);
    let said = verify(&report, &finding);
    assert!(said.contains("--json >before.json; sudo"), "{said}");
    assert!(said.ends_with("tcpwhy compare before.json after.pcap"), "{said}");
    finding.affected.of_exchanges = 0;
    let said = verify(&report, &finding);
    assert!(said.ends_with("tcpwhy after.pcap --filter 'cause nagle_delayed_ack'"), "{said}");
}

/// Look-ups alone have no latency to compare, so the exchanges that waited for them are captured
/// too.
#[test]
fn a_check_of_look_ups_captures_what_waits_for_them() {
    let (report, mut finding) = nagle();
    finding.cause = Cause::DnsSlow;
    finding.culprit.endpoint = Endpoint { port: 53, ..finding.culprit.endpoint };
    assert!(verify(&report, &finding).contains("'tcp or port 53'"));
}

#[test]
fn all_connections_are_listed_with_their_numbers() {
    let mut report = fixtures::nagle();
    let mut quiet = report.connections[0].clone();
    (quiet.lost_ns, quiet.client) = (0, fixtures::endpoint("10.200.0.9", 40_000));
    report.connections.push(quiet);
    let last = report.connections.len();
    let row = format!("{last:>3}  10.200.0.9:40000");
    let whole = text::render(&report, &tcpwhy_core::report::Look { all: true, ..look(80) });
    assert!(whole.contains(&row), "{whole}");
    assert!(!text::render(&report, &look(80)).contains(&row));
}

#[test]
fn a_fix_that_can_be_tried_is_named_for_the_side_at_fault() {
    let mut finding = fixtures::mixture().findings.remove(2);
    finding.culprit.endpoint.port = 8080;
    (finding.cause, finding.culprit.role) = (Cause::NagleDelayedAck, Role::Server);
    let nodelay = "sudo tcpwhy treat nodelay --port 8080 --side server";
    assert_eq!(treat(&finding).as_deref(), Some(nodelay));
    finding.cause = Cause::SendBuffer;
    assert!(treat(&finding).is_some_and(|it| it.contains("buffers --port 8080")));
    finding.culprit.role = Role::Client;
    let mut server = finding.culprit.endpoint;
    server.port = 5432;
    finding.evidence_flow = Some((finding.culprit.endpoint, server));
    let of_client = treat(&finding).expect("a command");
    assert!(of_client.ends_with("--port 5432 --side client"), "{of_client}");
    finding.evidence_flow = None;
    assert_eq!(treat(&finding), None, "no port is known");
    finding.culprit.role = Role::Network;
    assert_eq!(treat(&finding), None, "a network has no sockets");
    (finding.cause, finding.culprit.role) = (Cause::ServerThink, Role::Server);
    finding.evidence_flow = Some((finding.culprit.endpoint, server));
    assert_eq!(treat(&finding), None, "no option makes a server's work shorter");
}

/// A late ACK is the receiver's to send, unless the sender's own buffer makes it wait.
#[test]
fn a_delayed_ack_is_treated_where_it_comes_from_or_where_it_blocks() {
    let (_, mut finding) = nagle();
    finding.cause = Cause::DelayedAck;
    finding.facts.clear();
    let quickack = "sudo tcpwhy treat quickack --port 8080 --side client";
    assert_eq!(treat(&finding).as_deref(), Some(quickack));
    finding.facts = vec![("blocker", Fact::Text("a send buffer of that size".into()))];
    let buffers = "sudo tcpwhy treat buffers --port 8080 --side server";
    assert_eq!(treat(&finding).as_deref(), Some(buffers));
}

#[test]
fn each_cause_with_a_treatment_names_it() {
    let (_, nagle) = nagle();
    let (mut client, server) = nagle.evidence_flow.expect("a connection");
    client.port = 0;
    let of = |cause, role, facts: &[&'static str]| {
        let mut finding = nagle.clone();
        (finding.cause, finding.culprit.role) = (cause, role);
        finding.evidence_flow = Some((client, server));
        finding.facts = facts.iter().map(|fact| (*fact, Fact::Count(1))).collect();
        treat(&finding).map(|command| command.trim_start_matches("sudo tcpwhy treat ").to_owned())
    };
    let larger = format!("cwnd --initcwnd 30 --to {} --port 8080", client.ip());
    let idle = "sysctl tcp_slow_start_after_idle=0 --port 8080";
    let flood = "syn-flood --port 8080  # on the server";
    let cases: [(Cause, Role, &[&'static str], Option<&str>); 15] = [
        (Cause::SlowStart, Role::Server, &["restarts"], Some(idle)),
        (Cause::SlowStart, Role::Server, &["saved"], Some(&larger)),
        (Cause::SlowStart, Role::Server, &[], None),
        (Cause::SlowStart, Role::Client, &["saved"], None),
        (Cause::AcceptQueueOverflow, Role::Server, &[], Some("backlog 4096 --port 8080")),
        (Cause::SynFlood, Role::Network, &[], Some(flood)),
        (Cause::DnsSearch, Role::Client, &[], Some("resolver --ndots 1  # on the client")),
        (Cause::ReceiveWindow, Role::Client, &["unscaled"], None),
        (Cause::DnsSlow, Role::Resolver, &[], None),
        (
            Cause::DnsSlow,
            Role::Resolver,
            &["asked_again_by_client"],
            Some("resolver --cache  # on the client"),
        ),
        (
            Cause::DnsTimeout,
            Role::Resolver,
            &["next_resolver"],
            Some("resolver --cache  # on the client"),
        ),
        (Cause::DnsTimeout, Role::Resolver, &[], None),
        (
            Cause::ConntrackRace,
            Role::Host,
            &[],
            Some("resolver --single-request-reopen  # on the client"),
        ),
        (Cause::PathRtt, Role::Network, &[], None),
        (Cause::Bandwidth, Role::Network, &[], None),
    ];
    for (cause, role, facts, command) in cases {
        assert_eq!(of(cause, role, facts).as_deref(), command, "{}", cause.id());
    }
    let probing = of(Cause::MtuBlackHole, Role::Network, &[]).expect("a command");
    assert!(probing.starts_with("sysctl tcp_mtu_probing=1 --port 8080  # on the "), "{probing}");
}
