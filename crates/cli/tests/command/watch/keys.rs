//! `tcpwhy watch` on a pseudo-terminal.

use super::*;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Both ends of a pseudo-terminal: the user's and the program's.
fn terminal() -> (File, OwnedFd) {
    let (mut user, mut program) = (-1, -1);
    let size = size(60, 12);
    let none = std::ptr::null_mut();
    // SAFETY: it writes two descriptors, which nothing else owns, and reads one `winsize`.
    unsafe {
        let size = (&raw const size).cast_mut();
        assert_eq!(libc::openpty(&raw mut user, &raw mut program, none, none.cast(), size), 0);
        (File::from_raw_fd(user), OwnedFd::from_raw_fd(program))
    }
}

fn size(columns: u16, rows: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Gives the terminal another size.
fn resize(user: &File, columns: u16, rows: u16) {
    let size = size(columns, rows);
    // SAFETY: it reads one `winsize`.
    let result = unsafe { libc::ioctl(user.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(result, 0);
}

/// Local modes of the terminal: whether it echoes, and waits for whole lines.
fn modes(terminal: &OwnedFd) -> libc::tcflag_t {
    // SAFETY: all bytes zero are a valid `termios`, and the call writes one.
    unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &raw mut modes), 0);
        modes.c_lflag
    }
}

/// Ends a watch, by a key or by a signal.
type End = fn(&mut File, &Child);

#[test]
fn keys_are_not_echoed_and_the_terminal_is_restored() {
    let Some(mut place) = Place::new() else { return };
    place.nginx();
    let _load = place.load(NAGLE, 1, Duration::ZERO);
    let ends: [(&str, End); 3] = [
        ("q", |user, _| user.write_all(b"q").expect("typed")),
        ("SIGINT", |_, child| signal(child, rustix::process::Signal::INT)),
        ("SIGTERM", |_, child| signal(child, rustix::process::Signal::TERM)),
    ];
    for (name, end) in ends {
        let (mut user, program) = terminal();
        let before = modes(&program);
        let stream = || Stdio::from(program.try_clone().expect("a descriptor"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.args(["watch", "--netns", &place.name, "--interval", "300ms"]);
        command.env("TERM", "xterm").stdin(stream()).stdout(stream()).stderr(stream());
        let mut child = command.spawn().expect("tcpwhy runs");
        let mut reader = user.try_clone().expect("a descriptor");
        let shown = Arc::new(std::sync::Mutex::new(Vec::new()));
        let copy = Arc::clone(&shown);
        let reading = thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails once no program has the other end.
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                copy.lock().expect("a lock").extend_from_slice(&buffer[..read]);
            }
        });
        let has =
            |text: &str| String::from_utf8_lossy(&shown.lock().expect("a lock")).contains(text);
        wait_for("the cause is shown", || has("nagle_delayed_ack"));
        assert_eq!(modes(&program) & (libc::ECHO | libc::ICANON), 0, "{name}");
        let mut type_keys = |keys: &[u8]| user.write_all(keys).expect("typed");
        type_keys(b"ZZZ ");
        wait_for("it freezes", || has("FROZEN"));
        type_keys(b"?");
        wait_for("the keys are listed", || has("another list"));
        // An arrow as both modes of a terminal send it (xterm's DECCKM).
        type_keys(b"q\x1b[B\x1bOA\r");
        wait_for("details are shown", || has("as of"));
        type_keys(b"q/nosuchrow");
        wait_for("the filter is shown", || has("nosuchrow_"));
        assert!(!has("by urgency"), "{name}: there is no room for titles");
        resize(&user, 100, 30);
        wait_for("the page has the new size", || has("by urgency"));
        // The end may come right behind Esc, as the bytes of Alt with a key.
        user.write_all(b"\x1b").expect("typed");
        end(&mut user, &child);
        wait_for("it ends", || child.try_wait().expect("its status").is_some());
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(1), "{name}");
        assert_eq!(modes(&program), before, "{name}");
        drop((command, program));
        reading.join().expect("read");
        let text = String::from_utf8_lossy(&shown.lock().expect("a lock")).into_owned();
        assert!(!text.contains("ZZZ"), "{name}: {text}");
        let (_, after) = text.split_once("\x1b[?1049l").expect("the screen is left");
        assert!(after.contains("nagle_delayed_ack"), "the report stays: {text}");
    }
}
