//! Texts of a finding: the message table of its cause, filled with its facts. Text and JSON both
//! use these, so they cannot disagree.

use crate::app::Protocol;
use crate::findings::{self, FixRow, Words, in_words};
use crate::model::template::{self, fill, fill_all, fill_first};
use crate::model::{
    Cause, Evidence, Fact, Family, Finding, Judged, Language, Latency, Observation, Owner, Role,
    units,
};
use crate::say;
use crate::wire::Side;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The texts of one finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrases {
    /// One sentence without the full stop.
    pub headline: String,
    /// A description of what happened.
    pub what: String,
    /// The role of each evidence frame in the chain.
    pub evidence: Vec<String>,
    /// Facts needed to read the times between the frames.
    pub note: Option<String>,
    /// Similar causes with the reason why they were excluded.
    pub ruled_out: Vec<(Cause, String)>,
    /// Recommended changes, the most specific first.
    pub fixes: Vec<Fix>,
}

/// One change that removes a cause.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fix {
    /// The program, host or setting to change.
    #[serde(rename = "where")]
    pub place: String,
    /// The change; code stands in backquotes.
    pub change: String,
    /// The effect of the change.
    pub effect: String,
}

impl Phrases {
    /// Creates the texts of `finding`.
    pub fn of(finding: &Finding, language: Language) -> Self {
        let words = findings::words(finding.cause, language);
        let mut facts = facts(finding);
        facts.values_mut().for_each(|fact| translate(fact, language));
        let fact = |name: &str| facts.get(name);
        let part = |evidence: &Evidence| {
            let template = words.part(evidence.part);
            template.and_then(|text| fill(text, &fact)).unwrap_or_else(|| readable(evidence.part))
        };
        let of_others: Vec<_> =
            ["ahead", "asked_by"].into_iter().filter_map(|part| words.part(part)).collect();
        let headline = fill_first(&words.headline, &fact).unwrap_or_else(|| words.title.into());
        Self {
            headline: under_load(finding, headline, language),
            what: fill_all(language, &[&words.message[..], &of_others].concat(), &fact),
            evidence: finding.evidence.iter().map(part).collect(),
            note: words.part("far_sender").and_then(|text| fill(text, &fact)),
            ruled_out: finding
                .ruled_out
                .iter()
                .filter_map(|ruled_out| {
                    let why = words.why_not(ruled_out.cause, ruled_out.why)?;
                    Some((ruled_out.cause, fill(why, &fact)?))
                })
                .collect(),
            fixes: fixes(finding, &words, &fact),
        }
    }
}

/// Adds the load under which a finding appears, if there is one.
fn under_load(finding: &Finding, headline: String, language: Language) -> String {
    match finding.load {
        Some(load) => say!(language, "under_load", headline, count = load.connections),
        None => headline,
    }
}

/// Puts the words of `language` in place of the English ones that a fact consists of. Addresses, names and
/// values that were read have none.
fn translate(fact: &mut Fact, language: Language) {
    if let Fact::Text(text) = fact
        && let Some(words) = in_words(language, text)
    {
        *text = words;
    }
}

/// Returns the name of an owner of time in `language`.
pub fn owner_name(owner: Owner, language: Language) -> String {
    say!(language, &format!("owner_{}", owner.id()))
}

/// Returns the text of an observation, and whether it limits the report; the id if the table has no
/// text for it. `{first_frame}` is the number of the first frame that shows it.
pub fn observation(observation: &Observation, language: Language) -> (bool, String) {
    let first = observation.frames.first().map(|frame| Fact::Text(frame.number().to_string()));
    let mut facts = observation.facts.clone();
    facts.iter_mut().for_each(|(_, fact)| translate(fact, language));
    let fact = |name: &str| match name {
        "first_frame" => first.as_ref(),
        _ => facts.iter().find(|(of, _)| *of == name).map(|(_, fact)| fact),
    };
    match findings::observation(observation.id, language) {
        Some(words) => (words.limits, fill_all(language, &words.message, &fact)),
        None => (false, readable(observation.id)),
    }
}

/// Returns the Wireshark display filter for the connection and frames of the evidence in one file.
/// It contains only what all of these frames have in common: a look-up may use several servers,
/// several ports, and both UDP and TCP, and a client may continue with another server address.
pub fn wireshark_filter(finding: &Finding, file: u32) -> String {
    let mut filter = String::new();
    let elsewhere = ["forwarded", "went_on"];
    let one_flow = !finding.evidence.iter().any(|it| elsewhere.contains(&it.part));
    if let Some((client, server)) = finding.evidence_flow.as_ref().filter(|_| one_flow) {
        let is_lookup = is_dns(finding.cause);
        let alone = is_lookup || client.ip() == server.ip();
        for side in if alone { vec![client] } else { vec![client, server] } {
            let family = if side.ip().is_ipv4() { "ip" } else { "ipv6" };
            let _ = write!(filter, "{family}.addr == {} && ", side.ip());
        }
        for side in [client, server].into_iter().filter(|_| !is_lookup) {
            let _ = write!(filter, "tcp.port == {} && ", side.port);
        }
    }
    let frames = finding.evidence.iter().map(|evidence| evidence.frame);
    let mut numbers: Vec<u64> =
        frames.filter(|frame| frame.file() == file).map(|frame| frame.number()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let _ = write!(filter, "frame.number in {{{}}}", numbers.join(", "));
    filter
}

/// Returns the facts of the finding itself and those that every finding has.
fn facts(finding: &Finding) -> BTreeMap<&str, Fact> {
    let text = |text: &str| Fact::Text(text.to_owned());
    let sender = sender(finding);
    let side = |side: Option<Side>, neutral: &str| match side {
        Some(Side::Client) => text("client"),
        Some(Side::Server) => text("server"),
        None => text(neutral),
    };
    let peer = match finding.culprit.role {
        Role::Client => "server",
        Role::Server => "client",
        _ => "peer",
    };
    let message = match sender {
        Some(Side::Client) => "request",
        Some(Side::Server) => "response",
        None => "message",
    };
    let mut facts = BTreeMap::from([
        ("culprit", Fact::Text(units::endpoint_or_others(&finding.culprit.endpoint))),
        ("role", text(finding.culprit.role.id())),
        ("peer", text(peer)),
        ("sender", side(sender, "sender")),
        ("receiver", side(sender.map(Side::peer), "receiver")),
        ("message", text(message)),
        ("way", text(if is_from_server(finding) { "from" } else { "to" })),
        ("exchanges", Fact::Count(finding.affected.exchanges)),
        ("of_exchanges", Fact::Count(finding.affected.of_exchanges)),
        ("connections", Fact::Count(finding.affected.connections)),
    ]);
    let cases = cases(finding);
    if cases > 1 {
        facts.insert("average", text("on average"));
        facts.insert("median", text(median_of(cases)));
        facts.insert("shown", text("in the case shown"));
    }
    let waits = finding.facts.iter().find(|(name, _)| *name == "cases");
    if let Some(waits) = waits.and_then(|(_, fact)| fact.count()).filter(|waits| *waits > 1) {
        facts.insert("wait_median", text(median_of(waits)));
    }
    if finding.lost_ns > 0 {
        facts.insert("lost_ns", Fact::Ns(finding.lost_ns));
        facts.insert("share", Fact::Share(finding.share));
    }
    facts.extend(finding.facts.iter().map(|(name, fact)| (*name, fact.clone())));
    name_longest(&mut facts, finding);
    facts
}

/// Names the longest of few values as such, rather than as their 99th percentile, and no median of
/// one.
fn name_longest(facts: &mut BTreeMap<&str, Fact>, finding: &Finding) {
    let of_all = Latency::has_percentile(99, finding.affected.of_exchanges);
    facts.insert("tail_name", Fact::Text(if of_all { "p99" } else { "the longest" }.into()));
    if let Some(slow) = facts.get("slow").and_then(Fact::count).filter(|slow| *slow > 1) {
        facts.insert("slow_median", Fact::Text(median_of(slow).into()));
    }
    let count = facts.get("cases").and_then(Fact::count).unwrap_or(0);
    if Latency::has_percentile(99, count) {
        return;
    }
    facts.remove("p99_ns");
    let times = ["p50_ns", "longest_ns"].map(|name| facts.get(name).map(template::show));
    match times {
        // Two values are stated, and not as a median.
        [Some(p50), Some(longest)] if p50 != longest && count == 2 => {
            facts.insert("p50_ns", Fact::Text(format!("{p50} and {longest}")));
            facts.remove("wait_median");
        }
        [Some(p50), Some(longest)] if p50 != longest => {
            facts.insert("most_ns", Fact::Text(longest));
        }
        _ => {}
    }
}

/// Returns the words behind the median of `count` values. Of two it is the lower one.
fn median_of(count: u64) -> &'static str {
    if count > 2 { "in the median" } else { "or more" }
}

/// Returns the number of cases of a finding: a value of one does not hold for several.
fn cases(finding: &Finding) -> u64 {
    let count = finding.facts.iter().find(|(name, _)| *name == "count");
    let count = count.and_then(|(_, fact)| fact.count());
    finding.affected.exchanges.max(count.unwrap_or(0))
}

/// Returns the side that sends the data which the cause holds up.
fn sender(finding: &Finding) -> Option<Side> {
    let culprit = match finding.culprit.role {
        Role::Client => Some(Side::Client),
        Role::Server => Some(Side::Server),
        _ => None,
    };
    // A SYN-ACK without window scaling limits the window of the other side.
    let is_dropped = finding.facts.iter().any(|(name, _)| *name == "dropped");
    let of_receiver = finding.cause.is_of_receiver() && !is_dropped;
    let from_culprit = if of_receiver { culprit.map(Side::peer) } else { culprit };
    // A RST that a device on the path has made bears the address of one side.
    let is_end =
        |evidence: &&Evidence| finding.cause.family() == Family::Ending && evidence.part == "reset";
    let has_data = |evidence: &&Evidence| evidence.payload_bytes > 0;
    let of_end = finding.evidence.iter().find(is_end);
    let shown = of_end.or_else(|| finding.evidence.iter().find(has_data));
    from_culprit.or(shown.map(|evidence| evidence.from))
}

/// Describes the confidence in a finding, and how many like it were right in captures whose cause is
/// known.
pub fn confidence(finding: &Finding, language: Language) -> String {
    let judged = judged(finding);
    let sure = format!("{:.2}", finding.confidence);
    let right = (judged.all > 0).then(|| judged.right.to_string());
    say!(language, "confidence", sure, right, all = judged.all)
}

/// Returns the judged findings that are like `finding`.
pub fn judged(finding: &Finding) -> Judged {
    let affected = &finding.affected;
    findings::judged(finding.cause, findings::cases(affected.exchanges, affected.connections))
}

/// Returns whether the network lost data sent by the server.
pub fn is_from_server(finding: &Finding) -> bool {
    let sent_again = finding.evidence.iter().find(|link| link.part == "retransmission");
    finding.culprit.role == Role::Network && sent_again.is_some_and(|it| it.from == Side::Server)
}

/// Returns whether a cause is about name look-ups.
pub fn is_dns(cause: Cause) -> bool {
    cause.family() == Family::Lookup
}

/// Returns an id as words, for ids without a text: `http_100_continue` as `http 100 continue`.
fn readable(id: &str) -> String {
    id.replace('_', " ")
}

fn fixes<'a>(
    finding: &Finding,
    words: &Words,
    fact: &dyn Fn(&str) -> Option<&'a Fact>,
) -> Vec<Fix> {
    let ranked = words.fixes.iter().filter_map(|row| Some((fitness(row, finding)?, row)));
    let mut ranked: Vec<(i32, &FixRow)> = ranked.collect();
    ranked.sort_by_key(|(fitness, _)| -fitness);
    let fill_row = |(_, row): (i32, &FixRow)| {
        Some(Fix {
            place: fill(row.place, fact)?,
            change: fill(row.change, fact)?,
            effect: fill(row.effect, fact)?,
        })
    };
    ranked.into_iter().filter_map(fill_row).collect()
}

/// Rates how well a fix fits: the more specific, the higher; `None` if it does not apply. A fix for
/// a particular software applies only if the capture shows that software, by its own statement or
/// by its protocol.
fn fitness(row: &FixRow, finding: &Finding) -> Option<i32> {
    let knows = |name: &str| finding.facts.iter().any(|(known, _)| *known == name);
    let mut sum = 0;
    for term in row.applies.split('+') {
        sum += if term == "any" {
            0
        } else if let Some(name) = term.strip_prefix('!') {
            (!knows(name)).then_some(0)?
        } else if let Some(name) = term.strip_prefix('?') {
            knows(name).then_some(0)?
        } else if let Some(role) = Role::from_id(term) {
            (role == finding.culprit.role).then_some(1)?
        } else if let Some(protocol) = Protocol::from_id(term) {
            (protocol == finding.protocol).then_some(4)?
        } else {
            let software = finding.software.as_deref();
            software.is_some_and(|software| is_software(term, software)).then_some(8)?
        };
    }
    Some(sum)
}

/// Returns whether the name that a software states (`BaseHTTP/0.6 Python/3.11.2`) belongs to
/// `term`. A product is its whole token (RFC 9110 §10.2.4): `Apache-Coyote` is Tomcat, not `Apache`.
fn is_software(term: &str, software: &str) -> bool {
    let aliases: &[&str] = match term {
        "nginx" => &["nginx", "openresty", "tengine"],
        "node" => &["node", "node.js", "node-fetch", "express", "next.js"],
        "tomcat" => &["tomcat", "apache-coyote"],
        "netty" => &["netty", "reactor-netty", "grpc-java-netty"],
        "java" => &[
            "java",
            "java-http-client",
            "jetty",
            "tomcat",
            "apache-coyote",
            "undertow",
            "wildfly",
            "jdk",
            "netty",
            "reactor-netty",
            "grpc-java-netty",
        ],
        "python" => &[
            "python",
            "python-httpx",
            "python-requests",
            "python-urllib",
            "gunicorn",
            "uvicorn",
            "werkzeug",
            "tornado",
            "tornadoserver",
            "aiohttp",
            "waitress",
        ],
        "go" => &["go-http-client", "golang", "caddy", "fasthttp", "traefik"],
        other => &[other],
    };
    let software = software.to_ascii_lowercase();
    let mut words =
        software.split(|char: char| !char.is_ascii_alphanumeric() && char != '-' && char != '.');
    words.any(|word| aliases.contains(&word))
}

/// Formats a share of the wall time for legends: `98 %`.
pub fn share_of(part_ns: u64, whole_ns: u64) -> String {
    units::share(if whole_ns == 0 { 0.0 } else { part_ns as f64 / whole_ns as f64 })
}
