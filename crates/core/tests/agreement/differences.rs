//! The explained differences; the reasons are the headings of `docs/agreement.md`.

/// File, tool, count, ours, theirs.
pub type Explained = (&'static str, &'static str, &'static str, u64, u64);

/// By reason.
pub const DIFFERENCES: &[(&str, &[Explained])] = &[
    ("A SYN is no data", &[("loss_syn.pcap", "tcptrace", "retransmitted", 0, 1)]),
    (
        "The overtaken original after its repair",
        &[
            ("reordering.pcap.zst", "tshark", "out_of_order", 10, 3),
            ("reordering.pcap.zst", "tshark", "retransmitted", 10, 17),
            ("reordering.pcap.zst", "tshark", "spurious", 0, 10),
        ],
    ),
    ("What made a retransmission fast", &[("reordering.pcap.zst", "tshark", "fast", 10, 6)]),
    (
        "A duplicate ACK needs data under way",
        &[
            ("jdk_httpserver-healthy.pcap", "tshark", "duplicate_acks", 0, 1),
            ("reordering.pcap.zst", "tshark", "duplicate_acks", 77, 81),
        ],
    ),
];

/// File, our least round trip and tcptrace's, tenths of a millisecond: "Round trips".
pub const ROUND_TRIPS: &[(&str, u64, u64)] =
    &[("loss_syn.pcap", 251, 203), ("receive_window-healthy.pcap.zst", 403, 402)];
