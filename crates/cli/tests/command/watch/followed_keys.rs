//! A key log that is followed while a program writes it.

use super::*;
use tcpwhy_testing::installed;

const TLS: u16 = 8443;

impl Place {
    /// nginx with TLS at [`TLS`].
    fn nginx_tls(&mut self) {
        let folder = self.folder.display().to_string();
        let at = |name: &str| format!("{folder}/{name}");
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=lab", "-keyout", &at("key"), "-out", &at("cert")])
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("openssl runs").success());
        let config = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;\n\
             events {{}}\n\
             http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};\n\
               fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
               server {{ listen 127.0.0.1:{TLS} ssl; ssl_certificate {folder}/cert;\n\
                 ssl_certificate_key {folder}/key; location / {{ return 200 answer; }} }} }}\n"
        );
        std::fs::write(at("nginx.conf"), config).expect("a file");
        let mut command = self.command("nginx");
        command.args(["-p", &folder, "-c", &at("nginx.conf")]).stderr(Stdio::null());
        self.children.push(command.spawn().expect("nginx starts"));
        let is_up = || self.inside(|| TcpStream::connect(("127.0.0.1", TLS)).is_ok());
        wait_for("nginx listens", is_up);
    }
}

#[test]
fn requests_in_connections_made_after_the_watch_began_are_named() {
    let Some(mut place) = Place::new() else { return };
    if !installed("nginx") || !installed("openssl") || !installed("curl") {
        return;
    }
    place.nginx_tls();
    let log = place.folder.join("keys.log");
    std::fs::write(&log, "# written by a test\n").expect("a file");
    let path = log.to_str().expect("a name").to_owned();
    let watched = ["--json", "--interval", "500ms", "--for", "30s", "--keylog", &path];
    let mut watch = place.watch(&watched);
    for item in 0..6 {
        let asked = place
            .command("curl")
            .args(["-sk", "--tls-max", if item % 2 == 0 { "1.2" } else { "1.3" }])
            .arg(format!("https://127.0.0.1:{TLS}/items/{item}"))
            .env("SSLKEYLOGFILE", &path)
            .output()
            .expect("curl runs");
        assert_eq!(asked.stdout, b"answer");
    }
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut text = String::new();
    let mut requests = 0;
    while requests < 6 {
        // The watch ends by itself where that never comes.
        let line = lines.next().unwrap_or_else(|| panic!("{requests} requests: {text}"));
        let line = line.expect("text");
        let report: Value = serde_json::from_str(&line).expect("JSON");
        let endpoints = report["endpoints"].as_array().expect("a list");
        let kinds = endpoints.iter().flat_map(|it| it["kinds"].as_array().expect("a list"));
        let named = kinds.filter(|it| it["kind"] == "GET /items/{id}");
        requests = named.filter_map(|it| it["exchanges"].as_u64()).sum();
        text += &line;
    }
    drop(interrupt(watch));
    assert_eq!(requests, 6, "{text}");
    let secrets = std::fs::read_to_string(&log).expect("written by curl");
    let lines = secrets.lines().filter(|line| !line.starts_with('#'));
    let mut hidden = lines.filter_map(|line| line.split(' ').nth(2));
    assert!(hidden.clone().count() >= 6 && hidden.all(|it| !text.contains(it)));
}

#[test]
fn a_key_log_that_does_not_exist_is_an_error() {
    let Some(place) = Place::new() else { return };
    let missing = place.folder.join("none");
    let watch = place.watch(&["--for", "1s", "--keylog", missing.to_str().expect("a name")]);
    let out = watch.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("none: cannot be opened"), "{}", stderr(&out));
}
