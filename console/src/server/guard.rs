//! Who may ask. The guard is the outermost layer: what it does not allow never reaches a route.
//!
//! A request needs, in this order:
//! 1. one `Host`, which is a name of this console. A page of another name that resolves to this
//!    machine is refused here;
//! 2. no foreign `Origin`, and no `Sec-Fetch-Site` other than `same-origin` and `none`. Only a page
//!    may be opened by a link of another site, in a tab of its own: it has no data;
//! 3. the token in `Authorization`, except for the files of the page, which contain no data.
//!
//! There is no cookie, so a page of another origin has nothing to ride on.

use crate::failure::Failure;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{Request, Uri};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use subtle::ConstantTimeEq as _;

/// Bytes of randomness in a token. Its URL fits in a terminal of 80 columns.
const TOKEN_BYTES: usize = 16;

/// The secret that every request needs. It is compared in constant time and never logged.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Makes a random token.
    pub(crate) fn random() -> Result<Self, String> {
        random_text(TOKEN_BYTES).map(Self)
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Returns random bytes as hexadecimal text.
pub(crate) fn random_text(bytes: usize) -> Result<String, String> {
    let mut random = vec![0_u8; bytes];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What the guard asks for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteKind {
    /// A page: needs no token, and a link of another site may open it.
    Page,
    /// A file of a page: needs no token.
    File,
    /// Data, and anything unknown: needs the token.
    Data,
}

/// What the guard knows.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) token: Token,
    /// Names of this console besides those of the loopback interface, in lower case, with the port
    /// if it is not the usual one.
    pub(crate) hosts: Vec<String>,
    /// Whether the names of the loopback interface are names of this console, with any port: the
    /// port may be forwarded.
    pub(crate) is_loopback: bool,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
}

impl Guard {
    /// Refuses what must not reach a route.
    pub(crate) fn check<B>(&self, request: &Request<B>, kind: RouteKind) -> Result<(), Failure> {
        let headers = request.headers();
        let host = self.check_host(request.uri(), headers)?;
        self.check_origin(headers, &host, kind == RouteKind::Page)?;
        if kind == RouteKind::Data { self.check_token(headers) } else { Ok(()) }
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, Failure> {
        let host = single(headers, &header::HOST)?.map(str::to_ascii_lowercase);
        let is_plain = uri.authority().is_none() && uri.scheme().is_none();
        match host {
            Some(host) if is_plain && (self.hosts.contains(&host) || self.is_loopback && is_loopback(&host)) => Ok(host),
            _ => Err(forbidden("the Host of the request is not an address of this console")),
        }
    }

    fn check_origin(&self, headers: &HeaderMap, host: &str, is_page: bool) -> Result<(), Failure> {
        let own = format!("{}://{host}", self.scheme);
        if single(headers, &header::ORIGIN)?.is_some_and(|origin| !origin.eq_ignore_ascii_case(&own)) {
            return Err(forbidden("the request comes from a page of another origin"));
        }
        let fetch = |name| single(headers, &HeaderName::from_static(name));
        match fetch("sec-fetch-site")? {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_)
                if is_page && fetch("sec-fetch-mode")? == Some("navigate") && fetch("sec-fetch-dest")? == Some("document") =>
            {
                Ok(())
            }
            Some(_) => Err(forbidden("the request comes from a page of another site")
                .advice("enter the address of the console in the browser instead of following a link")),
        }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let given = single(headers, &header::AUTHORIZATION)?.and_then(|given| given.strip_prefix("Bearer "));
        if given.is_some_and(|given| self.token.is(given.as_bytes())) {
            return Ok(());
        }
        Err(Failure::new("unauthorized", "the request has no token, or one of another console")
            .advice("open the URL that the console printed when it started"))
    }
}

/// Returns the values of `Host` that names of the console have, in lower case: for a name without a
/// port, that with the port of the console and that without one.
///
/// # Errors
/// Says which name is wrong.
pub(crate) fn host_names(names: &[String], port: u16) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for name in names {
        let host = name.to_ascii_lowercase();
        let (own, given) = match host.rsplit_once(':') {
            Some((own, port)) if !own.ends_with(':') && (!own.contains(':') || own.ends_with(']')) => (own, Some(port)),
            _ => (host.as_str(), None),
        };
        let is_port = given.is_none_or(|port| port.parse::<u16>().is_ok());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let address = own.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        let is_name = match address {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => !own.is_empty() && own.bytes().all(is_plain),
        };
        if !is_name || !is_port {
            return Err(format!("{name:?} is not a name such as console.example.org or console.example.org:8443"));
        }
        if given.is_none() {
            hosts.push(format!("{own}:{port}"));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

fn forbidden(text: &str) -> Failure {
    Failure::new("forbidden", text)
}

/// Returns the value of a header that may be there once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Failure> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| forbidden("a header has characters that are not text")),
        _ => Err(forbidden("a header is there twice")),
    }
}

/// Returns whether `host` names the loopback interface, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if name == "localhost" {
        return true;
    }
    let address = match name.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').unwrap_or_default(),
        None if name.contains(':') => "",
        None => name,
    };
    address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k7_only_loopback_names_are_names_of_a_loopback_console() {
        for host in ["localhost", "localhost:80", "127.0.0.1:4000", "127.9.9.9", "[::1]:4000", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:",
            "localhost:80:80",
            "::1",
            "[::1",
            "[::1]:x",
            "0.0.0.0:80",
            "[::]",
            "10.0.0.1",
            "localhost.",
            "127.0.0.1@evil.example",
            "2130706433",
            "127.1",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn k7_names_of_a_console_are_exact() {
        let hosts = |name: &str| host_names(&[name.to_string()], 8443);
        assert_eq!(hosts("Console.Example"), Ok(vec!["console.example:8443".to_string(), "console.example".to_string()]));
        assert_eq!(hosts("console.example:444"), Ok(vec!["console.example:444".to_string()]));
        assert_eq!(hosts("[fe80::1]:444"), Ok(vec!["[fe80::1]:444".to_string()]));
        for wrong in
            ["", "https://a", "a/b", "a b", "a:b", ":8443", "*", "*.example", "fe80::1", "[fe80::1", "a@b", "a:99999", "ä"]
        {
            assert!(hosts(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn k7_tokens_are_random_and_not_shown() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.text().len(), 2 * TOKEN_BYTES);
        assert!(one.is(one.text().as_bytes()) && !one.is(other.text().as_bytes()) && !one.is(b""));
        assert_eq!(format!("{one:?}"), "Token(..)");
    }
}
