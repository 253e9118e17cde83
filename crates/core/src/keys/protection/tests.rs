//! The vectors of RFC 8448 §3.

use super::*;
use crate::keys::Secret;

fn bytes(digits: &str) -> Vec<u8> {
    let digits: String = digits.split_whitespace().collect();
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// The client_application_traffic_secret_0.
fn client() -> Protection {
    let secret = bytes("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
    let suite = Suite::of(0x1301).expect("TLS_AES_128_GCM_SHA256");
    Protection::tls13(suite, &Secret::new(&secret).expect("a secret")).expect("a protection")
}

/// The first record of application data that the client sends: header and body.
fn record() -> ([u8; HEADER_BYTES], Vec<u8>) {
    let body = bytes(
        "a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62
         974e1f5a6292a2977014bd1e3deae63aeebb21694915e4",
    );
    ([23, 3, 3, 0, body.len() as u8], body)
}

#[test]
fn the_record_of_application_data_opens() {
    let (header, mut body) = record();
    let opened = client().open(&header, &mut body).expect("an open record");
    assert_eq!(opened, PlainRecord { content: 23, range: 0..50 });
    assert!(body[..50].iter().copied().eq(0..50));
}

#[test]
fn a_record_that_does_not_open_stays_as_it_is() {
    let (header, whole) = record();
    let refuses = |mut protection: Protection, header: &[u8; HEADER_BYTES], body: &[u8]| {
        let mut left = body.to_vec();
        assert_eq!(protection.open(header, &mut left), None);
        assert_eq!(left, body);
    };
    for index in 0..whole.len() {
        let mut other = whole.clone();
        other[index] ^= 1;
        refuses(client(), &header, &other);
        refuses(client(), &header, &whole[..index]);
    }
    refuses(client(), &[22, 3, 3, 0, header[4]], &whole);
    let mut later = client();
    later.pass_over(1);
    refuses(later, &header, &whole);
    let mut updated = client();
    updated.update();
    refuses(updated, &header, &whole);
}

#[test]
fn a_secret_of_another_length_is_none_of_the_suite() {
    let secret = Secret::new(&[7; 32]).expect("a secret");
    let suite = Suite::of(0x1302).expect("TLS_AES_256_GCM_SHA384");
    assert!(Protection::tls13(suite, &secret).is_none());
    let numbers = Suite::with_secrets_of(32).map(|suite| suite.cipher.key_bytes());
    assert_eq!(numbers.collect::<Vec<_>>(), [16, 32]);
}
