//! Conversations in HTTP/1, WebSocket and HTTP/2.

use super::{Conversation, Said, Tokens, talk};
use tcpwhy_core::wire::Side::{Client, Server};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub fn http(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("HTTP {field}"));
    let mut paths: Vec<String> = tokens.forms("HTTP path");
    let known =
        ["Tr0ub4dor", "AKIAIOSFODNN7EXAMPLE", "sk-proj-a1B2c3D4e5F6", "alice%40example.com"];
    paths.extend(known.map(|it| tokens.given("HTTP path", it)));
    paths.push(format!("17.{}", tokens.given("HTTP ending", "5283.7190")));
    paths.push(format!("{}.json", t("name of a file")));
    let request = format!(
        "POST /{0}/users?{1}={2};{3}#{4} HTTP/1.1\r\nHost: {5}.example:80\r\nUser-Agent: {6}/1.0 ({7})\r\n\
         Cookie: {8}={9}\r\nAuthorization: Basic {10}\r\nX-{11}: {12}\r\nReferer: http://{13}/\r\n\
         Connection: close, {14}\r\nTransfer-Encoding: {15}, chunked\r\nExpect: {16}\r\nUpgrade: {17}\r\n\
         Content-Type: text/event-stream; {18}\r\nContent-Length: {19}\r\n{20}\r\n\r\n\
         c;{21}={22}\r\n{{\"{23}\":1}}\r\n0\r\nX-Trailer: {24}\r\n\r\n",
        t("path"),
        t("query name"),
        t("query value"),
        t("parameter"),
        t("fragment"),
        t("Host"),
        t("User-Agent"),
        t("comment of User-Agent"),
        t("cookie's name"),
        t("cookie"),
        t("Authorization"),
        t("field name"),
        t("field"),
        t("Referer"),
        t("Connection"),
        t("Transfer-Encoding"),
        t("Expect"),
        t("Upgrade"),
        t("Content-Type"),
        t("Content-Length"),
        t("line without a colon"),
        t("chunk extension"),
        t("its value"),
        t("body"),
        t("trailer"),
    );
    let answer = format!(
        "HTTP/1.1 200 {}\r\nServer: nginx/1.24.0 ({}) {}\r\nSet-Cookie: {}={}\r\nLocation: /{}\r\n\
         Transfer-Encoding: chunked\r\n\r\n8;{}\r\n{}\r\n0\r\n\r\n",
        t("reason"),
        t("comment of Server"),
        t("rest of Server"),
        t("Set-Cookie's name"),
        t("Set-Cookie"),
        t("Location"),
        t("answer's extension"),
        t("answer"),
    );
    let mut first: Vec<Said> = vec![(Client, request.into()), (Server, answer.into())];
    for path in paths {
        first.push((Client, format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n").into()));
        first.push((Server, OK.to_vec()));
    }
    let odd = [
        format!("{} /x HTTP/1.1\r\n\r\n", tokens.given("HTTP method", "XQZKVWJPF")),
        format!("GET /x HTTP/1.{}\r\n\r\n", t("version")),
        format!(
            "GET {}://{}/x/{} HTTP/1.1\r\n\r\n",
            t("scheme"),
            t("authority"),
            t("absolute path")
        ),
        format!("GET {} HTTP/1.1\r\n\r\n", tokens.given("HTTP target", "zqx0k8v2w")),
        format!(
            "GET /x/{}/{} HTTP/1.1\r\n{}: {}\r\n\r\n",
            t("path"),
            t("path"),
            t("field name"),
            t("field")
        ),
    ];
    for (request, server) in odd.into_iter().zip([
        t("Server"),
        format!("{}/7", t("Server")),
        t("Server"),
        t("Server"),
        format!("nginx-{}", t("Server")),
    ]) {
        first.push((Client, request.into()));
        let answer = format!(
            "HTTP/1.1 200 OK\r\nServer: {server}\r\nContent-Length: 8\r\n\r\n{}",
            t("answer")
        );
        first.push((Server, answer.into()));
    }
    let connect = vec![
        (Client, format!("CONNECT {}.example:443 HTTP/1.1\r\n\r\n", t("tunnel's host")).into()),
        (Server, b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        (Client, format!("GET /{} HTTP/1.1\r\n\r\n", t("path in a tunnel")).into()),
        (Server, format!("HTTP/1.{0} 200 OK\r\n{0}\r\n\r\n", t("status line")).into()),
    ];
    let lone = vec![
        (
            Client,
            format!(
                "{}\r\n{}\r\n\r\n",
                tokens.given("HTTP digits", "4155551234"),
                t("rest of a body")
            )
            .into(),
        ),
        (
            Client,
            format!(
                "GET / HTTP/1.1\r\n{}\r\nHost: a\r\n\r\n",
                tokens.given("HTTP line of digits", "4915198765432")
            )
            .into(),
        ),
        (Server, OK.to_vec()),
    ];
    vec![talk(80, first), talk(3128, connect), talk(8080, lone)]
}

pub fn web_socket(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("WebSocket {field}"));
    let frame = |masked: bool, text: String, key: &str| {
        let mut frame = vec![0x81, text.len() as u8 | if masked { 0x80 } else { 0 }];
        frame.extend(key.bytes().take(if masked { 4 } else { 0 }));
        [frame, text.into_bytes()].concat()
    };
    let key = tokens.given("WebSocket mask", "zQx7");
    let upgrade = format!(
        "GET /chat/{} HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {}\r\n\r\n",
        t("path"),
        t("key")
    );
    let said = vec![
        (Client, upgrade.into()),
        (Server, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_vec()),
        (Client, frame(true, t("message"), &key)),
        (Server, frame(false, t("answer"), "")),
        (Client, frame(true, t("message"), &key)),
        (Server, frame(false, t("answer"), "")),
    ];
    vec![talk(80, said)]
}

pub fn http2(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("HTTP/2 {field}"));
    let frame = |kind: u8, flags: u8, stream: u8, body: &[u8]| {
        let length = (body.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, stream], body].concat()
    };
    let literal = |name: String, value: String| {
        [&[0x40, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()]
            .concat()
    };
    let path = format!("/{}", t("path"));
    let request = [
        &[0x83, 0x86, 0x04, path.len() as u8][..],
        path.as_bytes(),
        &literal(t("field name"), t("field")),
    ]
    .concat();
    let grpc = [
        &b"\x88\x40\x0ccontent-type\x10application/grpc"[..],
        &literal(t("field name"), t("field")),
    ]
    .concat();
    let preface = |end: &str| format!("PRI * HTTP/2.0{end}").into_bytes();
    let said = |end: &str| {
        vec![
            (Client, [preface(end), frame(4, 0, 0, &[])].concat()),
            (Server, [frame(4, 0, 0, &[]), frame(4, 1, 0, &[])].concat()),
            (Client, [frame(1, 4, 1, &request), frame(0, 1, 1, t("request").as_bytes())].concat()),
            (
                Server,
                [
                    frame(1, 4, 1, &grpc),
                    frame(0, 0, 1, t("message").as_bytes()),
                    frame(0, 1, 1, t("message").as_bytes()),
                ]
                .concat(),
            ),
            (
                Client,
                [
                    frame(6, 0, 0, t("ping").as_bytes()),
                    frame(1, 5, 3, &request),
                    t("damaged frame").into_bytes(),
                ]
                .concat(),
            ),
            (Server, [frame(1, 5, 3, &grpc), frame(7, 0, 0, t("going away").as_bytes())].concat()),
        ]
    };
    let end = tokens.given("HTTP/2 preface", "zq\r\nXkv7Wj");
    vec![talk(50051, said("\r\n\r\nSM\r\n\r\n")), talk(50051, said(&end))]
}
