//! The message parser.

use super::*;

#[test]
fn names_are_lower_case_and_answers_follow_pointers() {
    let bytes = encode(7, qtype::A, "DB.Example.com", Some("10.1.1.1"));
    let message = Message::parse(&bytes).expect("a message");
    let question = message.question.as_ref().expect("a question");
    assert_eq!((question.name.as_str(), question.qtype), ("db.example.com", qtype::A));
    let addresses: Vec<_> = message.addresses().collect();
    assert_eq!(addresses, [endpoint("10.1.1.1", 0).address]);
}

#[test]
fn a_cut_answer_keeps_its_question() {
    let bytes = encode(7, qtype::AAAA, "db.example.com", Some("2001:db8::1"));
    let message = Message::parse(&bytes[..bytes.len() - 5]).expect("a message");
    assert!(message.question.is_some() && message.answers.is_empty());
    assert_eq!(message.answer_count, 1);
    assert_eq!(Message::parse(&bytes[..11]), Err(MessageError::HeaderTruncated));
}

#[test]
fn a_compression_loop_ends() {
    let mut bytes = encode(7, qtype::PTR, "a", None);
    bytes.truncate(12);
    bytes.extend([0xc0, 12, 0, 12, 0, 1]);
    assert_eq!(Message::parse(&bytes).expect("a message").question, None);
}

#[test]
fn a_cname_is_read_through_a_pointer() {
    let mut bytes = encode(7, qtype::A, "www.example.com", None);
    bytes[2] = 0x81;
    bytes[7] = 1;
    bytes.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 6, 3, b'c', b'd', b'n', 0xc0, 16]);
    let message = Message::parse(&bytes).expect("a message");
    assert_eq!(message.answers, [Answer::Cname("cdn.example.com".into())]);
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    let mut state = 1u64;
    let stock = encode(7, qtype::A, "db.example.com", Some("10.1.1.1"));
    for _ in 0..50_000 {
        let mut bytes = stock.clone();
        for _ in 0..4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 24) as u8;
        }
        bytes.truncate((state >> 40) as usize % (stock.len() + 1));
        let _ = Message::parse(&bytes);
    }
}
