//! An engine of a test's own, which answers as the test says.

use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::Engine;
use crate::endpoint::Endpoint;

/// What it says to a request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) api_version: String,
    pub(crate) body: String,
}

impl Answer {
    /// That it is there, and speaks this version.
    pub(crate) fn ping(minor: usize) -> Self {
        Self {
            status: 200,
            api_version: format!("1.{minor}"),
            body: String::new(),
        }
    }
}

/// The engine. It ends with the test.
pub(crate) struct Fake {
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
    folder: TempDir,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    /// Answers each request, given its method and path, over a connection of its own.
    pub(crate) fn start<A>(answer: impl Fn(String) -> A + Send + 'static) -> Self
    where
        A: Future<Output = Answer> + Send + 'static,
    {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("docker.sock")).unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read(&mut stream).await;
                heard.lock().unwrap().push(request.clone());
                let answer = answer(request);
                tokio::spawn(async move { write(&mut stream, answer.await).await });
            }
        });
        Self {
            asked,
            task,
            folder,
        }
    }

    pub(crate) fn engine(&self) -> Engine {
        Engine::new(Endpoint::Unix(self.folder.path().join("docker.sock")))
    }

    /// How often something was asked whose path contains this.
    pub(crate) fn asked(&self, part: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|it| it.contains(part)).count()
    }
}

/// The method and the path of a request whose body does not matter.
async fn read(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    line.trim_end_matches(" HTTP/1.1").to_owned()
}

async fn write(stream: &mut UnixStream, answer: Answer) {
    let Answer {
        status,
        api_version,
        body,
    } = answer;
    let length = body.len();
    let upgrade = "HTTP/1.1 101 Upgraded\r\nconnection: upgrade\r\nupgrade: tcp\r\n\r\n";
    let answered = format!(
        "HTTP/1.1 {status} As Said\r\napi-version: {api_version}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    let head = match status {
        101 => upgrade,
        _ => answered.as_str(),
    };
    // Whoever has heard enough hangs up.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body.as_bytes()).await;
}
