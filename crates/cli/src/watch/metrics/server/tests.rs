//! Hostile clients beside a client that has to get its answer.

use super::*;
use socket2::{Domain, Socket, Type};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const PAGE: &str = "tcpwhy_sampled_share 1\n";
/// Time after which a wait for an event has failed.
const FAILED: Duration = Duration::from_secs(60);
/// A time limit that no test reaches.
const LONG: Duration = Duration::from_secs(600);

/// Starts a server that shows `page`.
fn serve(page: &str, patience: Duration) -> SocketAddr {
    let mut server = Server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = server.listener.as_ref().unwrap().local_addr().unwrap();
    server.begin_with(patience);
    server.show(page);
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(FAILED)).unwrap();
    stream.set_write_timeout(Some(FAILED)).unwrap();
    stream
}

fn ask(mut stream: TcpStream, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Asserts that the page is served now.
fn is_served(address: SocketAddr) {
    let answer = ask(connect(address), "/metrics");
    assert!(answer.ends_with(PAGE), "{answer}");
}

/// Waits until the server has closed the connection; returns the bytes that came before.
fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => bytes,
    }
}

#[test]
fn the_page_is_served_under_its_path_only() {
    let address = serve(PAGE, LONG);
    assert!(ask(connect(address), "/metrics").ends_with(&format!("\r\n\r\n{PAGE}")));
    assert!(ask(connect(address), "/metrics?name=x").starts_with("HTTP/1.1 200"));
    for path in ["/", "/metricsfoo"] {
        assert!(ask(connect(address), path).starts_with("HTTP/1.1 404"), "{path}");
    }
}

#[test]
fn clients_that_send_byte_by_byte_delay_no_other() {
    let address = serve(PAGE, LONG);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let has_begun: Vec<_> = (0..4)
            .map(|_| {
                let (tell, told) = std::sync::mpsc::channel();
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut slow = connect(address);
                    for byte in b"GET /metrics HTTP/1.1\r\nX-Filler: ".iter().chain([&b'x'; 4_000])
                    {
                        slow.write_all(&[*byte]).unwrap();
                        let _ = tell.send(());
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        thread::sleep(Duration::from_millis(5));
                    }
                });
                told
            })
            .collect();
        has_begun.iter().for_each(|it| it.recv().unwrap());
        is_served(address);
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_time_limit_ends_a_request_that_comes_byte_by_byte() {
    let address = serve(PAGE, Duration::from_millis(200));
    let mut slow = connect(address);
    let began = Instant::now();
    // A write to a connection that the server has closed fails after its RST has come.
    while slow.write_all(b"x").is_ok() {
        assert!(began.elapsed() < FAILED, "it is still open");
        thread::sleep(Duration::from_millis(10));
    }
    // A connection without any byte, too.
    assert_eq!(closed(connect(address)), b"");
}

#[test]
fn a_client_that_does_not_read_delays_no_other_and_is_closed() {
    // Far more than the socket buffers of both ends hold.
    let long = format!("{}{PAGE}", "# filler\n".repeat(16 << 20));
    let address = serve(&long, Duration::from_millis(500));
    let mut slow = connect(address);
    slow.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    // Its answer has begun.
    assert!(matches!(slow.peek(&mut [0]), Ok(1)));
    assert!(ask(connect(address), "/").starts_with("HTTP/1.1 404"));
    thread::sleep(Duration::from_millis(600));
    assert!(closed(slow).len() < long.len());
}

#[test]
fn more_idle_clients_than_are_allowed_displace_each_other_and_no_scrape() {
    let address = serve(PAGE, LONG);
    let count = 4 * CLIENTS_MAX;
    let mut idle: Vec<_> = (0..count).map(|_| connect(address)).collect();
    is_served(address);
    // The server accepts in order, so all idle clients were accepted before the answer came.
    let newest = idle.split_off(count - CLIENTS_MAX);
    idle.into_iter().for_each(|it| assert_eq!(closed(it), b""));
    // The scrape has displaced one more, unless it ended before that.
    newest.into_iter().skip(1).for_each(|it| assert!(ask(it, "/metrics").ends_with(PAGE)));
}

#[test]
fn clients_of_one_address_displace_none_of_another() {
    let address = serve(PAGE, LONG);
    let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let own: SocketAddr = "127.0.0.2:0".parse().unwrap();
    if other.bind(&own.into()).is_err() {
        tcpwhy_testing::skip_in_ci_too("no second loopback address");
        return;
    }
    other.connect(&address.into()).unwrap();
    let mut other = TcpStream::from(other);
    other.set_read_timeout(Some(FAILED)).unwrap();
    other.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let idle: Vec<_> = (0..2 * CLIENTS_MAX).map(|_| connect(address)).collect();
    is_served(address);
    other.write_all(b"\r\n").unwrap();
    let answer = closed(other);
    assert!(answer.ends_with(PAGE.as_bytes()), "{}", String::from_utf8_lossy(&answer));
    drop(idle);
}

#[test]
fn a_head_that_does_not_end_is_refused() {
    let address = serve(PAGE, LONG);
    let mut long = connect(address);
    let sent = long.write_all(&[b"GET / HTTP/1.1\r\nX: ", &[b'x'; 64 << 10][..]].concat());
    sent.unwrap();
    long.shutdown(Shutdown::Write).unwrap();
    let answer = closed(long);
    assert!(answer.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&answer));
    is_served(address);
}
