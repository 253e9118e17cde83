//! The process with rights: waits for requests, compares each with what is permitted, and does it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use serde::Serialize;
use tcpwhy_host::{AuditedNamespace, audit};
use tcpwhy_live::process::Ports;
use tcpwhy_live::sample::Sample;
use tcpwhy_live::sockets::{Selection, Survey, Where, survey};
use tcpwhy_live::sys::packet::packet_socket;

use crate::channel::{Channel, document, read};
use crate::protocol::{Answer, Protocol, Request};
use crate::watching::Watching;
use crate::{Permitted, Watched};

/// Sample time of an audit. The counters of a measurement that is over need not grow.
const SAMPLE: Duration = Duration::from_millis(200);

/// Answers requests until the other end is closed or sends what is no request.
pub fn serve(channel: &Channel, permitted: Permitted) {
    let mut work = Work { permitted, places: BTreeSet::new(), ports: None, watching: None };
    while let Ok(Some(received)) = channel.receive::<Request>() {
        let (answer, descriptor) = work.done(received.message, received.descriptor, channel);
        if channel.send(&answer, descriptor.as_ref()).is_err() {
            break;
        }
    }
}

/// An answer with its descriptor, or why there is none.
type Done = Result<(Answer, Option<OwnedFd>), Answer>;

struct Work {
    permitted: Permitted,
    /// Namespaces in which a socket has the server's port as its own, as they were listed last.
    places: BTreeSet<Option<String>>,
    ports: Option<Ports>,
    watching: Option<Watching>,
}

impl Work {
    fn done(
        &mut self,
        request: Request,
        report: Option<OwnedFd>,
        channel: &Channel,
    ) -> (Answer, Option<OwnedFd>) {
        let done = match request {
            Request::PacketSocket => self.packet_socket(),
            Request::RawSocket { is_ipv4, protocol } => self.raw_socket(is_ipv4, protocol),
            Request::Connection { local_port } => self.connection(local_port),
            Request::Server => self.server(),
            Request::Audit { netns } => self.audit(netns, report),
            Request::Ports => self.ports(),
            Request::Attach => self.watching().map(|it| (Answer::Attached(it.missing()), None)),
            Request::Look { follow, witness, drops } => {
                self.look((follow, witness), drops, channel)
            }
        };
        done.unwrap_or_else(|refused| (refused, None))
    }

    fn packet_socket(&self) -> Done {
        permit(self.permitted.packets)?;
        Ok((Answer::Socket, Some(packet_socket()?)))
    }

    fn raw_socket(&self, is_ipv4: bool, protocol: Protocol) -> Done {
        permit(self.permitted.probes)?;
        let (family, protocol) = match (is_ipv4, protocol) {
            (true, Protocol::Tcp) => (AddressFamily::INET, ipproto::TCP),
            (true, Protocol::Icmp) => (AddressFamily::INET, ipproto::ICMP),
            (false, Protocol::Tcp) => (AddressFamily::INET6, ipproto::TCP),
            (false, Protocol::Icmp) => (AddressFamily::INET6, ipproto::ICMPV6),
        };
        let socket = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol));
        Ok((Answer::Socket, Some(socket.map_err(io::Error::from)?)))
    }

    fn connection(&self, local_port: u16) -> Done {
        let server_port = self.server_port()?;
        let mut found = everywhere(local_port)?;
        found.sockets.retain(|it| {
            it.peer.is_some_and(|peer| {
                let ports = [it.local, peer].map(|end| end.port());
                ports == [local_port, server_port] || ports == [server_port, local_port]
            })
        });
        to_document(&found)
    }

    fn server(&mut self) -> Done {
        let server_port = self.server_port()?;
        let found = everywhere(server_port)?;
        let serving = found.sockets.iter().filter(|it| it.local.port() == server_port);
        self.places = serving.map(|it| it.netns.clone()).collect();
        to_document(&found)
    }

    fn audit(&self, netns: Option<String>, report: Option<OwnedFd>) -> Done {
        permit(self.places.contains(&netns))?;
        let report = read(report.ok_or_else(|| Answer::refused("a report is missing"))?)?;
        let place = netns.map_or(AuditedNamespace::Here, AuditedNamespace::Named);
        let audit = audit(&place, SAMPLE, Some(&report)).map_err(Answer::refused)?;
        to_document(&audit.entries)
    }

    fn server_port(&self) -> Result<u16, Answer> {
        self.permitted.server_port.ok_or_else(not_permitted)
    }

    fn ports(&mut self) -> Done {
        let Some((pid, netns)) = &self.permitted.ports else { return Err(not_permitted()) };
        let has_changed = match &mut self.ports {
            Some(ports) => ports.read_again(),
            first => {
                *first = Some(Ports::open(*pid, netns).map_err(Answer::refused)?);
                true
            }
        };
        let ranges = self.ports.as_ref().filter(|_| has_changed).map(Ports::ranges);
        Ok((Answer::Ports(ranges), None))
    }

    fn watching(&mut self) -> Result<&mut Watching, Answer> {
        let Some(Watched { netns, pid, part }) = &self.permitted.watched else {
            return Err(not_permitted());
        };
        let begin = || Watching::begin(netns.clone(), *pid, *part);
        Ok(self.watching.get_or_insert_with(begin))
    }

    fn look(
        &mut self,
        (follow, witness): (Option<Sample>, Option<Sample>),
        drops: bool,
        channel: &Channel,
    ) -> Done {
        let watching = self.watching()?;
        let wait = |pause| channel.wait(pause).unwrap_or(true);
        watching.follow(follow, wait);
        if let Some(sample) = witness {
            watching.witness(sample, wait);
        }
        let read = watching.read(drops).map_err(Answer::refused)?;
        to_document(&read)
    }
}

/// Surveys the sockets with this port, in all namespaces if that is allowed.
fn everywhere(port: u16) -> Result<Survey, Answer> {
    let read = |place| survey(&Selection { place, port: Some(port), ..Selection::default() });
    // Only root may look into other namespaces.
    read(Where::All).or_else(|_| read(Where::Here)).map_err(Answer::refused)
}

fn to_document(value: &impl Serialize) -> Done {
    let bytes = serde_json::to_vec(value).map_err(Answer::refused)?;
    Ok((Answer::Document, Some(document(&bytes)?)))
}

fn permit(is_permitted: bool) -> Result<(), Answer> {
    if is_permitted { Ok(()) } else { Err(not_permitted()) }
}

fn not_permitted() -> Answer {
    Answer::Refused {
        os_error: None,
        why: "what was asked for is not among what the command line names".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Helper;
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use tcpwhy_core::model::Cause;

    /// Serves on a thread of this process.
    fn served(permitted: Permitted) -> Helper {
        let (own, other) = Channel::pair().unwrap();
        thread::spawn(move || serve(&other, permitted));
        Helper::at(own)
    }

    #[test]
    fn nothing_is_done_that_is_not_permitted() {
        let all = [
            Request::PacketSocket,
            Request::RawSocket { is_ipv4: true, protocol: Protocol::Tcp },
            Request::RawSocket { is_ipv4: false, protocol: Protocol::Icmp },
            Request::Connection { local_port: 1 },
            Request::Server,
            Request::Audit { netns: None },
            Request::Ports,
            Request::Attach,
            Request::Look { follow: None, witness: Some(Sample::all()), drops: true },
        ];
        let (own, other) = Channel::pair().unwrap();
        thread::spawn(move || serve(&other, Permitted::default()));
        for request in all {
            own.send(&request, None).unwrap();
            let received = own.receive::<Answer>().unwrap().unwrap();
            assert_eq!(received.message, not_permitted(), "{request:?}");
            assert!(received.descriptor.is_none());
        }
        own.send(&"no request", None).unwrap();
        assert!(own.receive::<Answer>().unwrap().is_none(), "it has ended");
    }

    #[test]
    fn only_sockets_of_the_server_are_shown() {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let port = |it: &TcpListener| it.local_addr().unwrap().port();
        let (server, stranger) = (listen(), listen());
        let connections = [&server, &stranger].map(|it| {
            let client = TcpStream::connect(it.local_addr().unwrap()).unwrap();
            (client.local_addr().unwrap().port(), it.accept().unwrap(), client)
        });
        let server_port = port(&server);
        let helper = served(Permitted { server_port: Some(server_port), ..Permitted::default() });
        let shown = |local_port| helper.connection(local_port).unwrap().sockets.len();
        assert_eq!(connections.each_ref().map(|it| shown(it.0)), [2, 0]);
        let all = helper.server().unwrap().sockets;
        let has_it = |it: &tcpwhy_core::state::Socket| {
            it.local.port() == server_port || it.peer.is_some_and(|at| at.port() == server_port)
        };
        assert!(all.len() >= 3 && all.iter().all(has_it));
    }

    #[test]
    fn an_audit_is_of_a_namespace_that_was_shown() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server_port = Some(listener.local_addr().unwrap().port());
        let helper = served(Permitted { server_port, ..Permitted::default() });
        let finding = serde_json::json!({
            "cause": Cause::SlowStart.id(),
            "headline": "slow",
            "culprit": {"role": "server", "endpoint": listener.local_addr().unwrap()},
            "connection": null,
        });
        let report = serde_json::json!({"schema_version": 1, "findings": [finding]}).to_string();
        let audit = |netns| helper.audit(netns, report.as_bytes());
        assert!(audit(None).is_err(), "no namespace was shown yet");
        helper.server().unwrap();
        assert!(audit(Some("another")).is_err());
        let entries = audit(None).unwrap();
        assert!(!entries.is_empty() && entries.iter().all(|it| !it.check.is_empty()));
        assert!(helper.audit(None, b"no report").is_err());
    }

    #[test]
    fn the_ports_of_a_process_are_told_when_they_change() {
        let own = (std::process::id(), tcpwhy_live::netns::Netns::own());
        let helper = served(Permitted { ports: Some(own), ..Permitted::default() });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ask = || {
            helper.ask(&Request::Ports).unwrap();
            helper.ports(Duration::from_secs(10)).unwrap().expect("an answer")
        };
        let has_port =
            |ranges: Vec<(u16, u16)>| ranges.iter().any(|&(from, to)| (from..=to).contains(&port));
        assert!(ask().is_some_and(has_port));
        drop(listener);
        // Other tests open and close ports of this process.
        assert!((0..100).any(|_| ask().is_some()));
    }
}
