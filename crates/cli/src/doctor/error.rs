//! Errors that prevent the examination of a target, each with what the user can do.

use crate::error::Error;
use std::io;
use tcpwhy_probe::TargetError;
use tcpwhy_probe::tls::TlsError;

#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    #[error("{0}")]
    Target(#[from] TargetError),
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error(
        "{host} does not resolve; check the name, and what its servers answer: tcpwhy dns {host}"
    )]
    Unresolved { host: String, source: io::Error },
    #[error("{host} has no address")]
    NoAddress { host: String },
    #[error("{path}: cannot be read")]
    Body { path: String, source: io::Error },
    #[error("{path}: the report cannot be kept there; name a directory of your own, or a new one")]
    Bundle { path: String, source: io::Error },
}

impl From<DoctorError> for Error {
    fn from(error: DoctorError) -> Self {
        Self::Doctor(Box::new(error))
    }
}
