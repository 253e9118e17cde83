//! The evidence for an application's own time, which is the same for client and server: the time
//! that no mechanism of TCP explains.

use crate::app::{Framer, Protocol};
use crate::findings::proof::Proof;
use crate::findings::scene::Scene;
use crate::findings::tally::CauseTally;
use crate::judge::{Gap, Turn};
use crate::model::{Cause, Fact};
use crate::wire::Side;

/// Returns whether the client waited for the end of the connection only: its response had all come, and
/// states no length.
pub(super) fn waits_for_unstated_end(gap: &Gap) -> bool {
    let ends = gap.next.from == Side::Server && gap.next.payload_bytes == 0;
    let continues = gap.sender == Side::Server && gap.turn == Turn::Continues;
    gap.protocol.lacks_length && continues && ends
}

/// Name of the fact that nothing in the content shows which messages answer others, as no grammar of the
/// protocol is known. What ended the silence is an answer only as far as the direction turned there.
pub(super) const UNREAD: &str = "unread";

/// Returns whether nothing in the content shows which messages are requests, and which answer them,
/// because no grammar of the protocol is known, or because it is encrypted and either side may ask: those of
/// SSH open channels (RFC 4254 §5.1), and what is typed at one end is shown at the other (§7).
fn is_unread(framer: &Framer) -> bool {
    matches!(framer.protocol(), Protocol::Turns | Protocol::Ssh) && framer.hides_dialogue()
}

/// Returns whether the messages of `protocol` are read.
pub(super) fn is_read(protocol: Protocol) -> bool {
    !matches!(protocol, Protocol::Turns | Protocol::Ssh | Protocol::Tls)
}

/// The fact that this is so of some connections only: others of the endpoint are read.
pub(super) fn unread_in_part() -> Fact {
    Fact::Text("tcpwhy does not read the protocol of some of its connections".into())
}

/// Least bytes of a response of HTTP/1.1 in a record of TLS: a status line and the date, which a server has to
/// state (RFC 9110 §6.6.1), in the least that encrypts it (RFC 8446 §5.2).
const HTTP_RECORD_BYTES: u32 =
    5 + "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n".len() as u32 + 16;

/// Returns whether the content is hidden by TLS, and nothing shows a request and its response: HTTP was not
/// named, its responses are longer, and the client had paused for about as long before.
fn is_hidden(scene: &Scene<'_>) -> bool {
    let (gap, exchange) = (scene.gap(), scene.exchange);
    let is_answer = gap.sender == Side::Server && gap.turn == Turn::Answers;
    let is_short = (1..HTTP_RECORD_BYTES).contains(&gap.next.payload_bytes);
    let pause_alike = 2 * exchange.idle_ns >= gap.len_ns();
    let is_inside = scene.connection.framer.hides_other_than_http() && !exchange.in_handshake;
    is_inside && is_answer && is_short && pause_alike
}

/// Returns whether the clearest case of `cause` is of a protocol that is not read.
pub(super) fn is_unread_in(cause: &CauseTally) -> bool {
    let mut facts = cause.worst.iter().flat_map(|instance| &instance.proof.facts);
    facts.any(|(name, _)| *name == UNREAD)
}

/// Proves that the application was silent. `answers` are the names of the frames before and after a
/// silence in which the other side waited for an answer.
pub(super) fn prove(scene: &Scene<'_>, answers: (&'static str, &'static str), proof: &mut Proof) {
    let gap = scene.gap();
    // The client of SSH waits for the greeting, which is text (RFC 4253 §4.2).
    let is_greeting =
        scene.connection.framer.protocol() == Protocol::Ssh && &*scene.exchange.kind == "greeting";
    let unread = is_unread(&scene.connection.framer) && !is_greeting || is_hidden(scene);
    if unread {
        proof.add_fact(UNREAD, Fact::Text("tcpwhy does not read its protocol".into()));
    }
    let (before, after) = match gap.turn {
        Turn::Answers if !unread || gap.sender == Side::Client => answers,
        Turn::Answers | Turn::Continues => ("flight_end", "next"),
    };
    // What ends amid a request does not complete it.
    let before = if gap.protocol.amid_request { "flight_end" } else { before };
    let unstated = waits_for_unstated_end(gap);
    let before = if unstated { "last_data" } else { before };
    // Before a greeting, the end of the handshake is what the server waited for.
    let answers = gap.sender == Side::Server && gap.turn == Turn::Answers;
    let is_asked = !answers || gap.protocol.amid_request || gap.last.payload_bytes > 0;
    proof.add_frame_before(gap, if is_asked { before } else { "opened" });
    // A FIN or a RST shows that the application sends nothing more.
    let says = gap.next.payload_bytes > 0;
    // A client that goes on in the midst of its request does not begin one.
    let goes_on = gap.protocol.amid_request && gap.sender == Side::Client;
    let after = if goes_on { "next" } else { after };
    let end = if unstated { "fin" } else { "end" };
    proof.add_frame_after(gap, if says { after } else { end });
    if scene.connection.framer.speaks_lines() {
        proof.add_fact("lines", Fact::Text("of text".into()));
    }
    let free = gap.turn == Turn::Answers || !gap.ack_triggered();
    proof.rule_out(Cause::NagleDelayedAck, "not_ack_clocked", free);
    let nothing_lost = !gap.losses.missing.any() && !gap.repair.is_retransmission();
    let nothing_retransmitted = nothing_lost && scene.nothing_retransmitted();
    proof.rule_out(Cause::RetransmissionTimeout, "nothing_lost", nothing_retransmitted);
    proof.rule_out(Cause::ZeroWindow, "window_open", gap.window.closed_ns == 0);
}
