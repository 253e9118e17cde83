//! Describes files that are not captures, so that the user sees what was given.

/// Describes a file that is not a capture by its first bytes.
pub(super) fn looks_like(head: &[u8]) -> &'static str {
    for (magic, words) in MAGICS {
        if head.starts_with(magic) {
            return words;
        }
    }
    if head.iter().all(|&byte| byte == 0) {
        return "zeros: the disk may have been full, or the copy was not finished";
    }
    if is_text(head) {
        return text(head);
    }
    if is_byte_order_mark(head) {
        return "UTF-16 text: a shell's redirection (PowerShell's >) rewrites binary output; \
                let the capturing tool write the file itself (-w FILE)";
    }
    "unknown binary data"
}

const MAGICS: &[(&[u8], &str)] = &[
    (b"\x7fELF", "a program (ELF)"),
    (b"MZ", "a Windows program"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\xfd7zXZ\0", "an xz-compressed file: unpack it first (xz -dc FILE | tcpwhy -)"),
    (b"BZh", "a bzip2-compressed file: unpack it first (bzip2 -dc FILE | tcpwhy -)"),
    (b"\x04\x22\x4d\x18", "an lz4-compressed file: unpack it first (lz4 -dc FILE | tcpwhy -)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: unpack it first"),
    (b"GMBU", "a Network Monitor capture: convert it first (editcap FILE OUT.pcapng)"),
    (b"RTSS", "a Network Monitor capture: convert it first (editcap FILE OUT.pcapng)"),
    (b"\x1c\x00\x01\xac", "an IXIA capture: convert it first (editcap FILE OUT.pcapng)"),
    (b"\xac\x01\x00\x1c", "an IXIA capture: convert it first (editcap FILE OUT.pcapng)"),
    (b"\x1f\x8b", "gzip within compression: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd within compression: unpack it first"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xa1\xb2", "a pcap file with a damaged first line of bytes"),
];

fn is_text(head: &[u8]) -> bool {
    let odd = |byte: &u8| {
        (*byte < 0x20 && !matches!(*byte, b'\n' | b'\r' | b'\t' | 0x1b)) || *byte == 0x7f
    };
    // An incomplete multi-byte character at the end of the sample does not indicate binary data.
    let utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    utf8 && !head.iter().any(odd)
}

fn text(head: &[u8]) -> &'static str {
    let head = head.trim_ascii_start();
    if head.starts_with(b"{") || head.starts_with(b"[") {
        "JSON text"
    } else if head.starts_with(b"<") {
        "HTML or XML text: a download may have returned an error page"
    } else if head.windows(4).any(|window| window == b" IP " || window == b" IP6") {
        "tcpdump's printed output: capture again with -w FILE"
    } else {
        "text; if it is tcpdump's printed output, capture again with -w FILE"
    }
}

fn is_byte_order_mark(head: &[u8]) -> bool {
    head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff")
}
