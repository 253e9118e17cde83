//! Outputs of measurements of tainted requests and answers: `tcpwhy URL` with its bundle, `probe`
//! and `load`; with the rights to capture and without.

use super::tokens::Tokens;
use super::{assert_promised, folder, packets};
use crate::doctor::serve_with;
use crate::https::{Nginx, params, self_signed};
use rcgen::DnType;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use tcpwhy_live::privileges;

/// Returns answers with a token in each field.
fn answers(tokens: &Tokens) -> Vec<(&'static str, String)> {
    let t = |field: &str| tokens.of(&format!("answer's {field}"));
    let host = tokens.shown("redirect's host");
    let fields = format!(
        "Server: nginx/1.24.0 ({}) {}\r\nSet-Cookie: {}={}\r\nX-{}: {}\r\nVia: 1.1 {}\r\n\
         ETag: \"{}\"\r\nContent-Type: text/{}\r\n",
        t("comment of Server"),
        t("rest of Server"),
        t("cookie's name"),
        t("cookie"),
        t("field name"),
        t("field"),
        t("Via"),
        t("ETag"),
        t("type"),
    );
    let length = "Content-Length: 8\r\n";
    let whole = |status: &str, fields: String| {
        format!("HTTP/1.1 {status} {}\r\n{fields}{length}\r\n{}", t("reason"), t("body"))
    };
    let location = format!(
        "{fields}Location: http://{}:{}@{host}.example:8080/{}/login/{}?{}={}#{}\r\n",
        t("redirect's user"),
        t("redirect's password"),
        t("redirect's path"),
        tokens.given("redirect's number", "4915198765432"),
        t("redirect's query"),
        t("its value"),
        t("redirect's fragment"),
    );
    let relative = format!("{fields}Location: {}?{}\r\n", t("redirect's path"), t("query"));
    vec![
        ("200", whole("200", fields.clone())),
        ("server", whole("200", format!("Server: {}/1.0\r\n", t("Server")))),
        (
            "chunks",
            format!(
                "HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n8;{}={}\r\n{}\r\n0\r\n\
                 {}: {}\r\n\r\n",
                t("extension"),
                t("its value"),
                t("chunk"),
                t("trailer's name"),
                t("trailer"),
            ),
        ),
        ("302", whole("302", location)),
        ("307", whole("307", relative)),
        ("401", whole("401", format!("{fields}WWW-Authenticate: Basic realm={}\r\n", t("realm")))),
        ("503", whole("503", format!("{fields}Retry-After: {}\r\n", t("Retry-After")))),
        ("length", format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", t("length"))),
        (
            "lengths",
            format!(
                "HTTP/1.1 200 OK\r\n{fields}{length}Content-Length: {}\r\n\r\n",
                tokens.given("answer's other length", "4915198765433"),
            ),
        ),
        (
            "chunk",
            format!(
                "HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n{}\r\n{}\r\n",
                t("length of a chunk"),
                t("chunk")
            ),
        ),
        ("status", format!("HTTP/1.1 {} {}\r\n\r\n", t("status"), t("reason"))),
        ("line", format!("HTTP/1.1 200 OK\r\n{} {}\r\n\r\n", t("line"), t("line"))),
        ("garbage", format!("{0} {0}\r\n{1}\r\n", t("first line"), t("line"))),
    ]
}

/// Runs tcpwhy in `folder`, without rights if so wanted; returns both outputs.
fn tcpwhy(folder: &Path, words: &[&str], has_rights: bool) -> Vec<u8> {
    let work = || {
        if !has_rights {
            // A program that is started without a right cannot gain it.
            privileges::keep_only(&[]).expect("fewer rights");
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
        command.current_dir(folder).args(words).stdin(Stdio::null()).output().expect("it runs")
    };
    let output = thread::scope(|scope| scope.spawn(work).join()).expect("its output");
    assert!(output.status.code().is_some_and(|it| it <= 2), "{words:?}: {output:?}");
    [output.stdout, output.stderr].concat()
}

/// Looks into the files of a bundle; of its capture, into what stands beside the packets.
fn check_bundle(tokens: &Tokens, bundle: &Path, place: &str) {
    for name in ["report.json", "report.txt", "report.html"] {
        assert!(bundle.join(name).exists(), "{place}: {name} is missing");
    }
    for entry in fs::read_dir(bundle).expect("a folder") {
        let path = entry.expect("an entry").path();
        let mut bytes = fs::read(&path).expect("a file");
        if path.ends_with("packets.pcapng") {
            bytes = packets::beside_packets(&bytes);
        }
        let place = format!("{place}: {}", path.display());
        match path.ends_with("report.html") {
            true => tokens.assert_page_clean(&bytes, &place),
            false => tokens.assert_clean(&bytes, true, &place),
        }
    }
}

/// The target of the measurements, and their options.
struct Measured<'a> {
    name: &'a str,
    url: &'a str,
    /// Which certificates are accepted.
    trust: &'a [&'a str],
    /// Headers and body of each request.
    sent: &'a [&'a str],
    /// Which parts of the examination are made.
    parts: &'a [&'a str],
}

/// Measures by each command, and looks into all that it says.
fn check(tokens: &Tokens, it: &Measured<'_>) {
    let folder = folder(&format!("measured-{}", it.name));
    let few = ["--no-hops", "--no-mtu", "--count", "1"];
    let probe = [&["probe", it.url][..], &few, it.trust].concat();
    let load = [&["load", it.url, "-n", "4", "-c", "2", "-d", "500ms"], it.trust, it.sent].concat();
    for has_rights in [true, false] {
        let run = |words: &[&str]| {
            let said = tcpwhy(&folder, words, has_rights);
            tokens.assert_clean(&said, true, &format!("{words:?}, rights: {has_rights}"));
        };
        let bundle = format!("bundle-{has_rights}");
        let doctor =
            ["doctor", it.url, "--no-path", "--all", "--width", "400", "--bundle", &bundle];
        run(&[&doctor[..], it.trust, it.sent, it.parts].concat());
        check_bundle(tokens, &folder.join(&bundle), it.name);
        for form in [&["--width", "400"][..], &["--json"]] {
            run(&[&probe[..], form].concat());
            run(&[&load[..], form].concat());
        }
    }
}

/// Only what is asked alone.
const ALONE: &[&str] = &["--no-load", "--no-experiments"];

#[test]
fn no_token_of_a_request_or_an_answer_is_in_a_measurement() {
    let tokens = Tokens::default();
    let target = format!("{}?{}", tokens.shown("target"), tokens.shown("target"));
    let field = format!("X-{}: {}", tokens.of("field name"), tokens.of("field"));
    let secret = format!("Authorization: Bearer {}", tokens.of("Authorization"));
    let body = tokens.of("body");
    for (name, answer) in answers(&tokens) {
        let at = serve_with(move |stream| {
            // A client that has left needs no answer.
            let _ = stream.write_all(answer.as_bytes());
        });
        let url = format!("http://{at}/{target}");
        let sent = ["-H", &field, "-H", &secret, "--body", &body];
        // A body makes the method one that is not repeated.
        let (sent, parts) = if name == "200" { (&sent[..4], &[][..]) } else { (&sent[..], ALONE) };
        check(&tokens, &Measured { name, url: &url, trust: &[], sent, parts });
    }
    assert_promised(&tokens);
}

#[test]
fn no_token_of_a_certificate_but_its_names_is_in_a_measurement() {
    let tokens = Tokens::default();
    let mut certificate = params(&format!("{}.example", tokens.shown("certificate's name")));
    for (kind, field) in [
        (DnType::CommonName, "common name"),
        (DnType::OrganizationName, "organization"),
        (DnType::LocalityName, "locality"),
    ] {
        certificate.distinguished_name.push(kind, tokens.of(field));
    }
    let Some(nginx) = Nginx::start(&self_signed(certificate), "") else { return };
    let trusts = [("other-name", &["--cacert", &nginx.cacert][..]), ("any", &["--insecure"])];
    for (name, trust) in trusts {
        let url = nginx.url("https");
        check(&tokens, &Measured { name, url: &url, trust, sent: &[], parts: ALONE });
    }
    assert_promised(&tokens);
}
