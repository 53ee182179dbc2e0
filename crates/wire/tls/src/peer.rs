//! An accepted or made connection, and who is at the other end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;
use tonic::transport::server::Connected;

use crate::facts::CertSummary;
use crate::identity::PeerIdentity;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Somebody with an identity.
    Identified {
        /// Who.
        identity: PeerIdentity,
        /// The certificate that says so.
        certificate: CertSummary,
    },
    /// Somebody with a good certificate that gives no identity, let in by policy.
    Unidentified {
        /// The certificate.
        certificate: CertSummary,
    },
    /// A client that was not asked for a certificate.
    WithoutCertificate,
    /// Anybody: the connection is not protected.
    Insecure,
}

impl Peer {
    /// The identity, if there is one.
    pub fn identity(&self) -> Option<&PeerIdentity> {
        match self {
            Self::Identified { identity, .. } => Some(identity),
            Self::Unidentified { .. } | Self::WithoutCertificate | Self::Insecure => None,
        }
    }

    /// The peer's own certificate, if it showed one.
    pub fn certificate(&self) -> Option<&CertSummary> {
        match self {
            Self::Identified { certificate, .. } | Self::Unidentified { certificate } => {
                Some(certificate)
            }
            Self::WithoutCertificate | Self::Insecure => None,
        }
    }
}

/// What handlers learn about the connection of a request:
/// `request.extensions().get::<TlsConnectInfo>()`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TlsConnectInfo(Arc<ConnectionFacts>);

#[derive(Debug)]
struct ConnectionFacts {
    peer_addr: SocketAddr,
    peer: Peer,
}

impl TlsConnectInfo {
    pub(crate) fn new(peer_addr: SocketAddr, peer: Peer) -> Self {
        Self(Arc::new(ConnectionFacts { peer_addr, peer }))
    }

    /// Where the peer connects from, or is.
    pub fn peer_addr(&self) -> SocketAddr {
        self.0.peer_addr
    }

    /// Who the peer is.
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }
}

/// A connection, protected or expressly not.
#[derive(Debug)]
pub struct TlsIo {
    transport: Transport,
    info: TlsConnectInfo,
}

#[derive(Debug)]
enum Transport {
    Tls(Box<TlsStream<TcpStream>>),
    Plain(TcpStream),
}

impl TlsIo {
    pub(crate) fn tls(stream: TlsStream<TcpStream>, info: TlsConnectInfo) -> Self {
        Self {
            transport: Transport::Tls(Box::new(stream)),
            info,
        }
    }

    pub(crate) fn plain(stream: TcpStream, info: TlsConnectInfo) -> Self {
        Self {
            transport: Transport::Plain(stream),
            info,
        }
    }

    /// Who is at the other end.
    pub fn info(&self) -> &TlsConnectInfo {
        &self.info
    }

    /// The application protocol both sides agreed on (ALPN).
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.transport {
            Transport::Tls(stream) => stream.get_ref().1.alpn_protocol(),
            Transport::Plain(_) => None,
        }
    }

    /// The certificates the peer showed, its own first.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        match &self.transport {
            Transport::Tls(stream) => stream.get_ref().1.peer_certificates(),
            Transport::Plain(_) => None,
        }
    }
}

impl Connected for TlsIo {
    type ConnectInfo = TlsConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.info.clone()
    }
}

impl AsyncRead for TlsIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for TlsIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Tls(stream) => stream.is_write_vectored(),
            Transport::Plain(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
