//! Captures made of bytes in the test, read through the public interface.

mod clock;
mod commented;
mod compressed;
mod files;
mod hostile;
mod oracle;
mod pcap;
mod pcapng;
mod sets;
mod snoop;
