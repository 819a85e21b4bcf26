//! TLS of a connection: both machines show a certificate of the CA of their fabric.

use std::io::{Error, ErrorKind, IoSlice, Read, Result, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};

/// Plaintext that one record brings, at most.
const RECORD: usize = 1 << 14;
/// Bytes of one read, at most.
const ARRIVED: usize = 256 << 10;

/// TLS 1.3; AES-128 costs three quarters of what AES-256 does.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites =
        vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

fn wrong(error: impl std::fmt::Display) -> Error {
    Error::other(error.to_string())
}

/// Accepts each certificate of the fabric's CA, for any address: Python compares the name in it with that of
/// the machine.
#[derive(Debug)]
struct OfTheFabric {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OfTheFabric {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let known = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, between, now, known)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 is right".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Return one end of a connection. `ca`, `certificate`, `key`: files in PEM.
pub fn begin(ca: &Path, certificate: &Path, key: &Path, accepts: bool) -> Result<Connection> {
    let provider = provider();
    let mut roots = RootCertStore::empty();
    for one in CertificateDer::pem_file_iter(ca).map_err(wrong)? {
        roots.add(one.map_err(wrong)?).map_err(wrong)?;
    }
    let roots = Arc::new(roots);
    let chain = CertificateDer::pem_file_iter(certificate).map_err(wrong)?;
    let chain = chain.collect::<std::result::Result<Vec<_>, _>>().map_err(wrong)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(wrong)?;
    if accepts {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(wrong)?
            .with_client_cert_verifier(verifier.map_err(wrong)?)
            .with_single_cert(chain, key)
            .map_err(wrong)?;
        return Ok(ServerConnection::new(Arc::new(config)).map_err(wrong)?.into());
    }
    let verifier = Arc::new(OfTheFabric { roots, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(wrong)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain, key)
        .map_err(wrong)?;
    let name = ServerName::try_from("opavnic").map_err(wrong)?;
    Ok(ClientConnection::new(Arc::new(config), name).map_err(wrong)?.into())
}

/// One end of a connection, between what is sent in plain and what is on the wire.
pub struct Session {
    connection: Connection,
    /// What has come over the wire and has not been decrypted: the bytes from `begin` to `end`.
    arrived: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Session {
    /// Shake hands over a socket, which blocks.
    pub fn shake_hands(mut connection: Connection, mut socket: impl Read + Write) -> Result<Self> {
        connection.set_buffer_limit(None);
        while connection.is_handshaking() || connection.wants_write() {
            connection.complete_io(&mut socket)?;
        }
        Ok(Session { connection, arrived: vec![0; ARRIVED], begin: 0, end: 0 })
    }

    /// The certificate of the other machine.
    pub fn certificate(&self) -> Option<&[u8]> {
        self.connection.peer_certificates()?.first().map(|one| &**one)
    }

    /// Encrypt all parts, for `send`.
    pub fn encrypt(&mut self, parts: &[IoSlice<'_>]) -> Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        // one call, so that many parts share a record
        let count = self.connection.writer().write_vectored(parts)?;
        debug_assert_eq!(count, len, "there is no limit");
        Ok(())
    }

    /// Put on the wire what has been encrypted, without a copy of it; what is left after an error is sent by the next call.
    pub fn send(&mut self, wire: &mut impl Write) -> Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(wire) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                sent => _ = sent?,
            }
        }
        Ok(())
    }

    /// Take what has come over the wire; `read` gets room for it, and does not wait.
    pub fn arrive(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<usize> {
        self.arrived.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let count = read(&mut self.arrived[self.end..])?;
        self.end += count;
        Ok(count)
    }

    /// Decrypt what has come, as far as it fits; return how many bytes it is, and whether the other end has closed.
    pub fn decrypt(&mut self, plain: &mut [u8]) -> Result<(usize, bool)> {
        let mut count = 0;
        loop {
            let mut closed = false;
            while count < plain.len() && !closed {
                match self.connection.reader().read(&mut plain[count..]) {
                    Ok(more) => {
                        count += more;
                        closed = more == 0;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            let is_full = count > 0 && plain.len() - count < RECORD;
            if closed || is_full || self.begin == self.end {
                return Ok((count, closed));
            }
            self.begin += self.connection.read_tls(&mut &self.arrived[self.begin..self.end])?;
            self.connection.process_new_packets().map_err(wrong)?;
        }
    }
}
