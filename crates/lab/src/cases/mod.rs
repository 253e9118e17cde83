//! The cases, one file per mechanism.

mod accept_queue_overflow;
mod bottleneck;
mod client_buffers;
mod client_nagle;
mod client_nagle_databases;
mod client_think;
mod conntrack_race;
mod distance;
mod distance_tls;
mod dns;
mod failures;
mod healthy;
mod healthy_programs;
mod host_waits;
mod host_work;
mod http2_flow_control;
mod http_100_continue;
mod jdk_httpserver;
mod jvm_gc;
mod loss;
mod mixture;
mod nagle_servers;
mod nat;
mod nat_cost;
mod nginx_nodelay_off;
mod path_faults;
mod port_exhaustion;
mod programs;
mod queries_in_a_row;
mod receive_window;
mod refused;
mod reset;
mod send_buffer;
mod slow_reader;
mod slow_start;
mod syn_flood;
mod think;
mod think_real;
mod tls;

pub use programs::tls_proxy;

use crate::case::Case;

/// All cases, in the order of the list.
pub const CASES: &[Case] = &[
    nginx_nodelay_off::CASE,
    think::SERVER_THINK,
    think::BETWEEN_HEADER_AND_BODY,
    send_buffer::CASE,
    receive_window::CASE,
    receive_window::LAN,
    http2_flow_control::CASE,
    http2_flow_control::LAN,
    loss::RANDOM,
    loss::SINGLE,
    loss::TAIL,
    loss::TAIL_PROBED,
    loss::SYN,
    loss::SYN_ACK,
    client_think::BETWEEN_EXCHANGES,
    client_think::IN_UPLOAD,
    refused::REFUSED,
    refused::REJECTED,
    refused::FILTERED,
    port_exhaustion::CASE,
    accept_queue_overflow::CASE,
    reset::MID_STREAM,
    reset::IDLE,
    failures::CLOSED,
    failures::ERRORS,
    failures::FORGOTTEN,
    http_100_continue::CASE,
    dns::SLOW,
    dns::UNCACHED,
    dns::DEAD_FIRST,
    dns::SERVFAIL,
    dns::LOST,
    dns::IGNORED,
    dns::SEARCH,
    dns::REFUSED,
    dns::SILENT,
    dns::PING,
    dns::POSTGRES,
    think_real::NGINX,
    think_real::POSTGRES,
    think_real::REDIS,
    think_real::SCRIPT,
    queries_in_a_row::CASE,
    host_work::CPU_QUOTA,
    host_work::NOISY_NEIGHBOURS,
    host_work::NODE_LOOP,
    host_work::REDIS_KEYS,
    host_work::WORKERS,
    host_work::LOCK,
    host_work::DISK,
    host_work::PAGES,
    host_waits::JAVA_LOCK,
    host_waits::ROW_LOCK,
    host_waits::COMMITS,
    host_waits::CHAIN,
    host_waits::IDENT,
    host_waits::MEMORY,
    host_waits::QUEUE,
    jvm_gc::CASE,
    tls::FULL,
    tls::LARGE_CHAIN,
    syn_flood::CASE,
    nat::FULL,
    conntrack_race::CASE,
    nat_cost::CASE,
    nagle_servers::OWN,
    nagle_servers::PYTHON,
    nagle_servers::NODE,
    nagle_servers::JAVA,
    nagle_servers::C,
    nagle_servers::GO,
    jdk_httpserver::JDK_17,
    jdk_httpserver::JDK_25,
    client_nagle::CASE,
    client_nagle_databases::REDIS,
    client_nagle_databases::POSTGRES,
    slow_reader::CASE,
    slow_reader::UNANSWERED,
    client_buffers::RECEIVE,
    client_buffers::SEND,
    client_buffers::SLOW_SERVER,
    slow_start::NEW_CONNECTIONS,
    slow_start::AFTER_IDLE,
    distance::PLAIN,
    distance_tls::CASE,
    bottleneck::SHALLOW,
    bottleneck::DEEP,
    path_faults::MTU_BLACK_HOLE,
    path_faults::REORDERING,
    path_faults::DUPLICATES,
    mixture::CASE,
    healthy::KEEP_ALIVE,
    healthy::DOWNLOADS,
    healthy::UPLOADS,
    healthy::SHORT_CONNECTIONS,
    healthy::LAN,
    healthy::NAGLE_ON,
    healthy::PACED_STREAM,
    healthy_programs::NGINX,
    healthy_programs::REDIS,
    healthy_programs::PSQL,
    healthy_programs::POSTGRES,
    healthy_programs::TLS,
    healthy_programs::PIPELINING,
    healthy_programs::CHAT,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CASES;
    use crate::case::drawn;
    use crate::params;

    #[test]
    fn names_are_unique_and_parameters_do_not_depend_on_anything_but_the_seed() {
        for (index, case) in CASES.iter().enumerate() {
            assert!(CASES[..index].iter().all(|other| other.name != case.name), "{}", case.name);
            assert_eq!(drawn(case, 7), drawn(case, 7), "{}", case.name);
        }
    }

    #[test]
    fn parameters_of_a_case_differ_in_more_than_their_unit() {
        for case in CASES {
            let params = drawn(case, 1);
            let options: BTreeSet<String> =
                params.iter().map(|(n, _)| params::option(n).0).collect();
            assert_eq!(options.len(), params.iter().count(), "{}", case.name);
        }
    }
}
