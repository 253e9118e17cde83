//! A client of request-and-response protocols other than HTTP: PostgreSQL and Redis.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use crate::client::{self, Loaded, Request};
use crate::error::LabError;
use crate::netns::Netns;
use crate::sys;

/// Messages that are sent on each of several concurrent connections.
#[derive(Debug, Clone)]
pub struct Talk {
    /// Address of the server.
    pub server: SocketAddr,
    /// Number of connections.
    pub connections: u64,
    /// Messages in order; each waits for the answer to the previous one.
    pub messages: Vec<Vec<u8>>,
    /// Pause between an answer and the next message.
    pub spacing: Duration,
    /// Returns whether the received bytes are a complete answer.
    pub is_whole: fn(&[u8]) -> bool,
}

/// Runs the load from inside the client's namespace.
///
/// # Errors The namespace cannot be entered. Failed requests are results, not errors.
pub fn run(netns: &Netns, talk: &Talk) -> Result<Loaded, LabError> {
    netns.inside(|| {
        let each = thread::scope(|scope| {
            // A new thread is in the namespace of the thread that starts it.
            let start = |_| scope.spawn(|| one_connection(talk));
            let workers: Vec<_> = (0..talk.connections).map(start).collect();
            workers.into_iter().filter_map(|w| w.join().ok()).collect::<Vec<_>>()
        });
        let mut all = Loaded::default();
        for one in each {
            all.requests.extend(one.requests);
            all.kernel.add(&one.kernel);
        }
        all.requests.sort_by_key(|r| r.start_ns);
        all
    })
}

fn one_connection(talk: &Talk) -> Loaded {
    let mut loaded = Loaded::default();
    let mut stream = None;
    for (number, message) in talk.messages.iter().enumerate() {
        if number > 0 {
            thread::sleep(talk.spacing);
        }
        let mut request = Request {
            start_ns: sys::realtime_ns(),
            server_endpoint: talk.server.to_string(),
            request_bytes: message.len() as u64,
            ..Default::default()
        };
        let result = exchange(talk, &mut stream, message, &mut request);
        request.end_ns = sys::realtime_ns();
        request.error = result.err().map(|e| client::why(&e));
        let failed = request.error.is_some();
        loaded.requests.push(request);
        if failed {
            break;
        }
    }
    if let Some(stream) = stream {
        loaded.kernel.add(&sys::tcp_info(stream.as_fd()));
    }
    loaded
}

fn exchange(
    talk: &Talk,
    stream: &mut Option<TcpStream>,
    message: &[u8],
    request: &mut Request,
) -> io::Result<()> {
    let stream = match stream {
        Some(stream) => stream,
        None => {
            let new = TcpStream::connect(talk.server)?;
            request.connect_ns = sys::realtime_ns() - request.start_ns;
            new.set_nodelay(true)?;
            new.set_read_timeout(Some(Duration::from_secs(30)))?;
            stream.insert(new)
        }
    };
    request.client_endpoint = stream.local_addr()?.to_string();
    stream.write_all(message)?;
    let (mut answer, mut chunk) = (Vec::new(), [0; 16_384]);
    while !(talk.is_whole)(&answer) {
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => answer.extend(&chunk[..n]),
        }
    }
    request.response_bytes = answer.len() as u64;
    Ok(())
}

/// Returns a PostgreSQL start-up message for the user and database `postgres`, protocol 3.0.
pub fn postgres_startup() -> Vec<u8> {
    let mut message = vec![0, 0, 0, 0, 0, 3, 0, 0];
    message.extend(b"user\0postgres\0database\0postgres\0\0");
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_be_bytes());
    message
}

/// Returns a PostgreSQL simple query.
pub fn postgres_query(sql: &str) -> Vec<u8> {
    let mut message = vec![b'Q'];
    message.extend((sql.len() as u32 + 5).to_be_bytes());
    message.extend(sql.as_bytes());
    message.push(0);
    message
}

/// Returns whether PostgreSQL is ready for the next query (`ReadyForQuery`).
pub fn postgres_is_whole(answer: &[u8]) -> bool {
    let mut rest = answer;
    while let [kind, a, b, c, d, ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize + 1;
        if *kind == b'Z' {
            return rest.len() >= length;
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

/// Returns a Redis command.
pub fn redis_command(words: &[&str]) -> Vec<u8> {
    let mut message = format!("*{}\r\n", words.len());
    for word in words {
        message += &format!("${}\r\n{word}\r\n", word.len());
    }
    message.into_bytes()
}

/// Returns whether a Redis reply is complete; replies to the lab's commands are single lines or
/// flat arrays.
pub fn redis_is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let length = |line: &str| line.get(1..).and_then(|n| n.parse::<i64>().ok()).unwrap_or(-1);
    let mut lines = text.split_inclusive('\n').filter(|l| l.ends_with("\r\n")).map(str::trim_end);
    let Some(first) = lines.next() else {
        return false;
    };
    let after = lines.count() as i64;
    match first.as_bytes().first() {
        Some(b'$') => length(first) < 0 || after >= 1,
        Some(b'*') => after >= 2 * length(first),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_at_its_last_byte() {
        let redis: [&[u8]; 5] = [b"+OK\r\n", b"$2\r\nab\r\n", b"$-1\r\n", b"*-1\r\n", b":1\r\n"];
        for whole in redis {
            assert!(redis_is_whole(whole));
            assert!(!redis_is_whole(&whole[..whole.len() - 1]));
        }
        let postgres = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
        assert!(postgres_is_whole(postgres));
        assert!(!postgres_is_whole(&postgres[..postgres.len() - 1]));
    }
}
