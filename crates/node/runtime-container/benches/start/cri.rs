//! containerd, asked over the interface that Kubernetes uses (CRI): a pod of its own for each container, on the host's network.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::Outcome;

/// On a file system that overlays can be made of.
const FOLDER: &str = "/run/cri";
const SOCKET: &str = "/run/cri/containerd.sock";
const CONFIG: &str = r#"version = 2
root = "/run/cri/root"
state = "/run/cri/state"
[grpc]
  address = "/run/cri/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/bench:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
"#;
const IMAGE: &str = "docker.io/library/bench:1";
const UP_WITHIN: Duration = Duration::from_secs(30);
/// The namespaces of the host, in the interface's numbers.
const OF_THE_NODE: i32 = 2;

/// As much of the interface as starting needs.
mod wire {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct PodName {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) uid: String,
        #[prost(string, tag = "3")]
        pub(super) namespace: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Namespaces {
        #[prost(int32, tag = "1")]
        pub(super) network: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Security {
        #[prost(message, optional, tag = "1")]
        pub(super) namespaces: Option<Namespaces>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct LinuxPod {
        #[prost(message, optional, tag = "2")]
        pub(super) security: Option<Security>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Pod {
        #[prost(message, optional, tag = "1")]
        pub(super) name: Option<PodName>,
        #[prost(message, optional, tag = "8")]
        pub(super) linux: Option<LinuxPod>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct RunPod {
        #[prost(message, optional, tag = "1")]
        pub(super) pod: Option<Pod>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Id {
        #[prost(string, tag = "1")]
        pub(super) id: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Container {
        #[prost(message, optional, tag = "1")]
        pub(super) name: Option<Id>,
        #[prost(message, optional, tag = "2")]
        pub(super) image: Option<Id>,
        #[prost(string, repeated, tag = "3")]
        pub(super) command: Vec<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct CreateContainer {
        #[prost(string, tag = "1")]
        pub(super) pod_id: String,
        #[prost(message, optional, tag = "2")]
        pub(super) container: Option<Container>,
        #[prost(message, optional, tag = "3")]
        pub(super) pod: Option<Pod>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Nothing {}
}

/// A containerd that answers; ends when it is dropped.
pub(crate) struct Containerd {
    process: Child,
    channel: Channel,
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // The machine that all of this is in ends soon.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Containerd {
    /// Starts it with the image of this archive; `None` where it is not installed.
    pub(crate) async fn start(archive: &Path) -> Outcome<Option<Self>> {
        if !Path::new("/usr/bin/containerd").exists() {
            return Ok(None);
        }
        fs::create_dir_all(FOLDER)?;
        let config = Path::new(FOLDER).join("config.toml");
        fs::write(&config, CONFIG)?;
        let log = File::create(Path::new(FOLDER).join("log"))?;
        let process = Command::new("/usr/bin/containerd")
            .arg("--config")
            .arg(&config)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let endpoint = Endpoint::try_from(format!("unix://{SOCKET}"))?;
        let containerd = Self {
            process,
            channel: endpoint.connect_lazy(),
        };
        let deadline = Instant::now() + UP_WITHIN;
        while !import(archive)? {
            if Instant::now() > deadline {
                let said = fs::read_to_string(Path::new(FOLDER).join("log"))?;
                return Err(format!("containerd does not take the image: {said}").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(Some(containerd))
    }

    async fn call<A, B>(&self, method: &'static str, request: A) -> Outcome<B>
    where
        A: prost::Message + Default + 'static,
        B: prost::Message + Default + 'static,
    {
        let mut client = Grpc::new(self.channel.clone());
        client.ready().await?;
        let path = format!("/runtime.v1.RuntimeService/{method}");
        let path = PathAndQuery::try_from(path)?;
        let codec = ProstCodec::<A, B>::default();
        let answer = client
            .unary(tonic::Request::new(request), path, codec)
            .await;
        match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(format!("{method}: {}", status.message()).into()),
        }
    }

    async fn start_one(&self, number: usize) -> Outcome<String> {
        let pod = wire::Pod {
            name: Some(wire::PodName {
                name: format!("bench-{number}"),
                uid: format!("bench-{number}"),
                namespace: "bench".into(),
            }),
            linux: Some(wire::LinuxPod {
                security: Some(wire::Security {
                    namespaces: Some(wire::Namespaces {
                        network: OF_THE_NODE,
                    }),
                }),
            }),
        };
        let run = wire::RunPod {
            pod: Some(pod.clone()),
        };
        let pod_id: wire::Id = self.call("RunPodSandbox", run).await?;
        let name = |id: &str| Some(wire::Id { id: id.to_owned() });
        let create = wire::CreateContainer {
            pod_id: pod_id.id.clone(),
            container: Some(wire::Container {
                name: name("main"),
                image: name(IMAGE),
                command: vec!["/bin/sleep".into(), "1000".into()],
            }),
            pod: Some(pod),
        };
        let container: wire::Id = self.call("CreateContainer", create).await?;
        let _: wire::Nothing = self.call("StartContainer", container).await?;
        Ok(pod_id.id)
    }

    /// Starts so many, all at once.
    pub(crate) async fn start_containers(&self, count: usize) -> Outcome<Duration> {
        let begun = Instant::now();
        let pods = try_join_all((0..count).map(|number| self.start_one(number))).await?;
        let took = begun.elapsed();
        let end = |id: String| async move {
            let pod = wire::Id { id };
            let _: wire::Nothing = self.call("StopPodSandbox", pod.clone()).await?;
            let _: wire::Nothing = self.call("RemovePodSandbox", pod).await?;
            Outcome::Ok(())
        };
        try_join_all(pods.into_iter().map(end)).await?;
        Ok(took)
    }
}

fn import(archive: &Path) -> Outcome<bool> {
    let words = [
        "--address",
        SOCKET,
        "--namespace",
        "k8s.io",
        "images",
        "import",
    ];
    let imported = Command::new("/usr/bin/ctr")
        .args(words)
        .args(["--base-name", "docker.io/library/bench"])
        .arg(archive)
        .output()?;
    Ok(imported.status.success())
}
