//! A certificate authority and server certificates, made at run time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate authority with one server certificate for the given names.
#[derive(Clone, Debug)]
pub struct Tls {
    ca_pem: String,
    http1: Arc<ServerConfig>,
    http2: Arc<ServerConfig>,
}

impl Tls {
    /// Makes both; the names may be host names or addresses, such as `rs.test` and `127.0.0.1`.
    pub fn new(names: &[&str]) -> io::Result<Self> {
        let ca = authority().map_err(io::Error::other)?;
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).map_err(io::Error::other)?;
        let certificate = params.signed_by(&key, &ca).map_err(io::Error::other)?;
        let config = |protocols: &[&[u8]]| -> io::Result<Arc<ServerConfig>> {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ServerConfig::builder_with_provider(provider);
            let builder = builder
                .with_safe_default_protocol_versions()
                .map_err(io::Error::other)?;
            let builder = builder.with_no_client_auth();
            let mut config = builder
                .with_single_cert(vec![certificate.der().clone()], key)
                .map_err(io::Error::other)?;
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Ok(Arc::new(config))
        };
        Ok(Self {
            ca_pem: ca.pem(),
            http1: config(&[b"http/1.1"])?,
            http2: config(&[b"h2", b"http/1.1"])?,
        })
    }

    /// The authority's certificate, for the product's `network.ca_file`.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Writes [`Tls::ca_pem`] into a directory and returns the file's path.
    pub fn write_ca(&self, directory: &Path) -> io::Result<PathBuf> {
        let path = directory.join("ca.pem");
        std::fs::write(&path, &self.ca_pem)?;
        Ok(path)
    }

    pub(crate) fn acceptor(&self, http2: bool) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(if http2 { &self.http2 } else { &self.http1 }))
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}
