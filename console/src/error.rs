//! [`ConsoleError`]: why a console did not start.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a console did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConsoleError {
    /// The address can be reached from other machines, and there is no TLS.
    NotLoopback(SocketAddr),
    /// The address can be reached from other machines, and the console does not know its name.
    NoHost(SocketAddr),
    /// The name of the address has no address.
    NoAddress,
    /// The console has neither a process nor a store.
    NothingToShow,
    /// An option has a wrong value.
    Option {
        /// The name of the option.
        name: &'static str,
        /// Why it is refused.
        text: String,
    },
    /// The address cannot be used.
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The operating system gives no random numbers for the token.
    NoRandomness(String),
}

impl fmt::Display for ConsoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback(addr) => write!(
                f,
                "address {addr} can be reached from other machines; use 127.0.0.1 and forward the port with `ssh -L`, \
                 or give the console a certificate with `tls` and its name with `host`"
            ),
            Self::NoHost(addr) => write!(
                f,
                "address {addr} can be reached from other machines, and the console does not know by which name; add the \
                 name that people enter in the browser with `host`"
            ),
            Self::NoAddress => f.write_str("the name of the address is unknown; use an address such as 127.0.0.1:0"),
            Self::NothingToShow => f.write_str("the console has nothing to show; add a system, a socket or a store"),
            Self::Option { name, text } => write!(f, "option {name} is wrong: {text}"),
            Self::Listen { addr, error } => write!(f, "cannot listen on {addr}: {error}; use port 0 for a free port"),
            Self::NoRandomness(text) => write!(f, "cannot make a token: {text}"),
        }
    }
}

impl std::error::Error for ConsoleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { error, .. } => Some(error),
            _ => None,
        }
    }
}
