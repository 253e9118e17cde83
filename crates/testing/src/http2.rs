//! Frames of HTTP/2 (RFC 9113 §4.1), and a server that is written frame by frame: it can answer as no
//! server does.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Types of frames (RFC 9113 §6).
pub const DATA: u8 = 0;
/// See [`DATA`].
pub const HEADERS: u8 = 1;
/// See [`DATA`].
pub const RST_STREAM: u8 = 3;
/// See [`DATA`].
pub const SETTINGS: u8 = 4;
/// See [`DATA`].
pub const GOAWAY: u8 = 7;
/// See [`DATA`].
pub const WINDOW_UPDATE: u8 = 8;
/// See [`DATA`].
pub const CONTINUATION: u8 = 9;
/// Flags: `END_STREAM` and `END_HEADERS`.
pub const WHOLE: u8 = 5;
/// `:status: 200` (RFC 7541, appendix A).
pub const OK: &[u8] = &[0x88];

/// Returns a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns an answer without a body.
pub fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, OK)
}

/// Starts a server with prior knowledge that permits `streams` at once. For the request on a stream, with
/// its number on the connection, it sends what `answer` returns, one after the other. Returns its
/// address, and the numbers of connections and requests.
///
/// # Panics
/// If no port is free.
pub fn serve(
    streams: u32,
    answer: impl Fn(u32, u32) -> Vec<u8> + Send + Sync + 'static,
) -> (SocketAddr, Arc<[AtomicU64; 2]>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (answer, counts) = (Arc::new(answer), Arc::new([const { AtomicU64::new(0) }; 2]));
    let counted = counts.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted[0].fetch_add(1, Ordering::SeqCst);
            let (answer, counted) = (answer.clone(), counted.clone());
            // A client that leaves ends it.
            thread::spawn(move || converse(stream, streams, &*answer, &counted[1]));
        }
    });
    (address, counts)
}

fn converse(
    mut stream: TcpStream,
    streams: u32,
    answer: &dyn Fn(u32, u32) -> Vec<u8>,
    requests: &AtomicU64,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let limit = [&[0, 3][..], &streams.to_be_bytes()].concat();
    stream.write_all(&frame(SETTINGS, 0, 0, &limit))?;
    stream.read_exact(&mut [0; 24])?;
    let mut number = 0;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        io::copy(&mut (&stream).take(length.into()), &mut io::sink())?;
        match (head[3], head[4]) {
            (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, 1, 0, &[]))?,
            (HEADERS, _) => {
                number += 1;
                requests.fetch_add(1, Ordering::SeqCst);
                let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                stream.write_all(&answer(id, number))?;
            }
            _ => {}
        }
    }
}
