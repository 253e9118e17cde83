//! The key log of `--keylog`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tcpwhy_core::keys::{KEYS_MAX, Keys};
use zeroize::Zeroizing;

/// Time in which a program hands over the secrets of a handshake: it may wait for a processor before. Frames
/// are that old when they are opened; the capture keeps later ones meanwhile.
#[cfg(all(feature = "program", target_os = "linux"))]
const HANDED_OVER: std::time::Duration = std::time::Duration::from_millis(100);

/// Waits until programs have handed over the secrets of handshakes in `block`, which was captured here.
#[cfg(all(feature = "program", target_os = "linux"))]
pub fn await_secrets(block: &tcpwhy_core::capture::Block) {
    let last_ns = block.entries.last().map_or(0, |entry| entry.time_ns);
    let last = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(last_ns);
    // A frame of the future is as one of now: the clock was set back.
    let age = last.elapsed().unwrap_or_default();
    std::thread::sleep(HANDED_OVER.saturating_sub(age));
}

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
