//! TLS connections to PostgreSQL through rustls. Certificates and host names are always verified.

use std::fmt;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The connector of the pool and the listener.
pub(super) type Connector = MakeRustlsConnect;

/// The certificate authorities that a TLS connection to PostgreSQL trusts. Requires the feature
/// `postgres-tls`.
///
/// # Examples
/// ```no_run
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// use pleach::store::{PostgresStore, PostgresTls};
///
/// let roots = std::fs::read("db-ca.pem")?;
/// let store = PostgresStore::builder("postgres://app:secret@db.internal/app")
///     .tls(PostgresTls::roots_pem(roots))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresTls(Roots);

#[derive(Clone)]
enum Roots {
    System,
    Pem(Vec<u8>),
    Config(Arc<ClientConfig>),
}

impl PostgresTls {
    /// Trusts the certificate authorities that the operating system trusts.
    pub fn system_roots() -> Self {
        Self(Roots::System)
    }

    /// Trusts only the certificates in this PEM text. A self-signed server certificate is its own
    /// root.
    pub fn roots_pem(pem: impl Into<Vec<u8>>) -> Self {
        Self(Roots::Pem(pem.into()))
    }

    /// Uses the given rustls configuration, for example one with a client certificate.
    pub fn config(config: Arc<ClientConfig>) -> Self {
        Self(Roots::Config(config))
    }

    /// Returns the connector, or a text that says which roots are invalid.
    pub(super) fn connector(&self) -> Result<Connector, String> {
        let mut roots = RootCertStore::empty();
        match &self.0 {
            Roots::Config(config) => return Ok(MakeRustlsConnect::new(ClientConfig::clone(config))),
            Roots::System => {
                let found = rustls_native_certs::load_native_certs();
                if roots.add_parsable_certificates(found.certs).0 == 0 {
                    let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                    return Err(format!(
                        "the system has no certificate authorities ({}); install ca-certificates, or pass the roots with `tls`",
                        errors.join(", ")
                    ));
                }
            }
            Roots::Pem(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    let unreadable = |reason: String| format!("the given TLS roots cannot be read: {reason}; pass them as PEM");
                    let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                    roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
                }
                if roots.is_empty() {
                    return Err("the given TLS roots contain no certificate; pass them as PEM".into());
                }
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }
}

impl fmt::Debug for PostgresTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Roots::System => "PostgresTls(system roots)",
            Roots::Pem(_) => "PostgresTls(given roots)",
            Roots::Config(_) => "PostgresTls(given configuration)",
        })
    }
}
