//! moto, a likeness of EC2 that others made. The tests of `muster machine` use it too.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) use muster_aws::testing::python;
use tempfile::TempDir;

/// Where its machines are.
pub(crate) const REGION: &str = "eu-central-1";
/// The file of what it was asked.
pub(crate) const REQUESTS: &str = "requests";
/// An image that moto has from the start.
pub(crate) const MOTO_IMAGE: &str = "ami-04681a1dbd79675a5";

/// Says why a test, or a part of one, is left out; where nothing may be, that is a failure.
#[track_caller]
pub(crate) fn skip(what: &str) {
    muster_lab::preflight::skip(what, "there is no Python with moto: run scripts/lab-python");
}

/// A server of its own, in a folder of its own. It ends with the test.
#[derive(Debug)]
pub(crate) struct Moto {
    child: Child,
    pub(crate) url: String,
    folder: TempDir,
    python: PathBuf,
}

impl Moto {
    pub(crate) fn start(python: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(python.join("bin/moto_server"))
            .args(["-H", "127.0.0.1", "-p", "0"])
            .current_dir(folder.path())
            .env("MOTO_ENABLE_RECORDING", "true")
            .env("MOTO_RECORDER_FILEPATH", folder.path().join(REQUESTS))
            // The suite asks for regions that there are not.
            .env("MOTO_ALLOW_NONEXISTENT_REGION", "true")
            .env("PYTHONUNBUFFERED", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = String::new();
        let url = loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = child.kill();
                let _ = child.wait();
                panic!("moto did not say where it answers: {said}");
            };
            if let Some((_, url)) = line.split_once("Running on ") {
                break url.trim().to_owned();
            }
            said += &line;
        };
        // What it says about each request must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            url,
            folder,
            python,
        }
    }

    /// Its folder, where it writes down what it is asked.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a few lines of boto3 with `ec2` as the client, and gives what they print.
    pub(crate) fn boto(&self, lines: &str) -> String {
        let program = format!(
            "import boto3\nec2 = boto3.client('ec2', region_name='{REGION}', endpoint_url='{}', \
             aws_access_key_id='a', aws_secret_access_key='b')\n{lines}",
            self.url
        );
        let output = Command::new(self.python.join("bin/python"))
            .args(["-c", &program])
            .current_dir(self.path())
            .output()
            .expect("python starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
