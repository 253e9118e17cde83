//! Follows the redirects of the target (RFC 9110 §15.4), each after one request.

use super::args::Doctor;
use super::asked::RequestResults;
use super::steps::Steps;
use serde::Serialize;
use std::time::Instant;
use tcpwhy_core::model::units::duration;
use tcpwhy_probe::experiment::Subject;
use tcpwhy_probe::http::Request;
use tcpwhy_probe::target::Ask;
use tcpwhy_probe::{Scheme, Target};

/// Greatest number of redirects that are followed.
pub const REDIRECTS_MAX: u64 = 5;

/// Header fields that only the target itself gets.
const PRIVATE: [&str; 4] = ["authorization", "cookie", "host", "proxy-authorization"];

/// A redirect that was followed: docs/report.schema.json, `doctor.redirects`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Redirect {
    /// The status of the answer.
    pub status: u16,
    /// Where it leads, without values.
    pub to: String,
    /// Time of the request that it answers, with the connection set-up, ns.
    pub took_ns: u64,
}

/// The redirects so far.
pub struct Redirects {
    is_followed: bool,
    /// The targets that were asked.
    asked: Vec<Target>,
    /// The redirects that were followed, in order.
    pub followed: Vec<Redirect>,
    /// The reason for which the last one leads nowhere, as a clause; `None` if it does.
    pub fault: Option<String>,
}

/// Returns whether redirects of the target are followed: requests of other methods than these are
/// not repeated at another place without being asked for.
pub fn are_followed(wanted: &Doctor, target: &Target, request: &Request) -> bool {
    let is_safe = matches!(request.method.as_str(), "GET" | "HEAD");
    // A call of gRPC does not follow any.
    let is_redirected = target.scheme != Scheme::Tcp && target.ask != Ask::HealthCheck;
    !wanted.no_follow && is_safe && is_redirected
}

impl Redirects {
    /// Begins at the target that was named.
    pub fn new(is_followed: bool, target: &Target) -> Redirects {
        Redirects { is_followed, asked: vec![target.clone()], followed: Vec::new(), fault: None }
    }

    /// Returns whether the next redirect is followed.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Returns what to ask next if the answer is a redirect that is followed.
    pub fn next(
        &mut self,
        results: &RequestResults,
        subject: &Subject,
        began: Instant,
        steps: &mut Steps,
    ) -> Option<(Target, Request)> {
        let (status, location) = results.redirect.as_ref().filter(|_| self.is_followed)?;
        let to = results.location.clone().unwrap_or_default();
        let target = match subject.target.follow(location) {
            Ok(target) => target,
            Err(_) => {
                self.stop(format!(
                    "leads with status {status} to {to}, which is no target of HTTP"
                ));
                return None;
            }
        };
        if self.asked.contains(&target) {
            self.stop(format!("leads with status {status} back to {to}: a circle"));
            return None;
        }
        if self.followed.len() as u64 == REDIRECTS_MAX {
            self.stop(format!("redirects more than {REDIRECTS_MAX} times, the last time to {to}"));
            return None;
        }
        let took_ns = results.measured.requests.first().map_or(0, |it| it.wall_ns());
        let took = duration(took_ns);
        steps.done(
            "redirect",
            began,
            format!("status {status} after {took}; {to} is asked instead"),
        );
        let mut request = subject.request.clone();
        if !target.is_same_origin(&subject.target) {
            let is_private = |name: &str| PRIVATE.iter().any(|it| it.eq_ignore_ascii_case(name));
            request.headers.retain(|(name, _)| !is_private(name));
        }
        self.asked.push(target.clone());
        self.followed.push(Redirect { status: *status, to, took_ns });
        Some((target, request))
    }

    /// Follows no further redirect, for this reason.
    pub fn stop(&mut self, fault: String) {
        self.is_followed = false;
        self.fault = Some(fault);
    }

    /// Describes the redirects that were followed in one sentence; `None` if there were none.
    pub fn words(&self) -> Option<String> {
        let steps: Vec<String> =
            self.followed.iter().map(|it| format!("{} to {}", it.status, it.to)).collect();
        let took_ns = self.followed.iter().map(|it| it.took_ns).sum();
        let took = duration(took_ns);
        let steps = Some(steps.join(", ")).filter(|it| !it.is_empty())?;
        Some(format!(
            "redirected: {steps}, which takes clients {took} first; all else is about the last of them \
             (--no-follow examines the first answer)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tcpwhy_core::experiment::OwnRequest;
    use tcpwhy_probe::budget::Budget;
    use tcpwhy_probe::http::Answers;

    fn subject(url: &str) -> Subject {
        let headers =
            vec![("Authorization".into(), "secret".into()), ("Accept".into(), "*".into())];
        Subject {
            target: Target::parse(url).unwrap(),
            server: ([127, 0, 0, 1], 80).into(),
            request: Request { headers, ..Request::get() },
            tls: None,
            versions: tcpwhy_probe::http::HttpVersions::Any,
            timeout: Duration::from_secs(1),
            budget: Budget::none(),
            answers: Answers::default(),
            usual_status: None,
        }
    }

    fn answer(location: &str) -> RequestResults {
        let mut results = RequestResults {
            redirect: Some((302, location.to_owned())),
            location: Some(location.to_owned()),
            ..RequestResults::default()
        };
        results.measured.requests.push(OwnRequest { wait_ns: 7_000_000, ..OwnRequest::default() });
        results
    }

    #[test]
    fn credentials_stay_at_their_origin() {
        let at = subject("http://host/");
        let mut steps = Steps::new(false);
        for (location, names) in
            [("/x", &["Authorization", "Accept"][..]), ("https://host/", &["Accept"])]
        {
            let mut redirects = Redirects::new(true, &at.target);
            let next = redirects.next(&answer(location), &at, Instant::now(), &mut steps);
            let (_, request) = next.expect("it is followed");
            let sent: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(sent, names, "{location}");
            assert_eq!(redirects.followed[0].took_ns, 7_000_000);
        }
    }

    #[test]
    fn a_circle_or_a_long_way_is_a_fault() {
        let at = subject("http://host/");
        let mut steps = Steps::new(false);
        let mut redirects = Redirects::new(true, &at.target);
        let mut follow = |redirects: &mut Redirects, to: &str| {
            redirects.next(&answer(to), &at, Instant::now(), &mut steps).is_some()
        };
        assert!(follow(&mut redirects, "/x") && !follow(&mut redirects, "/"));
        let fault = redirects.fault.expect("a fault");
        assert!(fault.contains("back to /: a circle"), "{fault}");
        let mut redirects = Redirects::new(true, &at.target);
        let ways = (0..10).map(|it| format!("/{it}"));
        assert_eq!(ways.take_while(|to| follow(&mut redirects, to)).count() as u64, REDIRECTS_MAX);
        assert!(!redirects.is_followed() && redirects.fault.is_some());
        let mut redirects = Redirects::new(true, &at.target);
        assert!(!follow(&mut redirects, "mailto:x@host"));
        assert!(redirects.fault.is_some_and(|it| it.contains("no target of HTTP")));
    }
}
