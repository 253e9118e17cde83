//! Treatments and the objects outside their namespace: the BPF file system, the journal of root,
//! the files of a process, ports at which nothing listens.

use super::host::{Program, ResolvConf};
use super::*;

/// Runs a script of the shell with mounts and processes of its own; `"$@"` is `tcpwhy treat`.
fn with_own_mounts(place: &Place, script: &str) -> String {
    let treat = place.tcpwhy(&[]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec", script, "sh"]);
    command.arg(treat.get_program()).args(treat.get_args());
    command.env("TCPWHY_TREAT_DIR", place.folder.join("journal")).env("NETNS", &place.name);
    let out = command.output().expect("unshare is installed");
    let heard = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{heard}{}", String::from_utf8_lossy(&out.stderr));
    heard
}

#[test]
fn the_bpf_file_system_is_unmounted_by_whoever_mounted_it() {
    let Some(place) = Place::new("bpffs") else { return };
    if !tcpwhy_live::hooks::BUILT {
        tcpwhy_testing::skip("built without kernel hooks");
        return;
    }
    let (_listener, _all) = connected(&place, 1);
    for (mounted_before, during) in [("", "tcpwhy"), ("mount -t bpf others $at", "others")] {
        let script = format!(
            "at=/sys/fs/bpf
             show() {{ awk -v at=$at -v when=$1 '$2 == at {{print when, $1}}' /proc/mounts; }}
             while mountpoint -q $at; do umount -l $at; done
             {mounted_before}
             limit='syn-flood --port 7070 --only limit --xdp --device lo --no-measure'
             \"$@\" $limit --netns $NETNS --keep >/dev/null
             show during
             \"$@\" undo --all >/dev/null
             show undone
             \"$@\" $limit --netns $NETNS --for 100ms >/dev/null
             show ended"
        );
        let heard = with_own_mounts(&place, &script);
        let mounts: Vec<&str> = heard.lines().collect();
        let ends = ["undone others", "ended others"];
        let ends = if during == "others" { &ends[..] } else { &[] };
        assert_eq!(mounts, [&[&*format!("during {during}")], ends].concat(), "{during}");
    }
}

#[test]
fn an_ordinary_user_sees_the_treatments_of_root() {
    let Some(place) = Place::new("seen") else { return };
    let binary = place.folder.copy_program(env!("CARGO_BIN_EXE_tcpwhy"));
    // The journal of root, which is not the host's here.
    let script = format!(
        "mount -t tmpfs -o mode=755 none /var/lib
         unset TCPWHY_TREAT_DIR
         \"$@\" sysctl tcp_fin_timeout=30 --netns $NETNS --no-measure --keep >/dev/null
         for form in --json --width=200; do
             HOME=/nowhere setpriv --reuid 65534 --regid 65534 --clear-groups \
                 {} treat status $form
             echo '---'
         done
         \"$@\" undo --all >/dev/null",
        binary.display(),
    );
    let heard = with_own_mounts(&place, &script);
    let (json, text) = heard.split_once("---").expect("two documents");
    let status = checked(json.as_bytes(), json);
    assert_eq!(status["problems"], Value::Array(Vec::new()), "{status}");
    assert_eq!(status["treatments"][0]["what"]["kind"], "sysctl", "{status}");
    assert_eq!(status["treatments"].as_array().map(Vec::len), Some(1), "{status}");
    assert!(text.contains("tcp_fin_timeout"), "{text}");
}

#[test]
fn the_resolver_changes_where_the_process_that_is_named_sees_it() {
    let Some(place) = Place::new("process") else { return };
    let before = "nameserver 10.9.9.9\n";
    let file = ResolvConf::new(&place, before);
    let host = fs::read_to_string("/etc/resolv.conf").ok();
    let program = Program::start(&place);
    let mut child = place.treat_in(&program.pid(), &["resolver", "--ndots", "3"]);
    let wanted = format!("{before}options ndots:3\n");
    assert_eq!((program.resolv_conf(), file.read()), (wanted.clone(), wanted.clone()));
    assert_eq!(fs::read_to_string("/etc/resolv.conf").ok(), host, "the own file is another");
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("it ends");
    // Another process sees the same file; the one that was named is gone.
    let named = program;
    let other = named.with_the_same_mounts();
    drop(named);
    assert_eq!(other.resolv_conf(), wanted);
    let undone = place.json(&["undo", "--all"]);
    assert_eq!(undone["undone"][0]["restored"], 1, "{undone}");
    assert_eq!((other.resolv_conf().as_str(), file.read().as_str()), (before, before));
    assert!(place.journal_is_empty());
}

#[test]
fn a_port_at_which_nothing_listens_ends_it_at_once_with_what_does() {
    let Some(place) = Place::new("nothing") else { return };
    let (_listener, _all) = connected(&place, 1);
    // With its measurement, and without.
    for more in [&["--measure", "600s"][..], &["--no-measure"]] {
        let asked = ["nodelay", "--port", "9", "--netns", &place.name];
        let out = place.run(&[&asked[..], more].concat());
        let words = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{words}");
        assert!(words.contains("nothing listens there"), "{words}");
        assert!(words.contains("7070"), "what listens: {words}");
        assert!(out.stdout.is_empty(), "{}", said(&out));
        assert!(place.journal_is_empty());
    }
}
