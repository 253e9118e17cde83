//! Conversations of commands and replies.

use super::{C, Push, S, story};

/// Returns the story of lines, each with its side, on `port`.
fn told(port: u16, lines: &[(super::Side, &str)]) -> String {
    let pushes: Vec<Push> = lines.iter().map(|(side, line)| (*side, line.as_bytes(), 0)).collect();
    story(port, &pushes)
}

#[test]
fn each_of_several_commands_has_a_reply() {
    let [begin, mail] = [(S, "220 a\r\n"), (C, "MAIL a\r\nRCPT b\r\nRCPT c\r\n")];
    let marks = "response, request, [MAIL], /request, request, [RCPT], /request, request, [RCPT], /request, \
                 response, /response, proceeds, response, error SMTP 550 5.1.1, /response, proceeds, response";
    let one = [begin, mail, (S, "250 a\r\n550 5.1.1 b\r\n250 c\r\n")];
    assert_eq!(told(25, &one), marks);
    let last = [begin, mail, (S, "250 a\r\n550-5.1.1 b\r\n550 5.1.1 "), (S, "b\r\n550 c\r\n")];
    assert_eq!(told(25, &last), format!("{marks}, error SMTP 550"));
    let apart = [begin, (C, "MAIL a\r\nRC"), (C, "PT b\r\n"), (C, "RCPT c\r\n"), one[2]];
    assert_eq!(told(25, &apart), marks);
}

#[test]
fn commands_that_need_a_refused_one_fail_because_of_it() {
    let lines = [
        (S, "220 a\r\n"),
        (C, "MAIL a\r\nRCPT b\r\nDATA\r\n"),
        (S, "553 a\r\n503 first MAIL\r\n554 no recipients\r\n"),
        (C, "RCPT b\r\n"),
        (S, "503 first MAIL\r\n"),
    ];
    let errors: Vec<_> = told(25, &lines)
        .split(", ")
        .filter(|it| it.starts_with("error"))
        .map(String::from)
        .collect();
    assert_eq!(errors, ["error SMTP 553", "error SMTP 503"], "the last one was sent by itself");
}

#[test]
fn a_command_behind_a_preliminary_reply_ends_the_exchange_before_it() {
    let lines =
        [(S, "220 a\r\n"), (C, "RETR a\r\n"), (S, "150 a\r\n"), (C, "QUIT\r\n"), (S, "221 b\r\n")];
    let steps =
        "response, request, [RETR], /request, response, request, [QUIT], /request, response";
    assert_eq!(told(21, &lines), steps);
}

#[test]
fn what_no_reply_answers_is_a_turn() {
    for reply in ["633 cipher\r\n", "what?\r\n"] {
        let lines = [(S, "220 a\r\n"), (C, "ENC a\r\n"), (S, reply), (C, "ENC b\r\n"), (S, reply)];
        let steps =
            "response, request, [ENC], /request, response, request, [ENC], /request, response";
        assert_eq!(told(21, &lines), steps, "{reply}");
    }
}

#[test]
fn no_command_follows_data_before_its_reply() {
    let lines =
        [(S, "220 a\r\n"), (C, "MAIL a\r\nDATA\r\nQUIT\r\n.\r\n"), (S, "250 a\r\n354 b\r\n")];
    let marks = told(25, &lines);
    assert_eq!(marks.matches(", request").count(), 2, "{marks}");
}

#[test]
fn a_chunk_follows_only_what_announces_one() {
    let reply = (S, "250 a\r\n");
    let chunk = [(S, "220 a\r\n"), (C, "BDAT 7 LAST\r\nQUIT\r\n.BDAT 3\r\nabcQUIT\r\n"), reply];
    let kinds: Vec<_> =
        told(25, &chunk).split(", ").filter(|it| it.starts_with('[')).map(String::from).collect();
    assert_eq!(kinds, ["[BDAT]", "[BDAT]", "[QUIT]"]);
    for refused in ["BDAT 5 X", "BDAT x", "BDAT", "BDAT 5 LAST X"] {
        let line = format!("{refused}\r\n");
        let lines =
            [(S, "220 a\r\n"), (C, line.as_str()), (S, "521 5.5.4 a\r\n"), (C, "QUIT\r\n"), reply];
        let marks = told(25, &lines);
        assert!(marks.contains("[BDAT]") && marks.contains("[QUIT]"), "{refused}: {marks}");
    }
}

#[test]
fn a_mail_has_no_commands_and_its_server_no_replies_in_lines_that_go_on() {
    let lines = [
        (S, "220-a\r\n550 no reply\r\n220 a\r\n"),
        (C, "DATA\r\n"),
        (S, "354 a\r\n"),
        (C, "QUIT\r\nRCPT x\r\n.\r\n"),
        (S, "554 a\r\n"),
        (C, "QUIT\r\n"),
        (S, "221 a\r\n"),
    ];
    let steps = [
        "response, request, [DATA], /request, response",
        "request, [message], /request, response, error SMTP 554",
        "request, [QUIT], /request, response",
    ];
    assert_eq!(told(25, &lines), steps.join(", "));
}

#[test]
fn a_greeting_may_refuse_the_session() {
    assert_eq!(told(21, &[(S, "421 too many\r\n")]), "response, error FTP 421");
    assert_eq!(told(9999, &[(S, "554-no\r\n554 no\r\n")]), "response, error reply 554");
    assert_eq!(told(143, &[(S, "* BYE no\r\n")]), "response, error IMAP BYE");
}

#[test]
fn other_protocols_have_no_replies() {
    for greeting in ["2 words\r\n", "550 items\r\n", "+PONG\r\n", "* item\r\n", "421\n"] {
        let lines = [(S, greeting), (C, "USER a\r\n"), (S, "530 b\r\n")];
        let marks = told(9999, &lines);
        assert!(!marks.contains("error") && !marks.contains("USER"), "{greeting}: {marks}");
    }
    // The client spoke first, or went on in TLS.
    let first = [(C, "USER a\r\n"), (S, "530 b\r\n")];
    assert!(!told(21, &first).contains("error"));
    let tls = [(S, "220 a\r\n"), (C, "\u{16}\u{3}\u{1}"), (S, "530 b\r\n")];
    assert!(!told(21, &tls).contains("error"));
}

#[test]
fn a_refused_greeting_of_mysql_is_told_from_other_messages() {
    let full: &[u8] = b"\x17\0\0\0\xff\x10\x04Too many connections";
    assert_eq!(story(3306, &[(S, full, 0)]), "response, error MySQL 1040, /response");
    for other in [
        &b"\x17\0\0\0\xff\x10\0Too"[..],
        b"\x17\0\0\x01\xff\x10\x04Too",
        b"\x17\0\0\0\xff\x10\x04\0",
    ] {
        assert_eq!(story(3306, &[(S, other, 0)]), "response");
    }
}
