//! A conversation in each protocol, with a token in each field that a user can fill.

mod calls;
mod http;

use super::packets::Said;
use super::tokens::Tokens;
use tcpwhy_core::app::Protocol;
use tcpwhy_core::wire::Side::{Client, Server};

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
        Protocol::Http1 => [http::http(tokens), http::web_socket(tokens)].concat(),
        Protocol::Tls => tls(tokens),
        Protocol::Redis => redis(tokens),
        Protocol::Postgres => postgres(tokens),
        Protocol::Mysql => mysql(tokens),
        Protocol::Dns => dns(tokens),
        Protocol::Http2 => http::http2(tokens),
        Protocol::Mqtt => mqtt(tokens),
        Protocol::Amqp => amqp(tokens),
        // They are in those of `turns`.
        Protocol::Smtp | Protocol::Ftp | Protocol::Pop3 | Protocol::Imap | Protocol::Ssh => vec![],
        Protocol::Smb
        | Protocol::Ldap
        | Protocol::OncRpc
        | Protocol::DceRpc
        | Protocol::Dnp3
        | Protocol::Kerberos
        | Protocol::Modbus
        | Protocol::Mongodb
        | Protocol::Cassandra
        | Protocol::Kafka
        | Protocol::Tds
        | Protocol::Memcached
        | Protocol::Zookeeper
        | Protocol::Thrift
        | Protocol::Dubbo
        | Protocol::Stun
        | Protocol::Diameter
        | Protocol::OpcUa
        | Protocol::EthernetIp
        | Protocol::IsoOnTcp => calls::of(protocol, tokens),
    }
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
    let pop3 = ["+OK TOKEN", "USER TOKEN", "+OK TOKEN", "PASS TOKEN", "-ERR TOKEN"];
    let imap = ["* OK TOKEN", "a1 LOGIN TOKEN TOKEN", "a1 NO TOKEN", "TOKEN SELECT TOKEN"];
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
        lines(110, true, &pop3),
        lines(143, true, &imap),
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
