//! curl as the client, for its own clock, glibc's resolver and OpenSSL's handshakes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use crate::client::{Loaded, Request};
use crate::dns;
use crate::error::{Doing, LabError};
use crate::netns::run;
use crate::stage::Stage;
use crate::sys;

/// The format of curl's report after each transfer. Times are in seconds since the start of the
/// transfer.
const REPORT: &str = "%{time_total} %{time_namelookup} %{time_connect} %{time_appconnect} \
                      %{local_ip} %{local_port} %{remote_ip} %{remote_port} \
                      %{size_request} %{size_upload} %{size_header} %{size_download} %{exitcode} \
                      %{errormsg}\n";

/// Runs one curl in the client's namespace with `args` (options and URLs) and returns each of its
/// transfers. `resolv_conf` replaces `/etc/resolv.conf` for this process only.
///
/// # Errors curl is missing. Failed transfers are results, not errors.
pub fn transfers(
    stage: &Stage,
    args: &[String],
    resolv_conf: Option<&Path>,
) -> Result<Loaded, LabError> {
    let mut command = match resolv_conf {
        Some(path) => dns::command(&stage.client, path, "curl"),
        None => stage.client.command("curl"),
    };
    command.args(["--silent", "--output", "/dev/null", "--write-out", REPORT]);
    command.args(["--noproxy", "*"]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    let missing =
        |_| LabError::Missing { program: "curl".to_owned(), package: "curl util-linux".to_owned() };
    let began_ns = sys::realtime_ns();
    let mut child = command.spawn().map_err(missing)?;
    let mut loaded = Loaded::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            // Read before parsing, because it is the end of the transfer.
            let end_ns = sys::realtime_ns();
            let line = line.doing("read from curl")?;
            loaded.requests.extend(transfer(&line, end_ns));
        }
    }
    child.wait().doing("wait for curl")?;
    one_after_the_other(&mut loaded.requests);
    failed_look_up(&mut loaded.requests, began_ns);
    Ok(loaded)
}

/// curl writes its lines to a pipe when it ends, so their arrival only shows the end of the last
/// transfer. Each transfer began when the previous one ended.
fn one_after_the_other(requests: &mut [Request]) {
    let mut next_start_ns = u64::MAX;
    for request in requests.iter_mut().rev() {
        let took_ns = request.took_ns();
        request.end_ns = request.end_ns.min(next_start_ns);
        request.start_ns = request.end_ns - took_ns.min(request.end_ns);
        next_start_ns = request.start_ns;
    }
}

/// While curl waits for its resolver it reads the clock every 250 ms or less often, and if the
/// look-up fails it reports the last value. The first transfer began when curl did.
fn failed_look_up(requests: &mut [Request], began_ns: u64) {
    let failed = requests.first_mut().filter(|it| it.error.is_some() && it.lookup_ns == 0);
    if let Some(request) = failed {
        request.start_ns = began_ns.min(request.start_ns);
    }
}

fn transfer(line: &str, end_ns: u64) -> Option<Request> {
    let words: Vec<&str> = line.splitn(14, ' ').collect();
    let [
        total,
        lookup,
        connect,
        tls,
        ip,
        port,
        server_ip,
        server_port,
        head,
        body,
        answer,
        content,
        code,
        why,
    ] = <[&str; 14]>::try_from(words).ok()?;
    let ns = |seconds: &str| seconds.parse::<f64>().map_or(0, |s| (s * 1e9) as u64);
    let count = |text: &str| text.parse::<u64>().unwrap_or(0);
    let endpoint = |ip: &str, port: &str| {
        let addr = ip.parse().map(|ip| SocketAddr::new(ip, count(port) as u16));
        addr.map(|a| a.to_string()).unwrap_or_default()
    };
    Some(Request {
        start_ns: end_ns - ns(total).min(end_ns),
        end_ns,
        lookup_ns: ns(lookup),
        connect_ns: ns(connect).saturating_sub(ns(lookup)),
        // curl reports 0 if there is no TLS.
        tls_ns: ns(tls).saturating_sub(ns(connect)),
        client_endpoint: endpoint(ip, port),
        server_endpoint: endpoint(server_ip, server_port),
        request_bytes: count(head) + count(body),
        response_bytes: count(answer) + count(content),
        on_wire_ns: None,
        error: (code != "0").then(|| why.to_owned()),
    })
}

/// Returns curl and its version, for the labels.
pub fn version() -> (String, String) {
    let said = run("curl", &["--version"]).unwrap_or_default();
    let first = said.lines().next().unwrap_or_default();
    ("curl".to_owned(), first.trim_start_matches("curl ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::{failed_look_up, one_after_the_other, transfer};
    use crate::client::Request;

    #[test]
    fn lines_that_come_together_are_of_transfers_that_did_not() {
        let line = |start_ns| Request { start_ns, end_ns: 900, ..Default::default() };
        let mut requests = [line(600), line(700)];
        one_after_the_other(&mut requests);
        let times = requests.map(|request| (request.start_ns, request.end_ns));
        assert_eq!(times, [(400, 700), (700, 900)]);
    }

    #[test]
    fn a_look_up_that_failed_began_with_curl() {
        let failed = "1.790 0 0 0  0  0 0 0 0 0 6 Could not resolve host: api.shop.lab";
        let mut requests = [transfer(failed, 3_000_000_000).unwrap_or_default()];
        failed_look_up(&mut requests, 990_000_000);
        assert_eq!((requests[0].start_ns, requests[0].end_ns), (990_000_000, 3_000_000_000));
        let answered = "0.250 0.200 0.210 0.000 10.0.0.1 4711 10.0.0.2 80 80 0 120 500 0 ";
        let mut requests = [transfer(answered, 1_000_000_000).unwrap_or_default()];
        failed_look_up(&mut requests, 0);
        assert_eq!(requests[0].start_ns, 750_000_000, "curl's clock");
    }

    #[test]
    fn the_look_up_is_no_part_of_connect() {
        let line = "0.250 0.200 0.210 0.000 10.0.0.1 4711 10.0.0.2 80 80 0 120 500 0 ";
        let request = transfer(line, 1_000_000_000).unwrap_or_default();
        assert_eq!((request.start_ns, request.lookup_ns), (750_000_000, 200_000_000));
        assert_eq!(request.connect_ns, 10_000_000);
        assert_eq!(request.client_endpoint, "10.0.0.1:4711");
        assert_eq!(request.error, None);
    }
}
