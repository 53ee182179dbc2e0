//! An HTTP file server that can misbehave.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use muster_tls::rustls;

/// How it misbehaves. Counters go down with each request that they hit.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// So many requests are answered 403.
    pub(crate) forbid: usize,
    /// So many answers end after so many bytes, and the connection with them.
    pub(crate) cut: Option<(usize, usize)>,
    /// Ranges are not understood.
    pub(crate) ignore_ranges: bool,
    /// The byte at this position of every file is another one.
    pub(crate) corrupt: Option<usize>,
    /// Nothing is there.
    pub(crate) missing: bool,
}

/// A request, as `(path, first byte)`.
pub(crate) type Asked = (String, u64);

struct Shared {
    files: BTreeMap<String, Vec<u8>>,
    faults: Mutex<Faults>,
    asked: Mutex<Vec<Asked>>,
    sent: Mutex<u64>,
    is_over: AtomicBool,
}

/// A server. Ends when dropped.
pub(crate) struct FileServer {
    address: SocketAddr,
    is_tls: bool,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FileServer {
    pub(crate) fn start(files: BTreeMap<String, Vec<u8>>, faults: Faults) -> Self {
        Self::start_with(files, faults, None)
    }

    /// A server over TLS. Its URL names `localhost`.
    pub(crate) fn start_tls(files: BTreeMap<String, Vec<u8>>, tls: rustls::ServerConfig) -> Self {
        Self::start_with(files, Faults::default(), Some(Arc::new(tls)))
    }

    fn start_with(
        files: BTreeMap<String, Vec<u8>>,
        faults: Faults,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            files,
            faults: Mutex::new(faults),
            asked: Mutex::default(),
            sent: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let is_tls = tls.is_some();
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                if served.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (served, tls) = (Arc::clone(&served), tls.clone());
                // A client that goes away in the middle is a test's own doing.
                std::thread::spawn(move || match tls {
                    None => drop(serve(&served, &mut &stream)),
                    Some(tls) => {
                        let session = rustls::ServerConnection::new(tls).unwrap();
                        let mut stream = rustls::StreamOwned::new(session, stream);
                        drop(serve(&served, &mut stream));
                        stream.conn.send_close_notify();
                        drop(stream.flush());
                    }
                });
            }
        });
        Self {
            address,
            is_tls,
            shared,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self.is_tls {
            true => format!("https://localhost:{}", self.address.port()),
            false => format!("http://{}", self.address),
        }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    pub(crate) fn sent(&self) -> u64 {
        *self.shared.sent.lock().unwrap()
    }

    pub(crate) fn set(&self, faults: Faults) {
        *self.shared.faults.lock().unwrap() = faults;
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers the one request of a connection.
fn serve(shared: &Shared, stream: &mut (impl Read + Write)) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default().to_owned();
    let range = lines.find_map(|line| {
        let line = line.to_ascii_lowercase();
        let range = line.strip_prefix("range: bytes=")?;
        range.trim_end_matches('-').parse::<usize>().ok()
    });
    let from = range;
    shared
        .asked
        .lock()
        .unwrap()
        .push((path.clone(), from.unwrap_or(0) as u64));
    let out = stream;
    let (status, start, mut body, cut) = {
        let mut faults = shared.faults.lock().unwrap();
        let file = shared.files.get(&path).filter(|_| !faults.missing);
        if faults.forbid > 0 {
            faults.forbid -= 1;
            (403, 0, Vec::new(), None)
        } else if let Some(file) = file {
            let start = if faults.ignore_ranges {
                0
            } else {
                from.unwrap_or(0).min(file.len())
            };
            let mut body = file.clone();
            if let Some(at) = faults.corrupt.filter(|at| *at < body.len()) {
                body[at] ^= 0x55;
            }
            let body = body.split_off(start);
            let cut = match &mut faults.cut {
                Some((times, bytes)) if *times > 0 && body.len() > *bytes => {
                    *times -= 1;
                    Some(*bytes)
                }
                _ => None,
            };
            (if start > 0 { 206 } else { 200 }, start, body, cut)
        } else {
            (404, 0, Vec::new(), None)
        }
    };
    let total = start + body.len();
    write!(
        out,
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    )?;
    if status == 206 {
        write!(
            out,
            "content-range: bytes {start}-{}/{total}\r\n",
            total.saturating_sub(1)
        )?;
    }
    write!(out, "\r\n")?;
    body.truncate(cut.unwrap_or(body.len()));
    out.write_all(&body)?;
    out.flush()?;
    *shared.sent.lock().unwrap() += body.len() as u64;
    Ok(())
}
