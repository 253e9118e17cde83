//! State of the application protocol in a gap.

/// State of the application protocol in a gap.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProtocolState {
    /// The sender had announced more of the message that it was sending.
    pub owes: bool,
    /// The request asked for `100-continue` and its body had not come. If the server was silent,
    /// the client had also closed.
    pub expects_continue: bool,
    /// The request in progress had not reached its end, which the protocol shows.
    pub amid_request: bool,
    /// The response in progress states no length: the end of the connection ends it (RFC 9112 §6.3).
    pub lacks_length: bool,
    /// The sender had sent a preliminary reply to a command of FTP (RFC 959 §4.2): its final one waits
    /// for a transfer over another connection.
    pub owes_final_reply: bool,
    /// The protocol was recognised.
    pub is_known: bool,
    /// A TLS handshake is in progress.
    pub in_handshake: bool,
    /// A TLS handshake is complete and its first request has not come.
    pub after_handshake: bool,
}
