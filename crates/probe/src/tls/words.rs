//! Turns the failure of a TLS handshake into a sentence with the remedy.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};
use tcpwhy_core::model::units::counted;

const DAY_S: u64 = 86_400;

/// Returns the error and its remedy as a sentence.
pub fn sentence(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => certificate(why),
        // The first bytes are no TLS record (RFC 8446 §5.1).
        Error::InvalidMessage(_) => {
            "what answers speaks no TLS; if it is plain HTTP, write http://".to_owned()
        }
        Error::AlertReceived(AlertDescription::ProtocolVersion) | Error::PeerIncompatible(_) => {
            "the server has no version or cipher suite of TLS 1.2 or 1.3 in common with this client; \
             allow them at the server"
                .to_owned()
        }
        Error::AlertReceived(alert) => format!(
            "the server ends it with the alert {alert:?} (RFC 8446 §6.2); see the server's log"
        ),
        Error::NoApplicationProtocol => "the server has no version of HTTP in common with this client (ALPN)".to_owned(),
        other => other.to_string(),
    }
}

fn certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::ExpiredContext { time, not_after } => {
            format!("the server's certificate expired {} ago; renew it", days(*not_after, *time))
        }
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the server's certificate is valid only in {}; check the clocks of this host and of who \
             issued it",
            days(*time, *not_before)
        ),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|it| quoted(it)).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            let asked_for = expected.to_str();
            format!(
                "the server's certificate is for {names}, not for {asked_for}; ask for a name that it \
                 has, or have the server's reissued"
            )
        }
        // `BadSignature` means that an issuer with this name is trusted, but has another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no issuer that this host trusts has signed the server's certificate; name the issuer's \
             certificate (--cacert FILE), or take any (--insecure)"
                .to_owned()
        }
        CertificateError::Revoked => "the server's certificate was revoked; renew it".to_owned(),
        other => format!("the server's certificate is not valid: {other}; --insecure takes any"),
    }
}

/// Returns the number of whole days between two times.
fn days(from: UnixTime, to: UnixTime) -> String {
    let days = to.as_secs().saturating_sub(from.as_secs()) / DAY_S;
    if days == 0 { "less than a day".to_owned() } else { counted(days, "day", "days") }
}

/// Returns the name in the library's text `DnsName("…")`.
fn quoted(name: &str) -> &str {
    name.split('"').nth(1).unwrap_or(name)
}
