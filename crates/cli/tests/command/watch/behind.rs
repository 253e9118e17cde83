//! Packets that a watched host drops after they were captured.

use super::*;
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;

/// The watched server.
const SERVER: &str = "10.79.0.1:80";
/// An address of the client to which the server has no route.
const NO_WAY_BACK: &str = "10.80.0.2:0";

/// Joins two namespaces: 10.79.0.1 at `near` of the server, and 10.79.0.2 at the client.
fn join(server: &Place, client: &Place) {
    let run = |place: &Place, words: &str| {
        ip(&["-n", &place.name].into_iter().chain(words.split(' ')).collect::<Vec<_>>());
    };
    run(server, &format!("link add near type veth peer name far netns {}", client.name));
    run(server, "address add 10.79.0.1/24 dev near");
    run(server, "link set near up");
    run(client, "address add 10.79.0.2/24 dev far");
    run(client, "address add 10.80.0.2/32 dev lo");
    run(client, "link set far up");
}

#[test]
fn the_reverse_path_filter_that_drops_syns_behind_the_capture_is_named() {
    let (Some(server), Some(client)) = (Place::new(), Place::new()) else { return };
    join(&server, &client);
    server.inside(|| {
        for interface in ["all", "near"] {
            let path = format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter");
            std::fs::write(path, "1").expect("root may set it");
        }
    });
    let listener = server.inside(|| TcpListener::bind(SERVER).expect("a port"));
    let answers = thread::spawn(move || {
        for stream in listener.incoming().take(3) {
            let mut stream = stream.expect("a connection");
            let mut request = [0; 4];
            stream.read_exact(&mut request).expect("a request");
            stream.write_all(b"pong").expect("sent");
        }
    });
    let child = server.watch(&["--json", "-i", "near", "--budget", "none"]);
    client.inside(|| {
        for _ in 0..3 {
            let mut stream = TcpStream::connect(SERVER).expect("accepted");
            stream.write_all(b"ping").expect("sent");
            stream.read_exact(&mut [0; 4]).expect("an answer");
        }
        let lost = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let from: SocketAddr = NO_WAY_BACK.parse().expect("an address");
        let to: SocketAddr = SERVER.parse().expect("an address");
        lost.bind(&from.into()).expect("its own address");
        let wait = Duration::from_millis(2_500);
        lost.connect_timeout(&to.into(), wait).expect_err("no way back");
    });
    answers.join().expect("all answered");
    let all = reports(&interrupt(child));
    let finding = faults(&all[all.len() - 1])[0];
    assert_eq!(finding["cause"], "syn_retransmit", "{finding}");
    assert!(finding["facts"]["arrived"].as_u64() >= Some(2), "{finding}");
    let evidence = finding["evidence"].as_array().expect("evidence");
    let state = evidence.iter().find(|it| it["kind"] == "state").expect("what the kernel counts");
    assert_eq!(state["setting"], "dropped", "{finding}");
    let what = state["what"].as_str().expect("text");
    assert!(what.contains("the reverse path filter found no route back"), "{what}");
}
