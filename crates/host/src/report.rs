//! Findings of a tcpwhy report (`tcpwhy FILE --json`, docs/report.schema.json), and which of them
//! this host can have caused.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use tcpwhy_core::model::Cause;

/// The fields of a report that are read.
#[derive(Debug, Clone, Deserialize)]
struct Raw {
    schema_version: u64,
    findings: Vec<RawFinding>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawFinding {
    cause: String,
    headline: String,
    culprit: RawCulprit,
    connection: Option<RawConnection>,
    /// Left out by tests alone.
    #[serde(default)]
    facts: serde_json::Value,
}

#[derive(Debug, Clone, Deserialize)]
struct RawCulprit {
    role: String,
    endpoint: String,
}

#[derive(Debug, Clone, Deserialize)]
struct RawConnection {
    client: String,
    server: String,
}

/// Error in a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The text is not JSON, or not the output of `tcpwhy FILE --json`.
    #[error("is no report; `tcpwhy FILE --json` prints one ({0})")]
    NoReport(serde_json::Error),
    /// A later version of tcpwhy wrote it.
    #[error("has schema version {0}, and this tcpwhy reads version 1; use the one that wrote it")]
    Version(u64),
}

/// Location of a finding's culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// On this host: its address is one of the audited namespace.
    Here,
    /// The path between this host and another, or the resolver that this host asks.
    Beside,
    /// The culprit is another host.
    Elsewhere,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Number of the finding in the report, from 1.
    #[cfg_attr(feature = "schemas", schemars(range(min = 1)))]
    pub finding: usize,
    /// The cause of the finding.
    pub cause: Cause,
    /// The headline of the finding.
    pub headline: String,
    /// Role that has to change something: `client`, `server`, `network`, `resolver`, `host`.
    pub role: String,
    /// The culprit's address, with a port where one is meant.
    pub endpoint: String,
    /// The client of the finding's connection.
    pub client: Option<String>,
    /// The server of the finding's connection.
    pub server: Option<String>,
    /// Idleness after which the window had been reset, ns (slow start).
    #[serde(skip)]
    pub idle_ns: Option<u64>,
    /// Location of the culprit.
    pub whose: Whose,
    /// `true` if an entry of the audit explains it.
    pub is_explained: bool,
}

impl Finding {
    /// Returns the address of the culprit, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        ip(&self.endpoint)
    }

    /// Returns the endpoint of the culprit, if it has a port.
    pub fn end(&self) -> Option<SocketAddr> {
        self.endpoint.parse().ok()
    }
}

/// Parses the address in `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`.
fn ip(endpoint: &str) -> Option<IpAddr> {
    let bare = endpoint.trim_start_matches('[').trim_end_matches(']');
    let whole = bare.parse().ok();
    whole.or_else(|| endpoint.parse::<SocketAddr>().ok().map(|end| end.ip()))
}

/// Reads a report. `addresses` are those of this host, `nameservers` the resolvers that it asks.
///
/// # Errors
/// The text is no report, or one of a later version.
pub fn parse(
    text: &[u8],
    addresses: &[IpAddr],
    nameservers: &[IpAddr],
) -> Result<Vec<Finding>, ReportError> {
    let raw: Raw = serde_json::from_slice(text).map_err(ReportError::NoReport)?;
    if raw.schema_version != 1 {
        return Err(ReportError::Version(raw.schema_version));
    }
    let is_own = |ip: IpAddr| ip.is_loopback() || addresses.contains(&ip);
    let findings = raw.findings.into_iter().enumerate().filter_map(|(index, raw)| {
        let client = raw.connection.as_ref().map(|it| it.client.clone());
        let server = raw.connection.map(|it| it.server);
        let ends = [client.as_deref(), server.as_deref()].into_iter().flatten();
        let is_beside = ends.filter_map(ip).any(is_own);
        let culprit = ip(&raw.culprit.endpoint);
        let whose = match raw.culprit.role.as_str() {
            "network" if is_beside || culprit.is_some_and(is_own) => Whose::Beside,
            "resolver" if culprit.is_some_and(|ip| nameservers.contains(&ip)) || is_beside => {
                Whose::Beside
            }
            _ if culprit.is_some_and(is_own) => Whose::Here,
            _ => Whose::Elsewhere,
        };
        Some(Finding {
            finding: index + 1,
            cause: Cause::from_id(&raw.cause)?,
            headline: raw.headline,
            role: raw.culprit.role,
            endpoint: raw.culprit.endpoint,
            client,
            server,
            idle_ns: raw.facts.get("idle_ns").and_then(serde_json::Value::as_u64),
            whose,
            is_explained: false,
        })
    });
    Ok(findings.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(role: &str, endpoint: &str) -> String {
        format!(
            r#"{{"schema_version":1,"findings":[{{"cause":"nagle_delayed_ack","headline":"h",
            "culprit":{{"role":"{role}","endpoint":"{endpoint}"}},
            "connection":{{"client":"10.0.0.1:5000","server":"10.0.0.2:80"}}}}]}}"#
        )
    }

    fn whose(role: &str, endpoint: &str, own: &str) -> Whose {
        let text = report(role, endpoint);
        let resolver = ["9.9.9.9".parse().unwrap()];
        parse(text.as_bytes(), &[own.parse().unwrap()], &resolver).unwrap()[0].whose
    }

    #[test]
    fn a_finding_is_this_hosts_where_the_culprit_has_one_of_its_addresses() {
        assert_eq!(whose("server", "10.0.0.2:80", "10.0.0.2"), Whose::Here);
        assert_eq!(whose("server", "10.0.0.2:80", "10.0.0.1"), Whose::Elsewhere);
        assert_eq!(whose("client", "10.0.0.1", "10.0.0.1"), Whose::Here);
        assert_eq!(whose("server", "[::1]:80", "10.0.0.1"), Whose::Here, "loopback is its own");
        assert_eq!(whose("network", "10.0.0.2:80", "10.0.0.1"), Whose::Beside);
        assert_eq!(whose("resolver", "9.9.9.9:53", "10.9.0.1"), Whose::Beside);
        assert_eq!(whose("resolver", "8.8.8.8:53", "10.9.0.1"), Whose::Elsewhere);
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(matches!(parse(b"{}", &[], &[]), Err(ReportError::NoReport(_))));
        let later = br#"{"schema_version":2,"findings":[]}"#;
        assert!(matches!(parse(later, &[], &[]), Err(ReportError::Version(2))));
    }
}
