//! What receives the results of a connection.

use crate::app::Label;
use crate::capture::FrameId;
use crate::tcp::connection::Connection;
use crate::tcp::exchange::Exchange;
use crate::tcp::row::Row;
use crate::tcp::series::Series;

/// An exchange on a connection without any loss or other fault, whose client waited only for the
/// path and the server's work, and for the latter at most once.
pub struct SimpleExchange<'a> {
    /// Kind of the request.
    pub kind: &'a Label,
    /// Time at which the request passed, ns, and its frame.
    pub asked: (u64, FrameId),
    /// Time and frame of the response.
    pub answered: (u64, FrameId),
    /// Time at which the response was acknowledged, ns.
    pub arrived_ns: u64,
    /// Time on the path, ns.
    pub path_ns: u64,
    /// Time of the server, ns.
    pub server_ns: u64,
    /// The back-to-back exchanges up to this one.
    pub row: Row,
}

impl SimpleExchange<'_> {
    /// Wall time of the exchange, ns.
    #[inline]
    pub fn wall_ns(&self) -> u64 {
        self.path_ns + self.server_ns
    }
}

/// Receives what the tracker finds: exchanges and connections.
pub trait Sink {
    /// Receives a finished exchange that is like others before it. Returns whether it has counted
    /// it; otherwise it is passed on in full, as an [`exchange`](Self::exchange).
    fn simple_exchange(
        &mut self,
        _connection: &Connection,
        _exchange: &SimpleExchange<'_>,
    ) -> bool {
        false
    }
    /// Receives a finished exchange on `connection`.
    fn exchange(&mut self, connection: &Connection, exchange: &Exchange);
    /// Receives a series of exchanges on `connection` that is over.
    fn series(&mut self, _connection: &Connection, _series: &Series) {}
    /// Receives an exchange that does not count: the capture ended while the client waited for the
    /// response to a complete request.
    fn unanswered(&mut self, _connection: &Connection, _exchange: &Exchange) {}
    /// Receives an exchange that does not count, because it took no time: it ended with
    /// [`Outcome::Unclear`](crate::model::Outcome::Unclear).
    fn unclear(&mut self, _connection: &Connection, _exchange: &Exchange) {}
    /// Receives an exchange that does not count: the direction in which its answer would be was not
    /// captured, and nothing that was captured delayed it.
    fn unseen(&mut self, _connection: &Connection, _exchange: &Exchange) {}
    /// Receives a connection that is over, or still open at the end of the capture.
    fn connection(&mut self, connection: &Connection);
    /// Receives a connection that is over, or still open at the end of the capture, and that lies
    /// completely outside the time window of the report.
    fn uncounted(&mut self, _connection: &Connection) {}
}
