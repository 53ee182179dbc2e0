//! Asking other servers, in a way that is hard to answer for anyone else.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::message::{HEADER, Match, Query, Transport, is_truncated, matches};

/// Longer answers come by TCP.
const LONGEST_DATAGRAM: usize = 4096;

/// A question to be put to other servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// What the client asked; answers come back under its id and capitals.
    pub(crate) query: &'a Query<'a>,
    /// What is sent: it begins as the query does.
    pub(crate) packet: &'a [u8],
    pub(crate) transport: Transport,
}

/// Asks one server, for `patience`. `None` if it says nothing.
pub(crate) async fn ask(
    server: SocketAddr,
    asked: Asked<'_>,
    patience: Duration,
) -> Option<Vec<u8>> {
    match timeout(patience, exchange(server, asked)).await {
        Ok(Ok(answer)) => return Some(answer),
        Ok(Err(error)) => tracing::debug!(%server, %error, "a name server cannot be asked"),
        Err(_) => tracing::debug!(%server, "a name server does not answer"),
    }
    None
}

async fn exchange(server: SocketAddr, asked: Asked<'_>) -> io::Result<Vec<u8>> {
    let disguised = Disguise::new(asked)?;
    let answer = match asked.transport {
        Transport::Udp => match by_udp(server, &disguised).await? {
            Some(answer) => answer,
            // It does not keep capitals, so nothing tells its answer from a forged one; a connection does.
            None => by_tcp(server, &disguised).await?,
        },
        Transport::Tcp => by_tcp(server, &disguised).await?,
    };
    Ok(restore(answer, asked.query))
}

/// Puts the client's own id and question into an answer, which must be one to that question but for capitals.
pub(crate) fn restore(mut answer: Vec<u8>, query: &Query<'_>) -> Vec<u8> {
    let question = query.question();
    answer[..2].copy_from_slice(&query.packet()[..2]);
    answer[HEADER..HEADER + question.len()].copy_from_slice(question);
    answer
}

/// A query under a random id, with random capitals.
struct Disguise {
    packet: Vec<u8>,
    question_end: usize,
}

impl Disguise {
    fn new(asked: Asked<'_>) -> io::Result<Self> {
        let mut packet = asked.packet.to_vec();
        let question_end = HEADER + asked.query.question().len();
        // One bit for each byte of the longest name, and the id.
        let mut random = [0u8; 34];
        let length = getrandom(&mut random[..], GetRandomFlags::empty())?;
        if length < random.len() {
            return Err(io::Error::other("the kernel gave too little chance"));
        }
        let (id, bits) = random.split_at(2);
        packet[..2].copy_from_slice(id);
        // The lengths of labels are below 64, and so no letters.
        for (index, byte) in packet[HEADER..question_end - 4].iter_mut().enumerate() {
            let bit = bits[index / 8] >> (index % 8) & 1;
            if byte.is_ascii_alphabetic() {
                *byte = byte.to_ascii_lowercase() ^ bit << 5;
            }
        }
        Ok(Self {
            packet,
            question_end,
        })
    }

    fn compare(&self, answer: &[u8]) -> Match {
        let id = u16::from_be_bytes([self.packet[0], self.packet[1]]);
        matches(answer, id, &self.packet[HEADER..self.question_end])
    }
}

/// `None`: the answer came in other capitals.
async fn by_udp(upstream: SocketAddr, query: &Disguise) -> io::Result<Option<Vec<u8>>> {
    let any: IpAddr = match upstream.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The kernel chooses the port by chance, and takes packets from the upstream only.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(upstream).await?;
    socket.send(&query.packet).await?;
    let mut answer = vec![0; LONGEST_DATAGRAM];
    loop {
        let length = socket.recv(&mut answer).await?;
        match query.compare(&answer[..length]) {
            Match::Yes => {
                answer.truncate(length);
                return Ok(Some(answer));
            }
            Match::ButForCase => return Ok(None),
            Match::No => {}
        }
    }
}

async fn by_tcp(upstream: SocketAddr, query: &Disguise) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(upstream).await?;
    let length = u16::try_from(query.packet.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let framed = [&length.to_be_bytes()[..], &query.packet].concat();
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await?;
    if query.compare(&answer) == Match::No || is_truncated(&answer) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "this is no answer to the question",
        ));
    }
    Ok(answer)
}
