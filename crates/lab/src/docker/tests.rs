use super::*;
use crate::poll_until;

#[test]
fn an_engine_runs_its_image_and_leaves_nothing() {
    crate::require_docker!();
    let docker = Docker::start().unwrap();
    let before = docker.traces().unwrap();
    let id = docker.cli(&["run", "--detach", IMAGE, "sleep", "infinity"]);
    let id = id.unwrap();
    let whoami = ["exec", "--user", "worker", &id, "sh", "-c", "id -un"];
    assert_eq!(docker.cli(&whoami).unwrap(), "worker");
    assert_eq!(docker.containers(None).unwrap(), [id.clone()].into());
    let labelled = docker.containers(Some("label=none")).unwrap();
    assert_eq!(labelled, BTreeSet::new());
    assert_ne!(docker.traces().unwrap(), before);
    let groups = docker.group.places();
    assert!(!groups.is_empty() && !docker.group.below().is_empty());

    let refused = docker.cli(&["inspect", "nobody"]).unwrap_err();
    assert!(matches!(refused, DockerError::Client(_)), "{refused:?}");
    docker.cli(&["rm", "--force", &id]).unwrap();
    // Some of it goes a moment after the engine has answered.
    poll_until(PATIENCE, "the container's traces go", || {
        docker.traces().unwrap() == before
    });

    // Also with a container that runs.
    let run = ["run", "--detach", IMAGE, "sleep", "infinity"];
    docker.cli(&run).unwrap();
    let (pid, folder) = (docker.pid(), docker.folder.path().to_owned());
    drop(docker);
    assert!(!Path::new("/proc").join(pid.to_string()).exists());
    assert!(!folder.exists());
    assert!(groups.iter().all(|group| !group.exists()));
}
