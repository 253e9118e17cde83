//! Requests that fail: their clients wait in vain, or they are never acknowledged.

use crate::Hostile;
use crate::tables::{MANY, SERVER, ask, close, courses, host, port};
use crate::wire::{ACK, Client, End, FIN, PSH, Pcap, RST, Server, Talk};

/// Memory that the failures may take, with the connections that are over, bytes.
const FAILURES_BYTES: u64 = 49 << 20;

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\n\r\n";

/// Connections of ever new clients to one server, or of ever new hosts.
fn of_clients(n: u32) -> (End, End) {
    ((host(n), port(n)), (SERVER, 80))
}

fn of_hosts(n: u32) -> (End, End) {
    ((host(n), port(n)), (host(n + 0x100_0000), 80))
}

/// The client leaves without an answer. An answered request before shows what is usual.
pub fn left(n: u32, talk: &mut Talk, pcap: &mut Pcap) {
    ask(n, talk, pcap);
    talk.say(pcap, Client, REQUEST);
    talk.ack(pcap, Server);
    close(talk, pcap);
}

/// The client sends a request three times in vain, after a pause of `idle_ns`, and gives up.
fn never_acknowledged(n: u32, talk: &mut Talk, pcap: &mut Pcap, idle_ns: u64) {
    ask(n, talk, pcap);
    talk.ack(pcap, Client);
    pcap.time_ns += idle_ns;
    for wait_ns in [0, 200_000_000, 400_000_000] {
        pcap.time_ns += wait_ns;
        talk.send_at(pcap, Client, 0, PSH | ACK, b"", REQUEST);
    }
    let ahead = REQUEST.len() as u32;
    talk.send_at(pcap, Client, ahead, FIN | ACK, b"", b"");
    talk.send_at(pcap, Client, ahead + 1, RST, b"", b"");
}

/// The same at once.
fn lost(n: u32, talk: &mut Talk, pcap: &mut Pcap) {
    never_acknowledged(n, talk, pcap, 0);
}

/// The same after two minutes.
fn lost_after_pause(n: u32, talk: &mut Talk, pcap: &mut Pcap) {
    never_acknowledged(n, talk, pcap, 120_000_000_000);
}

/// The server answers that it is overloaded.
fn failed(_: u32, talk: &mut Talk, pcap: &mut Pcap) {
    talk.say(pcap, Client, REQUEST);
    talk.say(pcap, Server, b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    close(talk, pcap);
}

/// The client asks for the address of a data connection.
fn announced(_: u32, talk: &mut Talk, pcap: &mut Pcap) {
    talk.say(pcap, Server, b"220 ready\r\n");
    talk.say(pcap, Client, b"PASV\r\n");
    talk.say(pcap, Server, b"227 Entering Passive Mode (10,0,0,2,4,1)\r\n");
    close(talk, pcap);
}

/// The client sends its second request, and closes, each a second after the last answer.
fn idle(n: u32, talk: &mut Talk, pcap: &mut Pcap) {
    for _ in 0..2 {
        ask(n, talk, pcap);
        talk.ack(pcap, Client);
        pcap.time_ns += 1_000_000_000;
    }
    close(talk, pcap);
}

fn of_ftp(n: u32) -> (End, End) {
    ((host(n), port(n)), (SERVER, 21))
}

pub fn all() -> Vec<Hostile> {
    let all = vec![
        courses("left waiting", MANY, of_clients, left),
        courses("left waiting", MANY, of_clients, left).watched(),
        courses("left waiting by many servers", MANY, of_hosts, left),
        courses("never acknowledged", MANY, of_clients, lost),
        courses("never acknowledged", MANY, of_clients, lost).watched(),
        courses("never acknowledged by many servers", MANY, of_hosts, lost),
        courses("errors of servers", MANY, of_clients, failed),
        courses("announced addresses of FTP", MANY, of_ftp, announced),
        courses("requests after idleness", MANY, of_clients, idle),
        courses("requests after idleness to many servers", MANY, of_hosts, idle),
        courses("never acknowledged after a pause", MANY, of_clients, lost_after_pause),
    ];
    all.into_iter().map(|it| it.within(FAILURES_BYTES)).collect()
}
