//! A conversation in each protocol, with a token in each field that a user can fill.

use super::packets::Said;
use super::tokens::Tokens;
use tcpwhy_core::app::Protocol;
use tcpwhy_core::app::Side::{Client, Server};

/// A conversation with a server's port.
#[derive(Clone)]
pub struct Conversation {
    pub port: u16,
    pub said: Vec<Said>,
}

fn talk(port: u16, said: Vec<Said>) -> Conversation {
    Conversation { port, said }
}

/// Returns the conversations in `protocol`. A new protocol needs some here.
pub fn of(protocol: Protocol, tokens: &Tokens) -> Vec<Conversation> {
    match protocol {
        Protocol::Turns => turns(tokens),
        Protocol::Http1 => [http(tokens), web_socket(tokens)].concat(),
        Protocol::Tls => tls(tokens),
        Protocol::Redis => redis(tokens),
        Protocol::Postgres => postgres(tokens),
        Protocol::Mysql => mysql(tokens),
        Protocol::Dns => dns(tokens),
        Protocol::Http2 => http2(tokens),
        Protocol::Mqtt => mqtt(tokens),
        Protocol::Amqp => amqp(tokens),
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn http(tokens: &Tokens) -> Vec<Conversation> {
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

fn web_socket(tokens: &Tokens) -> Vec<Conversation> {
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

fn tls(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("TLS {field}")).into_bytes();
    let record = |kind: u8, body: &[u8]| {
        [&[kind, 3, 3][..], &(body.len() as u16).to_be_bytes(), body].concat()
    };
    let message =
        |kind: u8, body: &[u8]| [&[kind, 0][..], &(body.len() as u16).to_be_bytes(), body].concat();
    let random = |field| t(field).repeat(4);
    let extension = |kind: u16, value: &[u8]| {
        [&kind.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
    };
    let name = [&[0, 11, 0, 0, 8][..], &t("SNI")].concat();
    let protocols = [&[0, 9, 8][..], &t("ALPN")].concat();
    let extensions =
        [extension(0, &name), extension(16, &protocols), extension(41, &t("ticket"))].concat();
    let hello = [
        &[3, 3][..],
        &random("random"),
        &[8],
        &t("session"),
        &[0, 2, 0x13, 1, 1, 0],
        &(extensions.len() as u16).to_be_bytes(),
        &extensions,
    ]
    .concat();
    let retry =
        [&[0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11][..], &t("random of a retry").repeat(3)]
            .concat();
    let answer = |random: &[u8]| {
        let extensions = [extension(43, &[3, 4]), extension(51, &t("key share"))].concat();
        let length = (extensions.len() as u16).to_be_bytes();
        let body = [&[3, 3][..], random, &[8], &t("session"), &[0x13, 1, 0], &length, &extensions]
            .concat();
        record(22, &message(2, &body))
    };
    let said = |random: &[u8]| {
        vec![
            (Client, record(22, &message(1, &hello))),
            (
                Server,
                [answer(random), record(22, &message(11, &t("certificate"))), record(20, &[1])]
                    .concat(),
            ),
            (Client, record(23, &t("request"))),
            (Server, record(23, &t("answer").repeat(9))),
            (Client, record(23, &t("request").repeat(9))),
            (Server, record(23, &t("answer"))),
            (Client, [&[22, 3, 3, 0][..], &t("damaged record")].concat()),
        ]
    };
    vec![talk(443, said(&random("random of the server"))), talk(443, said(&retry))]
}

fn redis(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("Redis {field}"));
    let command = |words: &[&str]| {
        let words = words.iter().map(|it| format!("${}\r\n{it}\r\n", it.len())).collect::<String>();
        format!("*{}\r\n{words}", words.matches('$').count())
    };
    let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let asked = [
        (command(&["SET", &t("key"), &t("value")]), "+OK\r\n".into()),
        (command(&["GET", &t("key")]), bulk(&t("answer"))),
        (command(&["AUTH", &t("user"), &t("password")]), format!("-ERR {}\r\n", t("error"))),
        (command(&["CLIENT", "SETNAME", &t("name")]), format!("+{}\r\n", t("status"))),
        (
            command(&["CONFIG", &t("subcommand"), &t("parameter")]),
            format!("-{} no\r\n", t("error's name")),
        ),
        (
            command(&[&t("command"), &t("key")]),
            format!(":{}\r\n", tokens.given("Redis number", "4915198765")),
        ),
        (format!("{}\r\n", t("inline command")), format!("+{}\r\n", t("status"))),
        (format!("GET {}\r\n", t("inline key")), bulk(&t("answer"))),
        (format!("CONFIG {}\r\n", t("inline subcommand")), format!("*1\r\n_{}\r\n", t("null"))),
        (
            command(&["XREAD", "BLOCK", "0", "STREAMS", &t("stream"), "$"]),
            format!("*1\r\n#{}\r\n", t("boolean")),
        ),
        (
            command(&["SUBSCRIBE", &t("channel")]),
            format!(">3\r\n{}{}{}", bulk("message"), bulk(&t("channel")), bulk(&t("message"))),
        ),
        (command(&["SET", &t("key"), &t("long value").repeat(20)]), "+OK\r\n".into()),
    ];
    let said = asked
        .into_iter()
        .flat_map(|(one, other): (String, String)| [(Client, one.into()), (Server, other.into())]);
    let value = vec![
        (
            Client,
            format!("{} {}\r\n{}\r\n", t("value's rest"), t("value's rest"), t("value's line"))
                .into(),
        ),
        (Server, b"+OK\r\n".to_vec()),
        (Client, format!("{}\r\n", t("value")).into()),
        (Server, b"+OK\r\n".to_vec()),
    ];
    vec![talk(6379, said.collect()), talk(6379, value)]
}

fn postgres(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("PostgreSQL {field}"));
    let message = |kind: char, body: String| {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind as u8][..], &length, body.as_bytes()].concat()
    };
    let ready = || message('Z', "I".into());
    let parameters = format!("user\0{}\0database\0{}\0\0", t("user"), t("database"));
    let startup =
        [&(parameters.len() as u32 + 8).to_be_bytes()[..], &[0, 3, 0, 0], parameters.as_bytes()]
            .concat();
    let query = |text: String| (Client, message('Q', text + "\0"));
    let rows = || {
        (
            Server,
            [
                message('D', format!("\0\x01\0\0\0\x08{}", t("row"))),
                message('C', "SELECT 1\0".into()),
                ready(),
            ]
            .concat(),
        )
    };
    let error = format!("SERROR\0M{}\0D{}\0\0", t("error"), t("error's detail"));
    let parse =
        format!("{}\0UPDATE {} SET {}=$1\0\0\0", t("statement's name"), t("table"), t("column"));
    let said = vec![
        (Client, startup),
        (
            Server,
            [
                message('R', "\0\0\0\0".into()),
                message('S', format!("{}\0{}\0", t("parameter"), t("its value"))),
                ready(),
            ]
            .concat(),
        ),
        query(format!("/* {} */ SELECT '{}' FROM {}", t("comment"), t("literal"), t("table"))),
        rows(),
        query(format!(
            "-- {}\n{} {}",
            t("comment"),
            tokens.given("PostgreSQL verb", "zqxkvwjp"),
            t("identifier")
        )),
        (Server, [message('E', error), ready()].concat()),
        (
            Client,
            [
                message('P', parse),
                message('B', format!("\0{}\0\0\0", t("parameter"))),
                message('E', "\0\0\0\0\0".into()),
                message('S', String::new()),
            ]
            .concat(),
        ),
        (Server, [message('1', String::new()), message('2', String::new()), ready()].concat()),
        (Client, message('X', t("end"))),
    ];
    let begun = vec![
        query(format!("SELECT {}", t("identifier"))),
        rows(),
        (Client, format!("A{}", tokens.given("PostgreSQL damaged header", "1234zqxk")).into()),
        (Client, format!("{}{}", t("rest"), t("rest")).into()),
    ];
    vec![talk(5432, said), talk(5432, begun)]
}

fn mysql(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("MySQL {field}"));
    let packet = |sequence: u8, body: &[u8]| {
        [&(body.len() as u32).to_le_bytes()[..3], &[sequence], body].concat()
    };
    let text = |first: &[u8], text: String| [first, text.as_bytes()].concat();
    let mut login = vec![0x0d, 0xa6, 0x0f, 1];
    login.extend(t("reserved bytes").repeat(4).bytes().take(28));
    let login = text(&login, format!("{}\0\x08{}{}\0", t("user"), t("password"), t("database")));
    let query = |words: String| (Client, packet(0, &text(&[3], words)));
    let field = |name: String| [&[name.len() as u8][..], name.as_bytes()].concat();
    let rows = [
        packet(1, &[1]),
        packet(
            2,
            &[field("def".into()), field(t("schema")), field(t("table")), field(t("column"))]
                .concat(),
        ),
        packet(3, &field(t("row"))),
        packet(4, &[0xfe, 0, 0, 2, 0, 0, 0]),
    ];
    let said = vec![
        (
            Server,
            packet(0, &text(&[10], format!("8.0.36-{}\0\x01\0\0\0{}", t("version"), t("salt")))),
        ),
        (Client, packet(1, &login)),
        (Server, packet(2, &text(&[0xfe], format!("{}\0{}", t("plugin"), t("challenge"))))),
        (Client, packet(3, t("response").as_bytes())),
        (Server, packet(4, &[0, 0, 0, 2, 0, 0, 0])),
        query(format!("SELECT '{}' FROM {}", t("literal"), t("table"))),
        (Server, rows.concat()),
        query(format!("{} {}", tokens.given("MySQL verb", "zqxkvwjp"), t("identifier"))),
        (Server, packet(1, &text(&[0xff, 0x28, 4], format!("#42000{}", t("error"))))),
        query(format!("UPDATE {} SET a='{}'", t("table"), t("literal"))),
        (Server, packet(1, &text(&[0, 1, 0, 2, 0, 0, 0], t("information")))),
        query(format!("INSERT INTO {}", t("table"))),
        (Server, packet(1, &text(&[0], format!("\u{1}\0{}", t("status"))))),
        (Client, packet(0, &text(&[2], t("database")))),
        (Server, packet(1, &[0, 0, 0, 2, 0, 0, 0])),
        (Client, packet(0, &text(&[0x16], format!("DELETE FROM {}", t("table"))))),
        (Server, packet(1, &[&[0][..], &t("statement").as_bytes()[..4], &[0; 7]].concat())),
        (Client, packet(1, t("authentication").as_bytes())),
    ];
    vec![talk(3306, said)]
}

/// Returns a query for a name that reports show, or its failed answer with texts.
pub fn dns_message(name: &str, answers: bool, tokens: &Tokens) -> Vec<u8> {
    let label = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    let name = [label(name), label("example"), vec![0]].concat();
    let flags: [u8; 2] = if answers { [0x81, 0x83] } else { [1, 0] };
    let counts = [0, 1, 0, u8::from(answers), 0, 0, 0, u8::from(answers)];
    let mut message = [&[0, 7][..], &flags, &counts, &name, &[0, 1, 0, 1]].concat();
    if answers {
        let text = label(&tokens.of("DNS text"));
        let cookie = tokens.of("DNS cookie");
        message.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60, 0, text.len() as u8]);
        message.extend(text);
        message.extend([
            0,
            0,
            41,
            16,
            0,
            0,
            0,
            0,
            0,
            0,
            4 + cookie.len() as u8,
            0,
            10,
            0,
            cookie.len() as u8,
        ]);
        message.extend(cookie.bytes());
    }
    message
}

fn dns(tokens: &Tokens) -> Vec<Conversation> {
    let framed = |message: Vec<u8>| [&(message.len() as u16).to_be_bytes()[..], &message].concat();
    let name = tokens.shown("DNS name");
    let said = vec![
        (Client, framed(dns_message(&name, false, tokens))),
        (Server, framed(dns_message(&name, true, tokens))),
        (
            Client,
            framed(
                format!(
                    "{}{}{}",
                    tokens.of("DNS rest"),
                    tokens.of("DNS rest"),
                    tokens.of("DNS rest")
                )
                .into(),
            ),
        ),
    ];
    vec![talk(53, said)]
}

fn http2(tokens: &Tokens) -> Vec<Conversation> {
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

fn mqtt(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("MQTT {field}"));
    let packet = |kind: u8, body: Vec<u8>| [vec![kind, body.len() as u8], body].concat();
    let text = |text: String| [&[0, text.len() as u8][..], text.as_bytes()].concat();
    let connect = [
        text("MQTT".into()),
        vec![4, 0xc2, 0, 60],
        text(t("client")),
        text(t("user")),
        text(t("password")),
    ]
    .concat();
    let said = vec![
        (Client, packet(0x10, connect)),
        (Server, vec![0x20, 2, 0, 0]),
        (Client, packet(0x32, [text(t("topic")), vec![0, 1], t("message").into_bytes()].concat())),
        (Server, vec![0x40, 2, 0, 1]),
        (Client, packet(0x82, [vec![0, 2], text(t("filter")), vec![1]].concat())),
        (
            Server,
            [
                vec![0x90, 3, 0, 2, 1],
                packet(0x30, [text(t("topic")), t("message").into_bytes()].concat()),
            ]
            .concat(),
        ),
        (Client, [&[0x82][..], t("damaged packet").as_bytes()].concat()),
    ];
    vec![talk(1883, said)]
}

fn amqp(tokens: &Tokens) -> Vec<Conversation> {
    let t = |field: &str| tokens.of(&format!("AMQP {field}"));
    let short = |text: String| [&[text.len() as u8][..], text.as_bytes()].concat();
    let frame = |kind: u8, channel: u8, payload: &[u8]| {
        let size = (payload.len() as u32).to_be_bytes();
        [&[kind, 0, channel][..], &size, payload, &[0xce]].concat()
    };
    let method = |channel: u8, class: u8, method: u8, arguments: Vec<u8>| {
        frame(1, channel, &[&[0, class, 0, method][..], &arguments].concat())
    };
    let body = t("message").into_bytes();
    let header = [&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, body.len() as u8, 0, 0][..]].concat();
    let said = vec![
        (Client, b"AMQP\0\0\x09\x01".to_vec()),
        (Server, method(0, 10, 10, t("properties").into_bytes())),
        (Client, method(0, 10, 11, [short(t("mechanism")), t("password").into_bytes()].concat())),
        (Server, method(0, 10, 30, vec![0; 8])),
        (Client, method(0, 10, 40, [short(t("virtual host")), vec![0, 0]].concat())),
        (Server, method(0, 10, 41, vec![0])),
        (Client, method(1, 50, 10, [&[0, 0][..], &short(t("queue")), &[0; 5]].concat())),
        (Server, method(1, 50, 11, [short(t("queue")), vec![0; 8]].concat())),
        (Client, method(1, 60, 70, [&[0, 0][..], &short(t("queue")), &[1]].concat())),
        (
            Server,
            [
                method(1, 60, 71, [&[0; 9][..], &short(t("exchange"))].concat()),
                frame(2, 1, &header),
                frame(3, 1, &body),
            ]
            .concat(),
        ),
        (Client, [&[1, 0][..], t("damaged frame").as_bytes()].concat()),
    ];
    vec![talk(5672, said)]
}

fn turns(tokens: &Tokens) -> Vec<Conversation> {
    let lines = |port: u16, server_first: bool, lines: &[&str]| {
        let name = |number: usize| tokens.of(&format!("port {port}, line {number}"));
        let said = lines.iter().enumerate().map(|(number, line)| {
            let side = if (number % 2 == 0) == server_first { Server } else { Client };
            (side, (line.replace("TOKEN", &name(number)) + "\r\n").into_bytes())
        });
        talk(port, said.collect())
    };
    let smtp = [
        "220 TOKEN.example ESMTP",
        "EHLO TOKEN",
        "250 TOKEN",
        "AUTH PLAIN TOKEN",
        "235 TOKEN",
        "MAIL FROM:<TOKEN@example.com>",
        "250 TOKEN",
        "RCPT TO:<TOKEN@example.com>",
        "250 TOKEN",
        "DATA",
        "354 TOKEN",
        "Subject: TOKEN\r\n\r\nTOKEN\r\n.",
        "250 TOKEN",
    ];
    let ftp = [
        "220 TOKEN",
        "USER TOKEN",
        "331 TOKEN",
        "PASS TOKEN",
        "230 TOKEN",
        "RETR TOKEN",
        "150 TOKEN",
    ];
    let memcached = [
        "set TOKEN 0 0 8\r\nTOKEN",
        "STORED",
        "get TOKEN",
        "VALUE TOKEN 0 8\r\nTOKEN\r\nEND",
        "set TOKEN 0 0 8 noreply\r\nTOKEN",
    ];
    let ssh = ["SSH-2.0-TOKEN TOKEN", "SSH-2.0-TOKEN"];
    let other =
        ["TOKEN\0TOKEN", "TOKEN", "TOKENTOKEN", "\x00\x01TOKEN", "GET TOKEN", "HTTP/1.TOKEN"];
    let mut all = vec![
        lines(25, true, &smtp),
        lines(21, true, &ftp),
        lines(11211, false, &memcached),
        lines(22, true, &ssh),
        lines(7000, false, &other),
        lines(7001, true, &other),
    ];
    // Text at the port of another protocol.
    for port in [53, 80, 443, 1883, 3306, 5432, 6379, 50051] {
        all.push(lines(port, false, &["TOKENTOKEN", "TOKENTOKEN", "TOKEN TOKEN", "TOKEN"]));
        all.push(lines(port, true, &["TOKENTOKEN", "TOKENTOKEN", "TOKEN TOKEN", "TOKEN"]));
    }
    all
}
