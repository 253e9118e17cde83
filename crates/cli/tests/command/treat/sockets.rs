//! Options of the sockets of this process, set and restored.

use super::*;

#[test]
fn each_socket_gets_back_what_it_had_and_what_others_changed_is_left_alone() {
    let Some(place) = Place::new("values") else { return };
    let (_listener, mut all) = connected(&place, 5);
    all[0].0.set_nodelay(true).expect("an option");
    let plan = place.json(&["nodelay", "--port", "7070", "--netns", &place.name, "--dry-run"]);
    assert_eq!((&plan["counts"]["changed"], &plan["counts"]["had_it"]), (&9.into(), &1.into()));
    assert!(!all[1].0.nodelay().expect("an option"), "a plan changes nothing");
    assert!(place.journal_is_empty());

    let mut child = place.treat(&["nodelay", "--port", "7070", "--keep"]);
    assert!(child.wait().expect("it ends").success());
    assert!(all.iter().all(|(one, other)| one.nodelay().unwrap() && other.nodelay().unwrap()));
    all[2].0.set_nodelay(false).expect("an option");
    drop(all.pop());
    let undone = &place.json(&["undo", "--all"])["undone"][0].clone();
    assert_eq!(undone["failed"], Value::Array(Vec::new()));
    assert_eq!(undone["gone"], 2, "a connection that has closed: {undone}");
    assert!(all[0].0.nodelay().unwrap(), "it was on before");
    let rest = all.iter().flat_map(|(one, other)| [one, other]).skip(1);
    assert!(rest.into_iter().all(|stream| !stream.nodelay().unwrap()));
    assert!(place.journal_is_empty());
}

#[test]
fn a_congestion_control_is_set_and_after_a_kill_restored() {
    let Some(place) = Place::new("control") else { return };
    let (_listener, all) = connected(&place, 2);
    let control = |stream: &TcpStream| {
        let name = socket2::SockRef::from(stream).tcp_congestion().expect("an option");
        String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
    };
    let before = control(&all[0].0);
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.expect("a kernel with TCP");
    let mut others = available.split_whitespace().filter(|&name| name != before);
    let Some(other) = others.next() else {
        tcpwhy_testing::skip_in_ci_too("the kernel has one congestion control only");
        return;
    };
    let mut child = place.treat(&["congestion-control", other, "--port", "7070"]);
    assert!(all.iter().all(|(one, two)| control(one) == other && control(two) == other));
    socket2::SockRef::from(&all[0].0).set_tcp_congestion(before.as_bytes()).expect("an option");
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    let undone = &place.json(&["undo", "1"])["undone"][0].clone();
    assert_eq!((&undone["restored"], &undone["gone"]), (&4.into(), &0.into()), "{undone}");
    assert!(all.iter().all(|(one, two)| control(one) == before && control(two) == before));
    let unknown = place.run(&["congestion-control", "nosuch", "--port", "7070"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("modprobe tcp_nosuch"));
}

#[test]
fn buffers_are_unlocked_or_fixed_and_locked_again_as_they_were() {
    let Some(place) = Place::new("buffers") else { return };
    let (listener, all) = connected(&place, 1);
    let (client, server) = &all[0];
    let of = |stream: &TcpStream| socket2::SockRef::from(stream).send_buffer_size().unwrap();
    socket2::SockRef::from(server).set_send_buffer_size(16 << 10).expect("an option");
    let (fixed, free) = (of(server), of(client));
    let filled = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(bytes) = (&mut &*stream).write(&[0; 65_536]) {
            sent += bytes;
        }
        sent
    };
    let arguments = ["buffers", "--port", "7070", "--side", "server"];
    let child = place.treat(&[&arguments[..], &["--sndbuf", "1M"]].concat());
    assert_eq!((of(server), of(client)), (2 << 20, free));
    let _new = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
    let (new, _) = listener.accept().expect("a connection");
    // Listing comes round every 100 ms, on an idle machine.
    let found = (0..1_000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        of(&new) == 2 << 20
    });
    assert!(found, "a connection that opens meanwhile is found by listing");
    end(child);
    assert!(of(&new) != 2 << 20);
    assert_eq!(of(server), fixed);
    let child = place.treat(&arguments);
    let status = place.json(&["status"]);
    let change = &status["treatments"][0]["changes"][0];
    assert_eq!(change["before"]["buffers"]["sndbuf_locked"], true);
    assert_eq!(change["set"]["buffers"]["sndbuf_locked"], false);
    filled(server);
    end(child);
    assert_eq!(of(server), fixed, "whatever the kernel made of it meanwhile");
    let plan = place.json(&[&arguments[..], &["--dry-run", "--netns", &place.name]].concat());
    assert_eq!(plan["changes"][0]["before"]["buffers"]["sndbuf_locked"], true, "locked again");
}

#[test]
fn a_size_that_the_application_sets_meanwhile_is_left_alone() {
    let Some(place) = Place::new("resized") else { return };
    let (_listener, all) = connected(&place, 2);
    let of = |stream: &TcpStream| socket2::SockRef::from(stream).send_buffer_size().unwrap();
    let set =
        |stream: &TcpStream| socket2::SockRef::from(stream).set_send_buffer_size(64 << 10).unwrap();
    let before = of(&all[1].1);
    let arguments = ["buffers", "--port", "7070", "--side", "server", "--sndbuf", "1M", "--keep"];
    let mut child = place.treat(&arguments);
    assert!(child.wait().expect("it ends").success());
    set(&all[0].1);
    let undone = &place.json(&["undo", "--all"])["undone"][0].clone();
    let others = undone["changed_meanwhile"].as_array().map(Vec::len);
    assert_eq!((&undone["restored"], others), (&1.into(), Some(1)), "{undone}");
    assert_eq!((of(&all[0].1), of(&all[1].1)), (128 << 10, before));
}

#[test]
fn a_thousand_connections_are_treated_and_restored() {
    let Some(place) = Place::new("thousand") else { return };
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("root may");
    let (_listener, all) = connected(&place, 1_000);
    // Other tests may need the processors: the best of three.
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        let child = place.treat(&["nodelay", "--port", "7070", "--side", "server"]);
        best = best.min(began.elapsed());
        assert!(all.iter().all(|(_, server)| server.nodelay().unwrap()));
        end(child);
        assert!(all.iter().all(|(_, server)| !server.nodelay().unwrap()));
    }
    // The time is measured by bench/treat.sh, on a machine without other work.
    println!("figure: 1,000 connections were treated in {best:.0?}");
}

#[test]
fn a_connection_that_waits_to_be_accepted_is_restored_too() {
    let Some(place) = Place::new("queue") else { return };
    let (listener, _all) = connected(&place, 1);
    let own = std::process::id().to_string();
    let child = place.treat(&["nodelay", "--pid", &own]);
    let _client = place.inside(|| TcpStream::connect("127.0.0.1:7070").expect("a connection"));
    // Longer than the sockets are left without a look.
    thread::sleep(Duration::from_millis(1_300));
    let (server, _) = listener.accept().expect("a connection");
    assert!(server.nodelay().unwrap(), "treated as it opened");
    thread::sleep(Duration::from_millis(300));
    end(child);
    assert!(!server.nodelay().unwrap());
}

#[test]
fn no_connection_is_missed_that_opens_while_the_treatment_begins() {
    let Some(place) = Place::new("storm") else { return };
    let (listener, _all) = connected(&place, 1);
    let ending = std::sync::atomic::AtomicBool::new(false);
    let is_over = || ending.load(std::sync::atomic::Ordering::Relaxed);
    let open = || {
        let mut open = Vec::new();
        while !is_over() && open.len() < 20_000 {
            let client = TcpStream::connect("127.0.0.1:7070").expect("a connection");
            open.push((client, listener.accept().expect("a connection").0));
            thread::sleep(Duration::from_micros(500));
        }
        open
    };
    let (child, pairs) = thread::scope(|scope| {
        let storm = scope.spawn(|| place.inside(open));
        thread::sleep(Duration::from_millis(300));
        let child = place.treat(&["nodelay", "--port", "7070", "--side", "server"]);
        thread::sleep(Duration::from_millis(300));
        ending.store(true, std::sync::atomic::Ordering::Relaxed);
        (child, storm.join().expect("connections"))
    });
    let treated = || {
        let has_it = |stream: &TcpStream| stream.nodelay().expect("an option");
        pairs.iter().filter(|(_, server)| has_it(server)).count()
    };
    // A connection that is accepted between two looks is found by the next look.
    let is_whole = (0..20).any(|_| {
        thread::sleep(Duration::from_millis(100));
        treated() == pairs.len()
    });
    println!(
        "figure: {} of {} connections that opened meanwhile are treated",
        treated(),
        pairs.len()
    );
    assert!(is_whole && pairs.len() > 100, "{} of {}", treated(), pairs.len());
    end(child);
    assert_eq!(treated(), 0, "of {}", pairs.len());
}
