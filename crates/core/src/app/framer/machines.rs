//! The parser of a protocol that was recognised.

use super::{Framer, Machine};
use crate::app::calls;
use crate::app::frames::Frames;
use crate::app::http::Http;
use crate::app::known::KnownHeaders;
use crate::app::packets::Packets;
use crate::app::postgres::Postgres;
use crate::app::protocol::Protocol;
use crate::app::redis::Redis;
use crate::app::sniff::Sniffer;
use crate::app::tls::{Inside, Tls};
use crate::keys::Keyring;
use crate::wire::Side;

impl Framer {
    /// Returns the parser of `protocol`, which begins with `message`, as far as it is in this push.
    pub(super) fn machine_for(
        &self,
        protocol: Protocol,
        sniffer: &Sniffer,
        message: &[u8],
        known: &KnownHeaders,
    ) -> Machine {
        match protocol {
            Protocol::Http1 => Machine::Http(Http::after(known)),
            Protocol::Tls => {
                let client_hello = sniffer.from == Side::Client && sniffer.is_handshake_record();
                let expected = client_hello && !self.exchanges.is_handshake_over();
                let tls = Tls::new(expected, !self.hunting);
                Machine::Tls(Box::new(match &known.keys {
                    Some(keys) => tls.with_keys(expected.then(|| self.inside(keys))),
                    None => tls,
                }))
            }
            Protocol::Http2 => Machine::Frames(Box::new(Frames::http2())),
            Protocol::Mqtt => Machine::Frames(Box::new(Frames::mqtt())),
            Protocol::Redis => Machine::Redis(Box::new(Redis::new(message))),
            Protocol::Postgres => {
                let is_startup = sniffer.prefix().first() == Some(&0);
                Machine::Postgres(Box::new(Packets::new(Postgres::new(!is_startup))))
            }
            Protocol::Mysql => Machine::Mysql(Box::default()),
            Protocol::Dns => Machine::Dns(Box::default()),
            Protocol::Amqp => Machine::Amqp(Box::default()),
            of_calls => match calls::Calls::of(of_calls) {
                Some(rules) => Machine::Calls(Box::new(Packets::new(rules))),
                None => Machine::Turns,
            },
        }
    }

    /// Returns the state of what TLS carries on this connection.
    fn inside(&self, keys: &Keyring) -> Inside {
        Inside::new(keys.clone(), Self::new(self.server_port, false))
    }
}
