//! Requests and responses in HTTP/2 (RFC 9113 §8.3).

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request as Head, Uri, Version};

use super::session::Http2Error;
use crate::http::{Request, Response, RetryAfter, grpc};
use crate::target::{Ask, Scheme, Target};

/// Fields of a connection, which HTTP/2 does not have (RFC 9113 §8.2.2).
const OF_CONNECTION: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// A request that can be sent on many streams.
#[derive(Clone, Debug)]
pub struct Prepared {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// The body.
    pub(super) body: Bytes,
    /// `true` if it is a health check of gRPC.
    pub(super) is_health_check: bool,
    /// Bytes of the names and values of its fields and of its body.
    bytes: usize,
}

impl Prepared {
    /// Translates a request to `target`: `Host` becomes `:authority`, fields of a connection are left
    /// out, and names are in lower case. A health check of gRPC has a method and a body of its own.
    ///
    /// # Errors
    /// The method, the path or a field is not valid.
    pub fn new(request: &Request, target: &Target) -> Result<Prepared, Http2Error> {
        let invalid = |what: &str| Http2Error::Request(format!("{what} is not valid"));
        let is_host = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("host");
        let authority = request.headers.iter().find(is_host).map(|(_, value)| value.clone());
        let scheme = if target.scheme == Scheme::Https { "https" } else { "http" };
        let is_health_check = target.ask == Ask::HealthCheck;
        if is_health_check && (request.method != "GET" || !request.body.is_empty()) {
            let why = "a health check of gRPC has a method and a body of its own";
            return Err(Http2Error::Request(why.to_owned()));
        }
        let (method, body) = match is_health_check {
            true => ("POST", grpc::health_check(target.service())),
            false => (request.method.as_str(), request.body.clone()),
        };
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(authority.unwrap_or_else(|| target.authority()))
            .path_and_query(if is_health_check { grpc::PATH } else { target.path.as_str() })
            .build()
            .map_err(|_| invalid("the URL"))?;
        let method = method.parse().map_err(|_| invalid("the method"))?;
        let mut headers = HeaderMap::new();
        let own = concat!("tcpwhy/", env!("CARGO_PKG_VERSION"));
        headers.insert(http::header::USER_AGENT, HeaderValue::from_static(own));
        if is_health_check {
            headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
            let content_type = HeaderValue::from_static(grpc::CONTENT_TYPE);
            headers.insert(http::header::CONTENT_TYPE, content_type);
        } else if !body.is_empty() {
            headers.insert(http::header::CONTENT_LENGTH, body.len().into());
        }
        let mut named = HeaderMap::new();
        for (name, value) in &request.headers {
            let lower = name.to_ascii_lowercase();
            if lower == "host" || OF_CONNECTION.contains(&lower.as_str()) {
                continue;
            }
            let name: HeaderName = lower.parse().map_err(|_| invalid("a header field"))?;
            let value: HeaderValue = value.parse().map_err(|_| invalid("a header field"))?;
            named.append(name, value);
        }
        for name in named.keys() {
            headers.remove(name);
        }
        headers.extend(named);
        let fields: usize = headers.iter().map(|(name, it)| name.as_str().len() + it.len()).sum();
        let bytes = fields + uri.to_string().len() + body.len();
        Ok(Prepared { method, uri, headers, body: body.into(), is_health_check, bytes })
    }

    /// Returns the bytes of its fields and its body, before compression.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn head(&self) -> Head<()> {
        let mut head = Head::new(());
        *head.method_mut() = self.method.clone();
        *head.uri_mut() = self.uri.clone();
        *head.version_mut() = Version::HTTP_2;
        *head.headers_mut() = self.headers.clone();
        head
    }
}

/// Returns what is kept of a response. A terse one has `server` no more, and `location` only of a
/// redirect.
pub(super) fn response(head: &http::response::Parts, is_terse: bool) -> Response {
    let status = head.status.as_u16();
    let field = |name: HeaderName| head.headers.get(name).map(|it| it.as_bytes().trim_ascii());
    let mut it = Response { status, ..Response::default() };
    let is_redirect = (300..400).contains(&status);
    if let Some(value) = field(http::header::LOCATION).filter(|_| !is_terse || is_redirect) {
        it.lead_to(value, is_redirect && !is_terse);
    }
    if let Some(value) = field(http::header::SERVER).filter(|_| !is_terse) {
        it.server = tcpwhy_core::app::software_name(value).map(str::to_owned);
    }
    if let Some(value) = field(http::header::RETRY_AFTER).filter(|_| matches!(status, 429 | 503)) {
        it.retry_after = Some(RetryAfter::read(value));
    }
    it
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_connection_are_left_out_and_host_is_the_authority() {
        let target = Target::parse("http://127.0.0.1:8080/a?b=c").unwrap();
        let mut request = Request { body: b"x".to_vec(), ..Request::get() };
        for (name, value) in [
            ("Host", "name.test"),
            ("Connection", "close"),
            ("X-Two", "1"),
            ("x-two", "2"),
            ("User-Agent", "mine"),
        ] {
            request.headers.push((name.to_owned(), value.to_owned()));
        }
        let prepared = Prepared::new(&request, &target).unwrap();
        let head = prepared.head();
        assert_eq!(head.uri().to_string(), "http://name.test/a?b=c");
        let fields: Vec<_> = head.headers().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(fields, ["content-length", "x-two", "x-two", "user-agent"]);
        assert_eq!(head.headers()["user-agent"], "mine");
    }
}
