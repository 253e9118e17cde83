//! The TLS of a measuring client: versions 1.2 (RFC 5246) and 1.3 (RFC 8446), ALPN for HTTP/1.1
//! and HTTP/2 (RFC 7301), and resumed sessions if the server offers them.

mod words;

pub use words::sentence;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::http::HttpVersions;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, KeyLog, RootCertStore, SignatureScheme,
};
use tcpwhy_core::keys::GrowingKeys;

/// Greatest number of sessions that are kept for resumption, for all servers together.
const SESSIONS_MAX: usize = 256;

/// The TLS options of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The file with the only trusted certificates; `None` for the system's.
    pub cacert: Option<PemFile>,
    /// Accepts any certificate; the server still has to prove that it holds the certificate's key.
    pub insecure: bool,
    /// Resumes sessions (RFC 8446 §2.2); if `false`, each handshake is a full one.
    pub resume: bool,
    /// The versions of HTTP that are offered by ALPN (RFC 7301).
    pub versions: HttpVersions,
    /// Receives the secrets of all connections, for whom captures them; `None` if nobody does.
    pub secrets: Option<GrowingKeys>,
}

impl Default for TlsOptions {
    fn default() -> TlsOptions {
        TlsOptions {
            cacert: None,
            insecure: false,
            resume: true,
            versions: HttpVersions::default(),
            secrets: None,
        }
    }
}

/// A PEM file as it was read: a process that gives up its rights afterwards can still use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemFile {
    path: PathBuf,
    /// The content, or the reason why it could not be read.
    content: Result<Vec<u8>, String>,
}

impl PemFile {
    /// Reads a file. If that fails, [`client_config`] says so.
    pub fn read(path: &Path) -> PemFile {
        let content = fs::read(path).map_err(|error| error.to_string());
        PemFile { path: path.to_owned(), content }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let refused = |why: String| TlsError::File { path: self.path.display().to_string(), why };
        let content = self.content.as_ref().map_err(|why| refused(why.clone()))?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
        let found = found.map_err(|error| refused(error.to_string()))?;
        if found.is_empty() { Err(refused("it has none".to_owned())) } else { Ok(found) }
    }
}

/// The reason why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system's store of certificates is empty or cannot be read.
    #[error(
        "no root certificate is installed on this system ({0}); install ca-certificates, name a file \
         of roots (--cacert), or accept any certificate: --insecure"
    )]
    NoRoots(String),
    /// The file contains no certificate.
    #[error("{path}: no certificate can be read from it ({why}); name a file in PEM format")]
    File {
        /// The file.
        path: String,
        /// The reason.
        why: String,
    },
    /// No certificate can be for this name.
    #[error("`{0}` is no host name that a certificate can be for")]
    Name(String),
    /// The library rejects the configuration.
    #[error("TLS cannot be set up")]
    Library(#[from] rustls::Error),
}

/// Returns the configuration of a client, for any number of connections. Certificates are verified
/// with those of `cacert`, otherwise with the system's roots, or those of `SSL_CERT_FILE` and
/// `SSL_CERT_DIR`.
///
/// # Errors
/// No root certificate is installed or named, and `insecure` is not set.
pub fn client_config(options: &TlsOptions) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions()?.dangerous();
    let verifier = verifier(options, provider)?;
    let mut config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = options.versions.alpn();
    if let Some(secrets) = &options.secrets {
        config.key_log = Arc::new(Log(secrets.clone()));
    }
    config.resumption = match options.resume {
        true => Resumption::in_memory_sessions(SESSIONS_MAX),
        false => Resumption::disabled(),
    };
    Ok(Arc::new(config))
}

/// Hands the secrets of connections over as they come.
#[derive(Debug)]
struct Log(GrowingKeys);

impl KeyLog for Log {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        self.0.add(label, client_random, secret);
    }
}

/// Returns the name for which the certificate of `host` has to be issued; for an address no SNI is
/// sent (RFC 6066 §3).
///
/// # Errors
/// [`TlsError::Name`].
pub fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))
}

fn verifier(
    options: &TlsOptions,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    if options.insecure {
        return Ok(Arc::new(AnyCertificate(provider.signature_verification_algorithms)));
    }
    let named = options.cacert.as_ref().map(PemFile::certificates).transpose()?;
    let roots = roots(named.as_deref())?;
    let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let issued = built.map_err(|error| rustls::Error::General(error.to_string()))?;
    Ok(match named {
        Some(named) => Arc::new(Named { issued, named }),
        None => issued,
    })
}

/// Returns the given certificates, or the system's if there are none.
fn roots(named: Option<&[CertificateDer<'static>]>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(named) = named {
        roots.add_parsable_certificates(named.iter().cloned());
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(TlsError::NoRoots(why));
    }
    Ok(roots)
}

/// Accepts certificates that one of the named certificates has issued, and the named ones
/// themselves, as curl does: a self-signed certificate is often also that of a CA, which no server
/// may present (RFC 5280 §4.2.1.9).
#[derive(Debug)]
struct Named {
    issued: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.issued.verify_server_cert(certificate, between, name, ocsp, now);
        match judged {
            // The validity period was checked before, so only the use as a CA and the name remain
            // to be checked.
            Err(rustls::Error::InvalidCertificate(CertificateError::Other(_)))
                if self.named.iter().any(|it| it == certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.issued.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.issued.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}

/// Accepts any certificate, and verifies the signature made with its key.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConnection, HandshakeKind, ServerConfig, ServerConnection};

    fn server() -> Arc<ServerConfig> {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Arc::new(config)
    }

    fn any(resume: bool) -> TlsOptions {
        TlsOptions { insecure: true, resume, ..TlsOptions::default() }
    }

    /// Passes bytes in both directions until the handshake is complete and the server's tickets
    /// have arrived.
    fn shake(
        client: &Arc<ClientConfig>,
        server: &Arc<ServerConfig>,
    ) -> Result<ClientConnection, rustls::Error> {
        let name = server_name("localhost").unwrap();
        let mut near = ClientConnection::new(client.clone(), name)?;
        let mut far = ServerConnection::new(server.clone())?;
        let mut wire = Vec::new();
        while near.wants_write() || far.wants_write() {
            wire.clear();
            while near.wants_write() {
                near.write_tls(&mut wire).unwrap();
            }
            far.read_tls(&mut &wire[..]).unwrap();
            far.process_new_packets()?;
            wire.clear();
            while far.wants_write() {
                far.write_tls(&mut wire).unwrap();
            }
            near.read_tls(&mut &wire[..]).unwrap();
            near.process_new_packets()?;
        }
        assert!(!near.is_handshaking());
        Ok(near)
    }

    #[test]
    fn a_self_signed_certificate_is_refused_unless_any_is_accepted() {
        let server = server();
        let strict = client_config(&TlsOptions::default());
        // If this system has no root certificate, nothing can be trusted, and that is reported
        // earlier.
        match strict {
            Ok(strict) => assert!(shake(&strict, &server).is_err()),
            Err(error) => assert!(matches!(error, TlsError::NoRoots(_)), "{error}"),
        }
        let any = client_config(&any(true)).unwrap();
        let near = shake(&any, &server).unwrap();
        assert_eq!(near.alpn_protocol(), Some(&b"h2"[..]));
    }

    #[test]
    fn sessions_are_resumed_if_requested() {
        let server = server();
        for (resume, second) in [(true, HandshakeKind::Resumed), (false, HandshakeKind::Full)] {
            let config = client_config(&any(resume)).unwrap();
            let kind = |near: ClientConnection| near.handshake_kind();
            assert_eq!(kind(shake(&config, &server).unwrap()), Some(HandshakeKind::Full));
            assert_eq!(kind(shake(&config, &server).unwrap()), Some(second), "{resume}");
        }
    }

    #[test]
    fn addresses_and_names_are_names_of_servers() {
        for host in ["localhost", "example.org", "127.0.0.1", "::1"] {
            assert!(server_name(host).is_ok(), "{host}");
        }
        assert!(matches!(server_name("a b"), Err(TlsError::Name(_))));
    }
}
