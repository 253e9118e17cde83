//! The facts of a gap in groups, as text for the log of decisions (`--why`).

use super::{Gap, Recovery, Shape, Turn};
use crate::model::units::{bytes, duration};

/// Facts about one mechanism, each with its value.
pub struct Facts {
    /// Name of the mechanism.
    pub group: &'static str,
    /// Names and values of the facts.
    pub facts: Vec<(&'static str, String)>,
}

fn yes(fact: bool) -> String {
    if fact { "yes" } else { "no" }.into()
}

fn or_unknown(value: Option<String>) -> String {
    value.unwrap_or_else(|| "unknown".into())
}

impl Gap {
    /// Returns what the sender knew, by mechanism.
    pub fn facts(&self) -> Vec<Facts> {
        let group = |group, facts| Facts { group, facts };
        vec![
            group("silence", self.own_facts()),
            group("round trip", self.round_trip()),
            group("acknowledgment", self.acknowledgment()),
            group("flight", self.flight()),
            group("window", self.window()),
            group("HTTP/2 flow control", self.credit()),
            group("loss", self.loss()),
            group("Nagle's algorithm", self.nagle()),
            group("pace", self.pace()),
        ]
    }

    fn own_facts(&self) -> Vec<(&'static str, String)> {
        let turn = match self.turn {
            Turn::Continues => "continued its message",
            Turn::Answers => "answered",
        };
        vec![
            ("length", duration(self.len_ns())),
            ("the sender then", turn.into()),
            ("last segment before it was small", yes(self.last_small)),
            ("bytes that ended it", self.next_len.to_string()),
            ("a TLS handshake was under way", yes(self.protocol.in_handshake)),
            ("packets are missing from the capture in it", yes(self.misses_data)),
            ("its end follows a hole", yes(self.behind_hole)),
            ("ACKs in it cover such packets of the sender", yes(self.has_sent_unseen)),
            ("they report a hole at the receiver", yes(self.repairs_unseen)),
            ("the sender acknowledges such packets of its peer", yes(self.unseen_until_ns > 0)),
        ]
    }

    fn round_trip(&self) -> Vec<(&'static str, String)> {
        let bound = if self.rtt.is_bound { " at most" } else { "" };
        vec![
            ("between the capture and the sender", duration(self.rtt.sender_ns) + bound),
            ("between both ends", duration(self.rtt.base_ns)),
            ("of it in the silence", duration(self.rtt.known_ns)),
            ("tolerance of an effect", duration(self.trigger_tolerance_ns())),
        ]
    }

    fn acknowledgment(&self) -> Vec<(&'static str, String)> {
        let Some(ack) = self.acks.last else { return vec![("last one in it", "none".into())] };
        vec![
            ("last one in it", format!("frame {}", ack.frame.number())),
            ("without data", yes(ack.pure)),
            ("of all data in flight", yes(ack.acked_all)),
            ("delayed by its receiver", or_unknown(ack.delay_ns.map(duration))),
            ("queued on its way to the capture", duration(self.acks.queued_ns)),
            ("from its effect to the end of the silence", duration(self.after_ack_ns())),
            ("what followed echoes an earlier one", yes(self.acks.unheard)),
            ("released what followed", yes(self.released())),
        ]
    }

    fn flight(&self) -> Vec<(&'static str, String)> {
        let shape = match self.flight.shape {
            Shape::Opening => "grows, or is not known".into(),
            Shape::Ceiling { bytes: height, drained } => {
                let drained = if drained { ", the buffer empty each time" } else { "" };
                format!("stays at {}{drained}", bytes(height))
            }
        };
        vec![
            ("full segment", bytes(self.smss)),
            ("unacknowledged at the beginning", bytes(self.flight.first)),
            ("unacknowledged before the ACK", bytes(self.flight.before)),
            ("congestion window without a loss", bytes(self.flight.cwnd_opened)),
            ("greatest so far", bytes(self.flight.reached)),
            ("height from round to round", shape),
        ]
    }

    fn window(&self) -> Vec<(&'static str, String)> {
        let room = self.window.room.map(|room| format!("{room} B"));
        vec![
            ("offered before the ACK", or_unknown(self.window.bytes.map(bytes))),
            ("room in it", or_unknown(room)),
            ("closed for", duration(self.window.closed_ns)),
            ("has limited this sender before", yes(self.window.limited_before)),
        ]
    }

    fn credit(&self) -> Vec<(&'static str, String)> {
        let Some(credit) = self.credit else { return vec![("used-up window", "none".into())] };
        let of = if credit.is_of_stream { "of the stream" } else { "of the connection" };
        vec![
            ("used-up window", of.into()),
            ("its size", bytes(credit.window_bytes)),
            ("granted by", format!("frame {}", credit.granted.frame.number())),
            (
                "from the effect of the grant to the end of the silence",
                self.after_credit_ns().map_or("not in it".into(), duration),
            ),
        ]
    }

    fn loss(&self) -> Vec<(&'static str, String)> {
        let retransmission = match self.repair.trigger {
            None => "no",
            Some(Recovery::Timer) => "by timer",
            Some(Recovery::Fast) => "by duplicate ACKs",
        };
        vec![
            ("a retransmission ended it", retransmission.into()),
            ("packets lost before the capture", self.losses.missing.count.to_string()),
            ("the sender repairs a loss", yes(self.losses.in_recovery)),
            ("the sender has had a loss", yes(self.losses.occurred)),
        ]
    }

    fn nagle(&self) -> Vec<(&'static str, String)> {
        vec![
            ("small segments that left with an ACK", self.nagle.holds.to_string()),
            ("that left some time after it", self.nagle.missed.to_string()),
            ("that left while another was unacknowledged", self.nagle.refuted.to_string()),
            ("that left so as the end of a larger write", self.nagle.ends_of_writes.to_string()),
            ("that left so with an ACK that was due", self.nagle.with_due_acks.to_string()),
            ("late ACKs that it went on with", self.late_acks.prompt.to_string()),
            ("late ACKs that it went on after", self.late_acks.late.to_string()),
        ]
    }

    fn pace(&self) -> Vec<(&'static str, String)> {
        vec![
            ("may be a step of the sender's pace", yes(self.pace.is_step)),
            ("the link was busy for", duration(self.bottleneck.busy_ns)),
            ("of it without transmitting", duration(self.bottleneck.waits_ns())),
            ("delay of the ACK of what it answers", duration(self.bottleneck.ack_late_ns)),
            (
                "delay of what ended it, by its timestamp",
                duration(self.bottleneck.queue_ns + self.bottleneck.late_ns),
            ),
            ("pause that the writer would have made", duration(self.pace.own_pause_ns)),
        ]
    }
}
