//! HTTPS end to end: doctor, probe and load against nginx with certificates of every kind.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use tcpwhy_testing::{Folder, undisturbed};

/// A certificate, its issuer, and its key, each as PEM.
pub struct Identity {
    certificate: String,
    issuer: String,
    key: String,
}

pub fn params(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).expect("a name")
}

/// Returns an identity that an authority has issued.
fn issued(params: &CertificateParams) -> Identity {
    let mut authority = self::params("authority.lab");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(authority, key).expect("an issuer");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority).expect("a certificate");
    Identity {
        certificate: pem("CERTIFICATE", certificate.der()),
        issuer: pem("CERTIFICATE", authority.der()),
        key: pem("PRIVATE KEY", &key.serialize_der()),
    }
}

/// Returns a self-signed CA certificate, as `openssl req -x509` makes them.
pub fn self_signed(mut params: CertificateParams) -> Identity {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = pem("CERTIFICATE", params.self_signed(&key).expect("a certificate").der());
    let key = pem("PRIVATE KEY", &key.serialize_der());
    Identity { issuer: certificate.clone(), certificate, key }
}

/// RFC 7468.
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits = (0..3)
                .fold(0_u32, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
            for at in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * at)) as usize & 63];
                text.push(if at <= three.len() { char::from(digit) } else { '=' });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// nginx that serves a file over TLS until it is dropped.
pub struct Nginx {
    process: Child,
    at: SocketAddr,
    folder: Folder,
    pub cacert: String,
}

impl Nginx {
    pub fn start(identity: &Identity, options: &str) -> Option<Nginx> {
        Nginx::start_with(Some(identity), options)
    }

    /// With TLS where there is an identity. `None`: nginx is not installed, and the test is skipped.
    fn start_with(identity: Option<&Identity>, options: &str) -> Option<Nginx> {
        let folder = Folder::new();
        let write = |name: &str, text: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        let mut cacert = String::new();
        let tls = identity.map_or_else(String::new, |identity| {
            cacert = write("issuer.pem", identity.issuer.as_bytes());
            let certificate = write("certificate.pem", identity.certificate.as_bytes());
            let key = write("key.pem", identity.key.as_bytes());
            format!("ssl_certificate {certificate}; ssl_certificate_key {key};")
        });
        let ssl = if identity.is_some() { " ssl" } else { "" };
        // More than one TLS record, and on loopback less than two segments.
        write("file", &vec![b'x'; 40_000]);
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let at = free.expect("a port");
        let place = folder.display();
        let user = if tcpwhy_testing::is_root() { "user root;" } else { "" };
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {place}/{of}; "))
            .concat();
        let conf = format!(
            "{user} daemon off; worker_processes 1; pid {place}/pid; error_log {place}/log;\n\
             events {{ }}\n\
             http {{ access_log off; {temporary} keepalive_requests 1000000; tcp_nopush off;\n\
             server {{ listen {at}{ssl}; root {place}; {tls} {options} }} }}\n"
        );
        let conf = write("nginx.conf", conf.as_bytes());
        let mut command = Command::new("nginx");
        command.arg("-e").arg(folder.join("log")).args(["-c", &conf]).stderr(Stdio::null());
        let process = match command.spawn() {
            Ok(process) => process,
            Err(error) => {
                tcpwhy_testing::skip(&format!("nginx: {error}"));
                return None;
            }
        };
        let nginx = Nginx { process, at, folder, cacert };
        let listens = (0..250).any(|_| {
            thread::sleep(Duration::from_millis(20));
            TcpStream::connect(at).is_ok()
        });
        assert!(listens, "{}", nginx.log());
        Some(nginx)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/file", self.at)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, upon which it ends its workers as well.
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

fn tcpwhy(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(words).output().expect("tcpwhy runs")
}

fn json(words: &[&str], schema: &str) -> (Value, Option<i32>) {
    let output = tcpwhy(&[words, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    let schema: Value = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<String> = validator.iter_errors(&report).map(|it| it.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    (report, output.status.code())
}

fn doctor(words: &[&str]) -> (Value, Option<i32>) {
    let words = [&["doctor"], words, &["--no-load"]].concat();
    json(&words, include_str!("../../../../docs/report.schema.json"))
}

fn load(words: &[&str]) -> (Value, Option<i32>) {
    json(&[&["load"], words].concat(), include_str!("../../../../docs/load.schema.json"))
}

fn probe(url: &str, trust: &[&str]) -> (Value, Option<i32>) {
    let few = ["--no-hops", "--no-mtu", "--count", "1"];
    let words = [&["probe", url], trust, &few].concat();
    json(&words, include_str!("../../../../docs/probe.schema.json"))
}

fn experiment<'a>(report: &'a Value, name: &str) -> Option<&'a Value> {
    let mut made = report["experiments"].as_array().into_iter().flatten();
    made.find(|it| it["experiment"] == name)
}

#[test]
fn a_healthy_server_over_tls_has_no_fault_and_its_handshake_is_split() {
    for identity in [issued(&params("127.0.0.1")), self_signed(params("127.0.0.1"))] {
        let Some(nginx) = Nginx::start(&identity, "ssl_session_cache shared:s:1m;") else { return };
        let trust = ["--cacert", nginx.cacert.as_str()];
        let (report, status) = doctor(&[&nginx.url("https"), trust[0], trust[1]]);
        assert_eq!(status, Some(0), "{}", report["doctor"]);
        let layers = &report["doctor"]["layers"];
        let bytes = |of: &str| report["doctor"][of]["bytes"].as_u64().expect("a number");
        // Each of the first three handshakes brings a certificate of some hundred bytes.
        assert!((1_000..bytes("budget")).contains(&bytes("sent")), "{}", report["doctor"]["sent"]);
        let ns = |name: &str| layers[name].as_u64().expect("a time");
        assert!(0 < ns("tls_first_byte_ns"), "{layers}");
        assert!(ns("tls_first_byte_ns") < ns("tls_ns"), "{layers}");
        let resumption = experiment(&report, "resumption");
        let resumption = resumption.unwrap_or_else(|| panic!("{}", report["doctor"]["steps"]));
        assert!(resumption["trials"].as_u64() >= Some(8), "{resumption}");

        let (report, _) = probe(&nginx.url("https"), &trust);
        let request = &report["request"];
        assert_eq!((&request["status"], &request["error"]), (&200.into(), &Value::Null));
        assert!(request["tls_first_byte_ns"].as_u64() < request["tls_ns"].as_u64(), "{request}");

        let words = ["--requests", "20", "-c", "1", "--new-connections", "--no-explain"];
        let (report, _) = load(&[&[&*nginx.url("https")], &trust[..], &words].concat());
        assert_eq!((&report["requests"], &report["tls"]["count"]), (&20.into(), &20.into()));
        assert_eq!(report["tls_resumed"], 19);
    }
}

#[test]
fn sessions_that_are_not_resumed_are_not_compared() {
    let options = "ssl_session_cache off; ssl_session_tickets off;";
    let Some(nginx) = Nginx::start(&issued(&params("127.0.0.1")), options) else { return };
    let url = nginx.url("https");
    let (report, _) = doctor(&[&url, "--insecure", "--experiment", "resumption"]);
    assert!(experiment(&report, "resumption").is_none());
    let steps = report["doctor"]["steps"].as_array().expect("steps");
    let skipped = steps.iter().find(|it| it["step"] == "resumption").expect("a step");
    assert_eq!(skipped["what"], "the server resumes no TLS session");
}

#[test]
fn small_segments_that_nginx_holds_are_named_through_tls() {
    let Some(nginx) = Nginx::start(&issued(&params("127.0.0.1")), "tcp_nodelay off;") else {
        return;
    };
    undisturbed(|| {
        let (report, status) = doctor(&[&nginx.url("https"), "--cacert", &nginx.cacert]);
        assert_eq!(status, Some(1), "{}", report["doctor"]);
        let finding = &report["findings"][0];
        assert_eq!(finding["cause"], "nagle_delayed_ack", "{}", report["findings"]);
        let quickack = experiment(&report, "quickack").expect("it is cheap");
        assert_eq!(quickack["verdict"], "supports", "{quickack}");
    });
}

/// Returns the error message of each command for a handshake that fails.
fn said(url: &str, trust: &[&str]) -> [String; 3] {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (report, status) = doctor(&[&[url], trust].concat());
    assert_eq!(status, Some(2), "{}", report["doctor"]);
    let (probed, _) = probe(url, trust);
    let words = ["--requests", "2", "-c", "1", "--no-explain", "--width", "1000"];
    let loaded = tcpwhy(&[&["load", url], trust, &words].concat());
    let loaded_text = String::from_utf8_lossy(&loaded.stdout).into_owned();
    assert_eq!(loaded.status.code(), Some(2), "{loaded_text}");
    [text(&report["doctor"]["verdict"]), text(&probed["request"]["error"]), loaded_text]
}

#[test]
fn a_rejected_certificate_is_reported_in_one_sentence() {
    let mut past = params("127.0.0.1");
    past.not_before = date_time_ymd(2020, 1, 1);
    past.not_after = date_time_ymd(2020, 2, 1);
    let mut future = params("127.0.0.1");
    future.not_before = date_time_ymd(2090, 1, 1);
    for (identity, sentence) in [
        (issued(&past), "the server's certificate expired"),
        (self_signed(past), "the server's certificate expired"),
        (issued(&future), "the server's certificate is valid only in"),
        (issued(&params("other.lab")), "is for other.lab, not for 127.0.0.1"),
        (self_signed(params("other.lab")), "is for other.lab, not for 127.0.0.1"),
    ] {
        let Some(nginx) = Nginx::start(&identity, "") else { return };
        for said in said(&nginx.url("https"), &["--cacert", &nginx.cacert]) {
            assert!(said.contains(sentence), "{said}");
        }
    }
}

#[test]
fn an_unknown_issuer_is_reported_with_what_to_do() {
    let identity = issued(&params("127.0.0.1"));
    let Some(nginx) = Nginx::start(&identity, "") else { return };
    // One of the same name, and one of another.
    let mut other = params("127.0.0.1");
    other.distinguished_name.push(DnType::CommonName, "stranger");
    for issuer in [issued(&params("127.0.0.1")).issuer, self_signed(other).issuer] {
        let stranger = nginx.folder.join("stranger.pem");
        fs::write(&stranger, issuer).expect("a file");
        let stranger = stranger.display().to_string();
        for said in said(&nginx.url("https"), &["--cacert", &stranger]) {
            assert!(said.contains("no issuer that this host trusts has signed"), "{said}");
            assert!(said.contains("--cacert FILE"), "{said}");
        }
    }
}

#[test]
fn plain_http_and_tls_at_the_wrong_port_are_reported() {
    let Some(nginx) = Nginx::start(&issued(&params("127.0.0.1")), "") else { return };
    let (report, status) = doctor(&[&nginx.url("http")]);
    let verdict = report["doctor"]["verdict"].as_str().expect("a verdict").to_owned();
    assert_eq!(status, Some(2), "{verdict}");
    assert!(verdict.contains("speaks TLS and was asked in plain HTTP"), "{verdict}");
    drop(nginx);

    let Some(plain) = Nginx::start_with(None, "") else { return };
    for said in said(&plain.url("https"), &["--insecure"]) {
        assert!(said.contains("speaks no TLS; if it is plain HTTP"), "{said}");
    }
}

#[test]
fn a_file_without_certificates_is_reported() {
    for (path, part) in [("/nowhere.pem", "/nowhere.pem: no certificate"), ("/dev/null", "none")] {
        for command in ["doctor", "load"] {
            let out = tcpwhy(&[command, "https://127.0.0.1:9/", "--cacert", path]);
            let said = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{said}");
            assert!(said.contains(part), "{said}");
        }
    }
}
