//! The tables.

use super::{Row, Table};
use crate::labels::Variant;

const fn faulty(
    name: &'static str,
    case: &'static str,
    set: &'static [(&'static str, &'static str)],
) -> Row {
    Row { name, case, variant: Variant::Faulty, set }
}

const fn healthy(
    name: &'static str,
    case: &'static str,
    set: &'static [(&'static str, &'static str)],
) -> Row {
    Row { name, case, variant: Variant::Healthy, set }
}

/// All tables.
pub const TABLES: &[Table] = &[
    Table {
        case: "nginx_nodelay_off",
        about: "nginx with keep-alive connections, one and a hundred of them",
        rows: &{
            const ONE: &[(&str, &str)] = &[
                ("rtt", "0"),
                ("spacing", "0"),
                ("file", "600"),
                ("connections", "1"),
                ("requests", "60"),
                ("ipv6", "0"),
            ];
            const HUNDRED: &[(&str, &str)] = &[
                ("rtt", "0"),
                ("spacing", "0"),
                ("file", "600"),
                ("connections", "100"),
                ("requests", "40"),
                ("ipv6", "0"),
            ];
            [
                faulty("1 connection, tcp_nodelay off", "nginx_nodelay_off", ONE),
                healthy("1 connection, tcp_nodelay on", "nginx_nodelay_off", ONE),
                faulty("100 connections, tcp_nodelay off", "nginx_nodelay_off", HUNDRED),
                healthy("100 connections, tcp_nodelay on", "nginx_nodelay_off", HUNDRED),
            ]
        },
        expected_ns: None,
    },
    Table {
        case: "jdk_httpserver",
        about: "POST of 100 bytes to com.sun.net.httpserver on one connection; \
                nodelay is -Dsun.net.httpserver.nodelay",
        rows: &{
            const NEAR: &[(&str, &str)] =
                &[("rtt", "0.1ms"), ("connections", "1"), ("requests", "40"), ("ipv6", "0")];
            const CITY: &[(&str, &str)] =
                &[("rtt", "2ms"), ("connections", "1"), ("requests", "40"), ("ipv6", "0")];
            const LAND: &[(&str, &str)] =
                &[("rtt", "26ms"), ("connections", "1"), ("requests", "40"), ("ipv6", "0")];
            [
                faulty("0.1 ms, JDK 17, nodelay false", "jdk_httpserver", NEAR),
                healthy("0.1 ms, JDK 17, nodelay true", "jdk_httpserver", NEAR),
                healthy("0.1 ms, JDK 25", "jdk_httpserver_25", NEAR),
                faulty("2 ms, JDK 17, nodelay false", "jdk_httpserver", CITY),
                healthy("2 ms, JDK 17, nodelay true", "jdk_httpserver", CITY),
                healthy("2 ms, JDK 25", "jdk_httpserver_25", CITY),
                faulty("26 ms, JDK 17, nodelay false", "jdk_httpserver", LAND),
                healthy("26 ms, JDK 17, nodelay true", "jdk_httpserver", LAND),
                healthy("26 ms, JDK 25", "jdk_httpserver_25", LAND),
            ]
        },
        expected_ns: None,
    },
    Table {
        case: "send_buffer",
        about: "22 MB in writes of a segment over 100 Mbit/s and 20 ms, which holds 250 KB. Arithmetic: bytes over the \
                smaller of the link's rate and SO_SNDBUF per round trip. `wmem_max` is not per \
                namespace: its row sets what a limit of 104 KiB leaves of 256 KiB",
        rows: &{
            const fn set(sndbuf: &'static str) -> [(&'static str, &'static str); 7] {
                [
                    ("rtt", "20ms"),
                    ("rate", "100mbit"),
                    ("response", "22MB"),
                    ("requests", "1"),
                    ("write", "1448"),
                    ("ipv6", "0"),
                    ("sndbuf", sndbuf),
                ]
            }
            const SMALL: &[(&str, &str)] = &set("16KiB");
            const CUT: &[(&str, &str)] = &set("104KiB");
            const ENOUGH: &[(&str, &str)] = &set("256KiB");
            [
                faulty("SO_SNDBUF 16 KiB", "send_buffer", SMALL),
                faulty("SO_SNDBUF 256 KiB, cut by wmem_max", "send_buffer", CUT),
                faulty("SO_SNDBUF 256 KiB", "send_buffer", ENOUGH),
                healthy("autotuned", "send_buffer", ENOUGH),
            ]
        },
        expected_ns: Some(|p, variant| {
            let link = p.get("rate_bps")? / 8;
            let buffer = p.get("sndbuf_bytes")? * 1_000_000_000 / p.get("rtt_ns")?.max(1);
            let rate = if variant == Variant::Faulty { link.min(buffer) } else { link };
            Ok(p.get("response_bytes")? * 1_000_000 / rate.max(1) * 1_000 + p.get("rtt_ns")?)
        }),
    },
    Table {
        case: "receive_window",
        about: "an upload of 376 KB into SO_RCVBUF 8 KiB, far away and in a rack",
        rows: &{
            const FAR: &[(&str, &str)] = &[
                ("rtt", "40ms"),
                ("rate", "100mbit"),
                ("rcvbuf", "8KiB"),
                ("upload", "376kB"),
                ("requests", "3"),
                ("ipv6", "0"),
            ];
            const NEAR: &[(&str, &str)] = &[
                ("rtt", "0.1ms"),
                ("rate", "0"),
                ("rcvbuf", "8KiB"),
                ("upload", "376kB"),
                ("requests", "3"),
                ("ipv6", "0"),
            ];
            [
                faulty("40 ms, SO_RCVBUF 8 KiB", "receive_window", FAR),
                healthy("40 ms, autotuned", "receive_window", FAR),
                faulty("0.1 ms, SO_RCVBUF 8 KiB", "receive_window", NEAR),
                healthy("0.1 ms, autotuned", "receive_window", NEAR),
            ]
        },
        expected_ns: None,
    },
    Table {
        case: "distance_tls",
        about: "a TLS connection per request at 150 ms",
        rows: &{
            const fn set(
                version: &'static str,
                resume: &'static str,
            ) -> [(&'static str, &'static str); 5] {
                [
                    ("rtt", "150ms"),
                    ("requests", "6"),
                    ("ipv6", "0"),
                    ("tls-version", version),
                    ("resume", resume),
                ]
            }
            const OLD_FULL: &[(&str, &str)] = &set("12", "0");
            const OLD_RESUMED: &[(&str, &str)] = &set("12", "1");
            const NEW_FULL: &[(&str, &str)] = &set("13", "0");
            const NEW_RESUMED: &[(&str, &str)] = &set("13", "1");
            [
                faulty("TLS 1.2, full", "distance_tls", OLD_FULL),
                faulty("TLS 1.2, resumed", "distance_tls", OLD_RESUMED),
                faulty("TLS 1.3, full", "distance_tls", NEW_FULL),
                faulty("TLS 1.3, resumed", "distance_tls", NEW_RESUMED),
            ]
        },
        expected_ns: None,
    },
    Table {
        case: "syn_flood",
        about: "SYNs from made-up addresses or from one, and what helps real clients. The filter \
                lets in none but the clients' network; a limit lets in 100 SYNs a second of each \
                source, which a queue of 16384 has room for. As fast as it can, hping3 takes a \
                processor, and sends more the less each packet costs its receiver",
        rows: &{
            const fn set(
                rate: &'static str,
                [cookies, backlog, retries]: [&'static str; 3],
                filter: &'static str,
                [one_source, limit]: [&'static str; 2],
            ) -> [(&'static str, &'static str); 9] {
                [
                    ("flood-per-second", rate),
                    ("connections", "3"),
                    ("requests", "3"),
                    ("syncookies", cookies),
                    ("backlog", backlog),
                    ("synack-retries", retries),
                    ("source-filter", filter),
                    ("one-source", one_source),
                    ("syn-limit", limit),
                ]
            }
            const NONE: [&str; 3] = ["0", "128", "5"];
            const WITH_COOKIES: [&str; 3] = ["1", "128", "5"];
            const LONG: [&str; 3] = ["0", "16384", "5"];
            const MANY: [&str; 2] = ["0", "0"];
            const FAST: &str = "1000000";
            type Set = &'static [(&'static str, &'static str)];
            const BARE: Set = &set("512", NONE, "0", MANY);
            const COOKIES: Set = &set("512", WITH_COOKIES, "0", MANY);
            const BACKLOG: Set = &set("512", LONG, "0", MANY);
            const RETRIES: Set = &set("512", ["0", "128", "0"], "0", MANY);
            const FILTER: Set = &set("512", NONE, "1", MANY);
            const FAST_BARE: Set = &set(FAST, NONE, "0", MANY);
            const FAST_COOKIES: Set = &set(FAST, WITH_COOKIES, "0", MANY);
            const FAST_XDP: Set = &set(FAST, LONG, "0", ["0", "3"]);
            const ONE_BARE: Set = &set(FAST, NONE, "0", ["1", "0"]);
            const ONE_COOKIES: Set = &set(FAST, WITH_COOKIES, "0", ["1", "0"]);
            const ONE_BACKLOG: Set = &set(FAST, LONG, "0", ["1", "0"]);
            const ONE_NFTABLES: Set = &set(FAST, LONG, "0", ["1", "1"]);
            const ONE_GENERIC: Set = &set(FAST, LONG, "0", ["1", "2"]);
            const ONE_NATIVE: Set = &set(FAST, LONG, "0", ["1", "3"]);
            [
                healthy("no flood", "syn_flood", BARE),
                faulty("512/s: no defence", "syn_flood", BARE),
                faulty("512/s: tcp_syncookies 1", "syn_flood", COOKIES),
                faulty("512/s: backlog 16384 instead of 128", "syn_flood", BACKLOG),
                faulty("512/s: tcp_synack_retries 0 instead of 5", "syn_flood", RETRIES),
                faulty("512/s: source filter", "syn_flood", FILTER),
                faulty("full speed: no defence", "syn_flood", FAST_BARE),
                faulty("full speed: tcp_syncookies 1", "syn_flood", FAST_COOKIES),
                faulty("full speed: XDP limit, native", "syn_flood", FAST_XDP),
                faulty("full speed, one source: no defence", "syn_flood", ONE_BARE),
                faulty("one source: tcp_syncookies 1", "syn_flood", ONE_COOKIES),
                faulty("one source: backlog 16384", "syn_flood", ONE_BACKLOG),
                faulty("one source: nftables limit, 16384", "syn_flood", ONE_NFTABLES),
                faulty("one source: XDP limit, generic, 16384", "syn_flood", ONE_GENERIC),
                faulty("one source: XDP limit, native, 16384", "syn_flood", ONE_NATIVE),
            ]
        },
        expected_ns: None,
    },
    Table {
        case: "nat_cost",
        about: "a router that translates against the same router that only forwards",
        rows: &{
            const fn set(
                nat: &'static str,
                new: &'static str,
            ) -> [(&'static str, &'static str); 5] {
                [
                    ("rtt", "0"),
                    ("requests", "3000"),
                    ("response", "500"),
                    ("nat", nat),
                    ("new-connections", new),
                ]
            }
            const DIRECT: &[(&str, &str)] = &set("0", "0");
            const NAT: &[(&str, &str)] = &set("1", "0");
            const DIRECT_NEW: &[(&str, &str)] = &set("0", "1");
            const NAT_NEW: &[(&str, &str)] = &set("1", "1");
            [
                healthy("keep-alive, direct", "nat_cost", DIRECT),
                healthy("keep-alive, DNAT", "nat_cost", NAT),
                healthy("a connection per request, direct", "nat_cost", DIRECT_NEW),
                healthy("a connection per request, DNAT", "nat_cost", NAT_NEW),
            ]
        },
        expected_ns: None,
    },
];
