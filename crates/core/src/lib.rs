//! Packet captures in, causes of latency out.
