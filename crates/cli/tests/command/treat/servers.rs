//! Servers of other kinds under a load: fast while they are treated, as slow as before after
//! Ctrl-C, after `kill -9` and an undo, and after an undo by another process.

use super::nginx::{FAST, Load, SLOW, request};
use super::*;
use tcpwhy_lab::capture::CaptureParams;
use tcpwhy_lab::stage::StageParams;
use tcpwhy_lab::{Link, RelayParams, Stage};

/// A server that ends with this.
struct Server(Child);

impl Server {
    /// Starts a program in the namespace, and waits until something listens at `address`; `None`
    /// where it is not installed, which is said.
    fn start(place: &Place, command: &[&str], address: &str) -> Option<Self> {
        if !tcpwhy_testing::installed(command[0]) {
            return None;
        }
        let mut entered = Command::new("ip");
        entered.args(["netns", "exec", &place.name]).args(command);
        entered.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(entered.spawn().expect("ip is installed"));
        let listens = (0..400).any(|_| {
            thread::sleep(Duration::from_millis(50));
            place.inside(|| TcpStream::connect(address).is_ok())
        });
        assert!(listens, "{command:?} listens");
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(&self.0, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Treats a load in each way that a treatment can end, and prints the medians without and with it.
fn there_and_back(
    (place, netns): (&Place, &str),
    load: Load,
    treat: &[&str],
    (slow, fast): (Duration, Duration),
) {
    let time = Duration::from_millis(800);
    let before = load.median(time);
    assert!(before > slow, "{before:?} before");
    let mut best = before;
    let ends = ["Ctrl-C", "kill -9 and undo", "undo of one that runs"];
    for how in ends {
        let mut child = place.treat_in(netns, treat);
        // Requests sent before the change are answered by then.
        thread::sleep(time / 2);
        let treated = load.below(fast, time);
        assert!(treated < fast, "{treated:?} while it is treated");
        best = best.min(treated);
        match how {
            "Ctrl-C" => signal(&child, rustix::process::Signal::INT),
            "kill -9 and undo" => {
                signal(&child, rustix::process::Signal::KILL);
                child.wait().expect("it ends");
                let left = load.below(fast, time);
                assert!(left < fast, "{left:?}: kill -9 leaves it");
                place.json(&["undo", "--all"]);
            }
            _ => assert_eq!(place.json(&["undo", "--all"])["undone"][0]["by_its_process"], true),
        }
        child.wait().expect("it ends");
        assert!(place.journal_is_empty(), "{how}");
        thread::sleep(time / 2);
        let after = load.median(time);
        assert!(after > slow, "{after:?} after {how}");
    }
    assert_eq!(load.end(), 0, "no request failed");
    told(before, best);
}

const JDK: &str = "
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
class Server {
    public static void main(String[] arguments) throws Exception {
        var server = HttpServer.create(new InetSocketAddress(\"127.0.0.1\", 8080), 0);
        server.setExecutor(java.util.concurrent.Executors.newCachedThreadPool());
        server.createContext(\"/\", exchange -> {
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, 500);
            exchange.getResponseBody().write(new byte[500]);
            exchange.close();
        });
        server.start();
    }
}
";

#[test]
fn the_jdks_http_server_is_fast_while_it_is_treated() {
    if !tcpwhy_testing::installed("javac") {
        return;
    }
    let Some(place) = Place::new("jdk") else { return };
    let source = place.folder.join("Server.java");
    fs::write(&source, JDK).expect("a file");
    let source = source.display().to_string();
    let command = ["java", "-Xmx64m", "-XX:+UseSerialGC", &source];
    let Some(server) = Server::start(&place, &command, "127.0.0.1:8080") else { return };
    let load = Load::with(&place.name, 4, "127.0.0.1:8080", request);
    there_and_back((&place, &place.name), load, &["nodelay", "--port", "8080"], (SLOW, FAST));
    drop(server);
}

/// A command in two pieces, as a client writes it that has its header and its value in different
/// buffers.
fn set(stream: &mut TcpStream) -> std::io::Result<Duration> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let began = Instant::now();
    stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100\r\n")?;
    stream.write_all(&[[b'v'; 100].as_slice(), b"\r\n"].concat())?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"+OK\r\n");
    Ok(began.elapsed())
}

#[test]
fn a_client_of_redis_with_nagles_algorithm_is_fast_while_it_is_treated() {
    let Some(place) = Place::new("redis") else { return };
    let command = ["redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", ""];
    let Some(server) = Server::start(&place, &command, "127.0.0.1:6379") else { return };
    let load = Load::with(&place.name, 4, "127.0.0.1:6379", set);
    let treat = ["nodelay", "--port", "6379", "--side", "client"];
    there_and_back((&place, &place.name), load, &treat, (SLOW, FAST));
    drop(server);
}

const TRANSFER_BYTES: usize = 400_000;

/// Asks for a transfer.
fn transfer(stream: &mut TcpStream) -> std::io::Result<Duration> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let began = Instant::now();
    stream.write_all(b"?")?;
    let mut buffer = vec![0; TRANSFER_BYTES];
    stream.read_exact(&mut buffer)?;
    Ok(began.elapsed())
}

/// A listener whose connections have a fixed send buffer.
fn listener_with(address: SocketAddr, sndbuf_bytes: usize) -> std::io::Result<TcpListener> {
    let (kind, protocol) = (socket2::Type::STREAM, Some(socket2::Protocol::TCP));
    let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, protocol)?;
    socket.set_send_buffer_size(sndbuf_bytes)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

#[test]
fn transfers_through_16_kib_of_send_buffer_are_fast_while_it_is_treated() {
    let Some(place) = Place::new("sndbuf") else { return };
    let link = RelayParams::symmetric(20_000_000, 100_000_000, 1);
    let stage = Stage::build(
        StageParams {
            link: Link::Relay(link),
            ipv6: false,
            seed: 1,
            capture: CaptureParams { snaplen_bytes: 96, any: false },
            congestion_control: "cubic",
        },
        None,
    );
    let stage = stage.expect("a stage");
    let address = SocketAddr::new(stage.server_addr, 7070);
    let listener = stage.server.inside(|| listener_with(address, 16 << 10));
    let listener = listener.expect("the namespace").expect("a port");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_nodelay(true).expect("an option");
            thread::spawn(move || {
                let mut asked = [0];
                while stream.read_exact(&mut asked).is_ok() {
                    // Large writes, and those that Nagle's algorithm joins, overshoot the buffer
                    // by a GSO packet of 64 KiB.
                    let pieces = [b'x'; TRANSFER_BYTES];
                    let mut pieces = pieces.chunks(8 << 10);
                    if !pieces.all(|piece| stream.write_all(piece).is_ok()) {
                        break;
                    }
                }
            });
        }
    });
    let load = Load::with(stage.client.name(), 2, &address.to_string(), transfer);
    let treat = ["buffers", "--port", "7070", "--side", "server"];
    // A window of 16 KiB a round trip of 20 ms takes half a second; a full one takes a few trips.
    let bounds = (Duration::from_millis(250), Duration::from_millis(180));
    there_and_back((&place, stage.server.name()), load, &treat, bounds);
}
