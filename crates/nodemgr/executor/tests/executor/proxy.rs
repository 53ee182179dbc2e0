//! A connection that can be cut: between a client and a server, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Carries connections to a port, counts bytes, and cuts every connection when so many bytes have passed.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    passed: Arc<AtomicU64>,
    /// How many bytes may pass before the next cut.
    cut_at: Arc<AtomicU64>,
    /// After how many more it cuts again, and how often.
    again: Arc<(AtomicU64, AtomicU64)>,
    cuts: Arc<AtomicU64>,
    /// Whether nothing passes any more, and nothing is cut either.
    silent: Arc<AtomicBool>,
    /// Whether connections to come are accepted, and that is all.
    ignoring: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            passed: Arc::default(),
            cut_at: Arc::new(AtomicU64::new(u64::MAX)),
            again: Arc::default(),
            cuts: Arc::default(),
            silent: Arc::default(),
            ignoring: Arc::default(),
        };
        let this = proxy.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let this = this.clone();
                let ignored = this.ignoring.load(Ordering::SeqCst);
                tokio::spawn(async move {
                    if ignored {
                        std::future::pending::<()>().await;
                    }
                    let far = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    this.carry(near, far).await;
                });
            }
        });
        proxy
    }

    /// Cuts the connection after so many more bytes.
    pub(crate) fn cut_after(&self, bytes: u64) {
        let passed = self.passed.load(Ordering::SeqCst);
        self.cut_at.store(passed + bytes, Ordering::SeqCst);
    }

    /// Lets nothing pass from now on, also over connections to come, and leaves all of them open.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// Accepts connections from now on, and carries none of them.
    pub(crate) fn ignore_more(&self) {
        self.ignoring.store(true, Ordering::SeqCst);
    }

    /// Cuts the connection so many times, each time after so many more bytes.
    pub(crate) fn cut_every(&self, bytes: u64, times: u64) {
        self.again.0.store(bytes, Ordering::SeqCst);
        self.again.1.store(times - 1, Ordering::SeqCst);
        self.cut_after(bytes);
    }

    /// When the next cut is, after one.
    fn next_cut(&self, passed: u64) -> u64 {
        let (every, left) = (&self.again.0, &self.again.1);
        let one_less = |it: u64| it.checked_sub(1);
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
            Ok(_) => passed + every.load(Ordering::SeqCst),
            Err(_) => u64::MAX,
        }
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }

    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    async fn carry(&self, mut near: TcpStream, mut far: TcpStream) {
        let (mut near_read, mut near_write) = near.split();
        let (mut far_read, mut far_write) = far.split();
        tokio::select! {
            () = self.pass(&mut near_read, &mut far_write) => {}
            () = self.pass(&mut far_read, &mut near_write) => {}
        }
    }

    async fn pass(
        &self,
        from: &mut (impl tokio::io::AsyncRead + Unpin),
        to: &mut (impl tokio::io::AsyncWrite + Unpin),
    ) {
        let mut buffer = vec![0; 32 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if self.silent.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let passed = self.passed.fetch_add(length as u64, Ordering::SeqCst);
            if passed >= self.cut_at.load(Ordering::SeqCst) {
                self.cut_at.store(self.next_cut(passed), Ordering::SeqCst);
                self.cuts.fetch_add(1, Ordering::SeqCst);
                return;
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }
}
