//! Selection of sockets.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::diag::Entry;
use crate::error::LiveError;
use crate::netns::Netns;

/// Selection of sockets; empty fields select all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only sockets that this process holds.
    pub pid: Option<u32>,
    /// Only sockets with this port at either end.
    pub port: Option<u16>,
    /// Only sockets with this peer.
    pub peer: Option<Peer>,
    /// The network namespaces.
    pub place: Where,
}

/// The network namespaces to search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Where {
    /// The caller's own, or that of the selected process.
    #[default]
    Here,
    /// A namespace by its name under `ip netns`, or by the id of a process in it.
    Netns(String),
    /// This namespace.
    Of(Netns),
    /// All namespaces that can be found.
    All,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Address; an IPv4 address is not mapped to IPv6.
    pub ip: IpAddr,
    /// Port, if one was given.
    pub port: Option<u16>,
}

/// The text is not an address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("write an address, as in 10.0.0.7, 10.0.0.7:5432, 2001:db8::7 or [2001:db8::7]:5432")]
pub struct PeerError;

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self { ip: ip.to_canonical(), port: None });
        }
        let end: SocketAddr = text.parse().map_err(|_| PeerError)?;
        Ok(Self { ip: end.ip().to_canonical(), port: Some(end.port()) })
    }
}

impl Selection {
    /// Returns the namespaces to read.
    ///
    /// # Errors
    /// One that was named does not exist, or the process does not.
    pub fn namespaces(&self) -> Result<Vec<Netns>, LiveError> {
        match (&self.place, self.pid) {
            (Where::All, _) => Ok(Netns::all()),
            (Where::Of(netns), _) => Ok(vec![netns.clone()]),
            (Where::Netns(name), _) => Netns::find(name).map(|netns| vec![netns]),
            (Where::Here, Some(pid)) => {
                let netns = Netns::of_process(pid)?;
                let own = Netns::own();
                Ok(vec![if netns.inode == own.inode { own } else { netns }])
            }
            (Where::Here, None) => Ok(vec![Netns::own()]),
        }
    }

    /// Returns whether the ends of a socket match.
    pub fn takes(&self, entry: &Entry) -> bool {
        let port = self
            .port
            .is_none_or(|port| [entry.local, entry.peer].map(|end| end.port()).contains(&port));
        let peer = self.peer.is_none_or(|peer| {
            peer.ip == entry.peer.ip() && peer.port.is_none_or(|port| port == entry.peer.port())
        });
        port && peer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_an_address_with_or_without_a_port() {
        let peer = |text: &str| text.parse::<Peer>();
        assert_eq!(peer("10.0.0.7").unwrap().port, None);
        assert_eq!(peer("10.0.0.7:5432").unwrap().port, Some(5432));
        assert_eq!(peer("2001:db8::7").unwrap().port, None);
        assert_eq!(peer("[2001:db8::7]").unwrap().port, None);
        assert_eq!(peer("[2001:db8::7]:5432").unwrap().port, Some(5432));
        assert_eq!(peer("::ffff:10.0.0.7").unwrap(), peer("10.0.0.7").unwrap());
        assert_eq!(peer("db.example"), Err(PeerError));
    }
}
