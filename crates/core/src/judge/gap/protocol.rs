//! State of the application protocol in a gap.

/// State of the application protocol in a gap.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProtocolState {
    /// The sender had announced more of the message that it was sending.
    pub owes: bool,
    /// The request asked for `100-continue` and its body had not come; if the server was silent,
    /// the client had closed too.
    pub expects_continue: bool,
    /// A TLS handshake is under way.
    pub in_handshake: bool,
    /// A TLS handshake is complete and its first request has not come.
    pub after_handshake: bool,
}
