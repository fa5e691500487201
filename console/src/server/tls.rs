//! [`Tls`]: connections with TLS 1.2 or 1.3.

use super::accept::{Accept, Connection, Opening};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Opens connections with a certificate.
pub(crate) struct Tls(TlsAcceptor);

impl Tls {
    /// Reads a certificate, with the chain to its root, and its private key, both in PEM
    /// format. The error says what is wrong, without the key.
    pub(crate) fn new(certificates: &[u8], key: &[u8]) -> Result<Self, String> {
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("the certificate is not PEM: {error}"))?;
        if certificates.is_empty() {
            return Err("there is no certificate in the text; give it in PEM format".to_string());
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| "there is no private key in the text; give it in PEM format, without a password".to_string())?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
            .map_err(|error| format!("the certificate and the key cannot be used: {error}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

impl Accept for Tls {
    fn accept(&self, stream: TcpStream) -> Opening {
        let opening = self.0.accept(stream);
        Box::pin(async move {
            let connection: Box<dyn Connection> = Box::new(opening.await?);
            Ok(connection)
        })
    }

    fn scheme(&self) -> &'static str {
        "https"
    }
}
