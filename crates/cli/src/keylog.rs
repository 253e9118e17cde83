//! The key log of `--keylog`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tcpwhy_core::keys::{KEYS_MAX, Keys};
use zeroize::Zeroizing;

/// Time in which a program hands over the secrets of a handshake whose frames have come.
#[cfg(all(feature = "program", target_os = "linux"))]
pub const HANDED_OVER: std::time::Duration = std::time::Duration::from_millis(5);

/// Secrets of TLS connections, and the file that they are from.
#[derive(Clone, Debug)]
pub struct KeyLog {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// Its secrets.
    pub keys: Arc<Keys>,
}

impl KeyLog {
    /// Reads the key log `path`.
    ///
    /// # Errors
    /// It cannot be read, or has no secret, or those of too many connections.
    pub fn read(path: &str) -> Result<Self, String> {
        let text = fs::read(path).map(Zeroizing::new).map_err(|error| error.to_string())?;
        let mut keys = Keys::default();
        if keys.add_log(&text) == 0 {
            return Err("it has no secret of a TLS connection; a program writes them where the \
                        environment variable SSLKEYLOGFILE names a file"
                .into());
        }
        if keys.left_out() > 0 {
            return Err(format!(
                "it has secrets of more than {KEYS_MAX} connections; leave in it those of the capture"
            ));
        }
        Ok(Self { path: path.into(), keys: Arc::new(keys) })
    }
}
