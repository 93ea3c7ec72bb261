//! A certificate authority and server certificates, made at run time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// A certificate authority with one server certificate for the given names.
#[derive(Clone, Debug)]
pub struct Tls {
    ca_pem: String,
    client: Arc<ClientConfig>,
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
            client: client(ca.der())?,
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

    /// Connects as a client that trusts the authority.
    pub(crate) async fn connect(
        &self,
        host: &str,
        tcp: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.client));
        Ok(connector.connect(name, tcp).await?.into())
    }
}

fn client(ca: &CertificateDer<'static>) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}
