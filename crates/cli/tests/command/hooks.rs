//! The kernel hooks on a path with delay, which the lab makes; they need root.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tcpwhy_live::hooks::{HookKind, Scope, Session};

/// The lab's server sets `SO_SNDBUF` to 16 KiB or more, which the kernel doubles.
const SNDBUF_BYTES: std::ops::RangeInclusive<u32> = 32_768..=262_144;

#[test]
fn a_small_send_buffer_on_a_long_path_makes_the_sender_wait() {
    if !tcpwhy_testing::privileged("the lab and kernel hooks") {
        return;
    }
    let (session, missing) = Session::open(&[HookKind::SndbufWait], &Scope::default());
    assert!(missing.is_empty(), "root can attach the hook: {missing:?}");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_tcpwhy"))
        .args(["lab", "run", "send_buffer", "--no-progress"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the lab runs");
    let pid = lab.id();
    let waits = (0..200).find_map(|_| {
        thread::sleep(Duration::from_millis(100));
        let waits = session.summary().sndbuf_waits;
        waits.into_iter().find(|it| it.pid == pid && it.waits > 20)
    });
    let interrupt = rustix::process::Signal::INT;
    let id = rustix::process::Pid::from_child(&lab);
    // A quick process has ended already.
    let _ = rustix::process::kill_process(id, interrupt);
    lab.wait().expect("it ends");
    let waits = waits.expect("a sender that waits");
    assert!(SNDBUF_BYTES.contains(&waits.sndbuf_bytes), "{waits:?}");
    // Each wait is for an ACK, which takes a round trip of some milliseconds at least.
    assert!(waits.wait_ns / waits.waits > 2_000_000, "{waits:?}");
    assert_eq!(waits.refusals, 0, "{waits:?}");
}
