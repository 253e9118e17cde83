//! What may go wrong while something is treated.

use super::*;

#[test]
fn a_record_that_is_garbage_is_said_and_the_others_are_undone() {
    let Some(place) = Place::new("garbage") else { return };
    let (_listener, all) = connected(&place, 1);
    let mut child = place.treat(&["nodelay", "--port", "7070", "--keep"]);
    assert!(child.wait().expect("it ends").success());
    let record = place.folder.join("journal/1.json");
    let whole = fs::read(&record).expect("a record");
    fs::write(place.folder.join("journal/2.json"), &whole[..whole.len() / 2]).expect("a file");
    // Of another boot: nothing of it holds.
    let mut old: Value = serde_json::from_slice(&whole).expect("JSON");
    (old["id"], old["since"]["boot_id"]) = (3.into(), "another".into());
    fs::write(place.folder.join("journal/3.json"), old.to_string()).expect("a file");
    let status = place.json(&["status"]);
    assert_eq!(status["problems"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(status["treatments"][1]["is_of_this_boot"], false);
    let undone = place.json(&["undo", "--all"]);
    assert_eq!(undone["undone"][0]["restored"], 2, "{undone}");
    assert_eq!(undone["undone"][1]["was_reboot"], true, "{undone}");
    assert!(!all[0].0.nodelay().unwrap());
    assert_eq!(place.run(&["undo", "2"]).status.code(), Some(2));
    assert!(place.folder.join("journal/2.json").exists(), "it is for people to look at");
}

#[test]
fn without_root_one_sentence_names_the_capability() {
    let Some(place) = Place::new("rights") else { return };
    // A copy that another user may run.
    let binary = place.folder.join("tcpwhy");
    fs::copy(env!("CARGO_BIN_EXE_tcpwhy"), &binary).expect("a copy");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = listener.local_addr().expect("an address");
    let _client = TcpStream::connect(address).expect("a connection");
    let mut command = Command::new(binary);
    command.args(["treat", "nodelay", "--no-measure", "--port", &address.port().to_string()]);
    command.env("TCPWHY_TREAT_DIR", std::env::temp_dir().join(format!("{}-nobody", place.name)));
    let out = command.uid(65_534).gid(65_534).output().expect("tcpwhy runs");
    let _ = fs::remove_dir_all(std::env::temp_dir().join(format!("{}-nobody", place.name)));
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE") && said.contains("sudo"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}
