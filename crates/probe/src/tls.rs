//! TLS as a client that measures speaks it: versions 1.2 (RFC 5246) and 1.3 (RFC 8446), HTTP/1.1 by
//! ALPN (RFC 7301), and sessions that are resumed where the server offers it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Sessions that are kept to be resumed, for all servers together.
const SESSIONS_MAX: usize = 256;

/// How TLS is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Takes any certificate; the server still has to prove that it holds the certificate's key.
    pub insecure: bool,
    /// Resumes sessions (RFC 8446 §2.2); without it each handshake is a full one.
    pub resume: bool,
}

impl Default for TlsOptions {
    fn default() -> TlsOptions {
        TlsOptions { insecure: false, resume: true }
    }
}

/// Why TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system's store of certificates is empty or cannot be read.
    #[error(
        "no root certificate is installed on this system ({0}); install ca-certificates, name a file \
         of roots in SSL_CERT_FILE, or accept any certificate: --insecure"
    )]
    NoRoots(String),
    /// The name cannot stand in a certificate.
    #[error("`{0}` is no host name that a certificate can be for")]
    Name(String),
    /// The library refuses its configuration.
    #[error("TLS cannot be set up")]
    Library(#[from] rustls::Error),
}

/// The configuration of a client, for any number of connections. Certificates are checked against the
/// system's roots, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
///
/// # Errors
/// No root certificate is installed, and `insecure` is not set.
pub fn client_config(options: TlsOptions) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions()?.dangerous();
    let verifier = verifier(options, provider)?;
    let mut config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = match options.resume {
        true => Resumption::in_memory_sessions(SESSIONS_MAX),
        false => Resumption::disabled(),
    };
    Ok(Arc::new(config))
}

/// The name that the certificate of `host` has to be for; an address is sent without SNI (RFC 6066 §3).
///
/// # Errors
/// [`TlsError::Name`].
pub fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))
}

fn verifier(
    options: TlsOptions,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    if options.insecure {
        return Ok(Arc::new(AnyCertificate(provider.signature_verification_algorithms)));
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(TlsError::NoRoots(why));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    Ok(verifier.map_err(|error| rustls::Error::General(error.to_string()))?)
}

/// Takes any certificate, and checks the signature made with its key.
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
