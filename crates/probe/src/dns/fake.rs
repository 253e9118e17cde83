//! Name servers for tests: each answers over UDP, and over TCP if it truncates answers, as
//! configured.

use std::io::{self, Read, Write};
use std::iter;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType, rdata};

/// The behaviour of a server.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// The names that exist; each has one A record and no AAAA record.
    pub names: Vec<&'static str>,
    /// Time before each answer.
    pub delay: Duration,
    /// Time before the first answer about each name if it is longer than `delay`: a cache then has
    /// to fetch the record.
    pub first_delay: Duration,
    /// Types of queries that are never answered.
    pub ignores: Vec<RecordType>,
    /// A type that is answered only if the query is not one of a pair.
    pub ignores_in_pairs: Option<RecordType>,
    /// The response code of all answers, if it is not success.
    pub rcode: Option<ResponseCode>,
    /// `true` if answers over UDP are truncated.
    pub truncates: bool,
    /// `true` if the TCP port is closed.
    pub refuses_tcp: bool,
    /// `true` if the TTL counts down from 60 s as that of a cache.
    pub counts_down: bool,
    /// A zone to which answers refer, with one server at 127.0.0.1.
    pub refers_to: Option<&'static str>,
}

/// Starts what listens at a port that the kernel chooses, until the port is free for all that it needs.
pub fn free<T>(start: impl Fn() -> io::Result<T>) -> T {
    iter::repeat_with(start).take(100).find_map(Result::ok).expect("a free port")
}

/// A name server that runs until it is dropped.
pub struct Fake {
    pub at: SocketAddr,
    stop: Arc<AtomicBool>,
    questions: Arc<AtomicU32>,
    threads: Vec<JoinHandle<()>>,
}

impl Fake {
    pub fn start(behaviour: Behaviour) -> Fake {
        free(|| Fake::start_at("127.0.0.1:0".parse().unwrap(), behaviour.clone()))
    }

    /// Fails if the port is in use for TCP or for UDP; a port that the kernel chooses may be so for UDP.
    pub fn start_at(at: SocketAddr, behaviour: Behaviour) -> io::Result<Fake> {
        let tcp = TcpListener::bind(at)?;
        let at = tcp.local_addr()?;
        let udp = Arc::new(UdpSocket::bind(at)?);
        udp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let (stop, questions) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let server =
            Arc::new(Server { behaviour, began: Instant::now(), answered: AtomicU32::new(0) });
        let by_udp = {
            let (stop, questions) = (stop.clone(), questions.clone());
            let server = server.clone();
            thread::spawn(move || {
                let mut last = (0, Instant::now());
                while !stop.load(Ordering::Relaxed) {
                    let mut bytes = [0; 2_048];
                    let Ok((length, from)) = udp.recv_from(&mut bytes) else { continue };
                    questions.fetch_add(1, Ordering::Relaxed);
                    let is_second =
                        last.0 == from.port() && last.1.elapsed() < Duration::from_millis(20);
                    last = (from.port(), Instant::now());
                    let (udp, server) = (udp.clone(), server.clone());
                    let question = bytes[..length].to_vec();
                    thread::spawn(move || {
                        if let Some(answer) = server.answer(&question, true, is_second) {
                            let _ = udp.send_to(&answer, from);
                        }
                    });
                }
            })
        };
        let by_tcp = {
            let stop = stop.clone();
            thread::spawn(move || {
                let tcp = (!server.behaviour.refuses_tcp).then_some(tcp);
                while let Some(tcp) = tcp.as_ref().filter(|_| !stop.load(Ordering::Relaxed)) {
                    let Ok((mut stream, _)) = tcp.accept() else {
                        thread::sleep(Duration::from_millis(2));
                        continue;
                    };
                    stream.set_nonblocking(false).unwrap();
                    let mut length = [0; 2];
                    if stream.read_exact(&mut length).is_err() {
                        continue;
                    }
                    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut question).unwrap();
                    if let Some(answer) = server.answer(&question, false, false) {
                        let length = (answer.len() as u16).to_be_bytes();
                        stream.write_all(&[&length[..], &answer].concat()).unwrap();
                    }
                }
            })
        };
        Ok(Fake { at, stop, questions, threads: vec![by_udp, by_tcp] })
    }

    /// Returns the number of queries that arrived over UDP.
    pub fn questions(&self) -> u32 {
        self.questions.load(Ordering::Relaxed)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|it| it.join().unwrap());
    }
}

struct Server {
    behaviour: Behaviour,
    began: Instant,
    answered: AtomicU32,
}

impl Server {
    fn answer(&self, question: &[u8], is_udp: bool, is_second: bool) -> Option<Vec<u8>> {
        let behaviour = &self.behaviour;
        let mut message = Message::from_vec(question).ok()?;
        let query = message.query()?.clone();
        let record_type = query.query_type();
        let in_pairs = behaviour.ignores_in_pairs == Some(record_type) && is_second;
        if behaviour.ignores.contains(&record_type) || in_pairs {
            return None;
        }
        let is_first = self.answered.fetch_add(1, Ordering::Relaxed) < 2;
        thread::sleep(if is_first { behaviour.first_delay } else { Duration::ZERO });
        thread::sleep(behaviour.delay);
        message.set_message_type(MessageType::Response);
        let name = query.name().to_string();
        let exists = behaviour.names.contains(&name.trim_end_matches('.'));
        let ttl_s =
            60 - if behaviour.counts_down { self.began.elapsed().as_secs() as u32 } else { 0 };
        if let Some(zone) = behaviour.refers_to {
            let server = Name::from_ascii("ns.lab.").ok()?;
            let zone = Name::from_ascii(format!("{zone}.")).ok()?;
            message.add_name_server(Record::from_rdata(
                zone,
                60,
                RData::NS(rdata::NS(server.clone())),
            ));
            let glue = RData::A(rdata::A(Ipv4Addr::LOCALHOST));
            message.add_additional(Record::from_rdata(server, 60, glue));
        } else if let Some(rcode) = behaviour.rcode {
            message.set_response_code(rcode);
        } else if behaviour.truncates && is_udp {
            message.set_truncated(true);
        } else if !exists {
            message.set_response_code(ResponseCode::NXDomain);
        } else if record_type == RecordType::A {
            let data = RData::A(rdata::A(Ipv4Addr::new(192, 0, 2, 7)));
            message.add_answer(Record::from_rdata(query.name().clone(), ttl_s, data));
        }
        message.to_vec().ok()
    }
}
