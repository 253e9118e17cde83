//! Decoding, against etherparse as packet builder and oracle, and against hostile bytes.

mod fragments;
mod hostile;
mod icmp;
mod layers;
mod oracle;
mod packets;
