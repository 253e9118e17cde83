//! The cases, one file per mechanism.

mod accept_queue_overflow;
mod client_think;
mod dns;
mod http_100_continue;
mod loss;
mod nat;
mod nginx_nodelay_off;
mod receive_window;
mod refused;
mod reset;
mod send_buffer;
mod syn_flood;
mod think;
mod think_real;
mod tls;

use crate::case::Case;

/// All cases, in the order of the list.
pub const CASES: &[Case] = &[
    nginx_nodelay_off::CASE,
    think::SERVER_THINK,
    think::BETWEEN_HEADER_AND_BODY,
    send_buffer::CASE,
    receive_window::CASE,
    receive_window::LAN,
    loss::RANDOM,
    loss::SINGLE,
    loss::TAIL,
    loss::TAIL_PROBED,
    loss::SYN,
    loss::SYN_ACK,
    client_think::BETWEEN_EXCHANGES,
    client_think::IN_UPLOAD,
    refused::REFUSED,
    refused::FILTERED,
    accept_queue_overflow::CASE,
    reset::MID_STREAM,
    reset::IDLE,
    http_100_continue::CASE,
    dns::SLOW,
    dns::UNCACHED,
    dns::DEAD_FIRST,
    dns::SERVFAIL,
    dns::LOST,
    dns::IGNORED,
    dns::SEARCH,
    dns::PING,
    dns::POSTGRES,
    think_real::NGINX,
    think_real::POSTGRES,
    think_real::REDIS,
    think_real::SCRIPT,
    tls::FULL,
    tls::LARGE_CHAIN,
    syn_flood::CASE,
    nat::FULL,
];

#[cfg(test)]
mod tests {
    use super::CASES;
    use crate::rng::Rng;

    #[test]
    fn names_are_unique_and_parameters_do_not_depend_on_anything_but_the_seed() {
        for (index, case) in CASES.iter().enumerate() {
            assert!(
                CASES[..index].iter().all(|other| other.name != case.name),
                "{}",
                case.name
            );
            let draw = |seed| (case.params)(&mut Rng::new(seed));
            assert_eq!(draw(7), draw(7), "{}", case.name);
        }
    }
}
