//! A server to examine: resolved, with the address that is measured.

use super::Opened;
use super::args::Doctor;
use super::error::DoctorError;
use super::names::{self, Resolved};
use super::steps::Steps;
use super::traffic::Traffic;
use std::time::{Duration, Instant};
use tcpwhy_core::model::Finding;
use tcpwhy_probe::addresses::Addresses;
use tcpwhy_probe::experiment::Subject;
use tcpwhy_probe::http::{Answers, Request};
use tcpwhy_probe::tls::{TlsOptions, client_config};
use tcpwhy_probe::{Scheme, Target};

/// A target that resolves.
pub struct Place {
    pub subject: Subject,
    /// Time of the look-up of its name, ns.
    pub lookup_ns: u64,
    pub addresses: Addresses,
}

/// Finds the places of the target and of those to which it redirects.
pub struct Places<'a> {
    wanted: &'a Doctor,
    opened: &'a Opened,
    traffic: &'a Traffic,
    answers: Answers,
    /// The faults of name servers.
    pub named: Vec<Finding>,
    /// Time of the last look-up, ns.
    pub lookup_ns: u64,
}

impl<'a> Places<'a> {
    pub fn new(wanted: &'a Doctor, opened: &'a Opened, traffic: &'a Traffic) -> Places<'a> {
        let (answers, named, lookup_ns) = (Answers::default(), Vec::new(), 0);
        Places { wanted, opened, traffic, answers, named, lookup_ns }
    }

    /// Resolves a target and chooses its address; `None` if name servers prevent it.
    ///
    /// # Errors There is no such name, or TLS cannot be used.
    pub fn find(
        &mut self,
        target: Target,
        request: Request,
        steps: &mut Steps,
    ) -> Result<Option<Place>, DoctorError> {
        let (all, lookup_ns) = match names::resolve(&target, &self.traffic.queries(), steps)? {
            Resolved::Found { addresses, lookup_ns, findings } => {
                self.named.extend(findings);
                (addresses, lookup_ns)
            }
            Resolved::Failed { lookup_ns, findings } => {
                self.named.extend(findings);
                self.lookup_ns = lookup_ns;
                return Ok(None);
            }
        };
        let timeout = Duration::from_nanos(self.wanted.timeout);
        let began = Instant::now();
        let addresses = Addresses::choose(&all, timeout, &self.traffic.addresses())
            .ok_or_else(|| DoctorError::NoAddress { host: target.host.clone() })?;
        if !addresses.tried.is_empty() {
            steps.done("addresses", began, addresses.described());
        }
        let versions = self.opened.tls.versions.of_target(&target);
        let tls = match target.scheme {
            Scheme::Https => {
                let alone = TlsOptions { resume: false, versions, ..self.opened.tls.clone() };
                Some(client_config(&alone)?)
            }
            Scheme::Http | Scheme::Tcp => None,
        };
        let subject = Subject {
            target,
            server: addresses.used,
            request,
            tls,
            versions,
            timeout,
            budget: self.traffic.alone(),
            answers: self.answers.clone(),
            usual_status: None,
        };
        Ok(Some(Place { subject, lookup_ns, addresses }))
    }
}
