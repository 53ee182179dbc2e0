//! What a machine is like, seen by Docker's own client, and what happens to what is not ours.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::{Duration, Instant};

use muster_lab::poll_until;
use muster_lifecycle::{Halt, State, Verb};
use muster_provider::{Described, FailureClass, MachineSpec, Order, Owned, Provider};
use muster_telemetry::ErrorChain;
use muster_template::Value;

use crate::rig::{Docker, IMAGE, PATIENCE, order, spec};

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn with(extra: &[(&str, Value)]) -> MachineSpec {
    let extra = extra.iter();
    MachineSpec {
        extra: extra
            .map(|(key, it)| ((*key).to_owned(), it.clone()))
            .collect(),
        ..spec()
    }
}

fn owned(order: &Order, made: &Described) -> Owned {
    Owned {
        resource: made.resource.clone(),
        mark: order.mark.clone(),
    }
}

#[tokio::test]
async fn an_engine_is_told_from_another_at_the_same_place() {
    muster_lab::require_docker!();
    let (one, other) = (Docker::start(), Docker::start());
    let home = one.provider().home().await.unwrap();
    assert!(home.is_some());
    assert_eq!(one.provider().home().await.unwrap(), home, "it lasts");
    assert_ne!(other.provider().home().await.unwrap(), home);
}

#[tokio::test]
async fn a_machine_is_what_was_ordered_and_goes_with_what_is_only_its_own() {
    muster_lab::require_docker!();
    let docker = Docker::start();
    let provider = docker.provider();
    docker.cli(&["network", "create", "lab"]);
    let before = docker.traces();
    let mounts = Value::List(vec![
        text("/etc:/mnt/etc:ro"),
        text("keep:/mnt/keep"),
        text("/mnt/own"),
        Value::Map(BTreeMap::from([
            ("type".to_owned(), text("tmpfs")),
            ("target".to_owned(), text("/mnt/memory")),
        ])),
    ]);
    let order = order(MachineSpec {
        user: Some("worker".to_owned()),
        cpus: NonZeroU32::new(1),
        memory_mb: NonZeroU64::new(64),
        disk_mb: NonZeroU64::new(512),
        network: Some("lab".to_owned()),
        env: BTreeMap::from([("SECRET".to_owned(), "a b".to_owned())]),
        labels: BTreeMap::from([("team".to_owned(), "lab".to_owned())]),
        ..with(&[
            ("mounts", mounts),
            ("command", text("echo hello; exec sleep infinity")),
        ])
    });
    let made = provider.provision(&order).await.unwrap();
    assert_eq!(made.state, State::Running);
    let id = made.resource.as_str();
    let inspect = |format: &str| docker.cli(&["inspect", "--format", format, id]);
    assert_eq!(
        inspect("{{.Name}}"),
        format!("/muster-{}", order.mark.machine)
    );
    assert_eq!(inspect("{{.HostConfig.NanoCpus}}"), "1000000000");
    assert_eq!(inspect("{{.HostConfig.Memory}}"), (64 << 20).to_string());
    assert_eq!(inspect("{{index .Config.Labels \"team\"}}"), "lab");
    assert_eq!(
        inspect("{{.HostConfig.Privileged}} {{.HostConfig.Init}}"),
        "false true"
    );
    let address = inspect("{{.NetworkSettings.Networks.lab.IPAddress}}");
    assert_eq!(made.address.unwrap().to_string(), address);
    // What the storage cannot do is said, and not kept quiet.
    assert!(
        made.details["note"].contains("diskMB is not limited"),
        "{:?}",
        made.details
    );
    assert_eq!(made.details["image"], IMAGE);
    let inside = docker.cli(&[
        "exec", id, "sh", "-c",
        "id -un; echo $SECRET; hostname; touch /mnt/etc/x 2>/dev/null || echo read-only; grep -c ' /mnt/' /proc/mounts",
    ]);
    let machine = order.mark.machine.as_str();
    assert_eq!(inside, format!("worker\na b\n{machine}\nread-only\n4"));

    let state = provider.destroy(&owned(&order, &made)).await.unwrap();
    assert_eq!(state, State::Terminated);
    // The volume with a name was not made by us alone to be taken away.
    assert_eq!(docker.cli(&["volume", "ls", "--quiet"]), "keep");
    docker.cli(&["volume", "rm", "keep"]);
    docker.assert_traces(&before);
}

#[tokio::test]
async fn an_image_that_only_this_engine_has_is_named_by_its_id_and_made_of_it_again() {
    muster_lab::require_docker!();
    let docker = Docker::start();
    let provider = docker.provider();
    docker.cli(&["tag", IMAGE, "app:dev"]);
    let image = |name: &str| MachineSpec {
        image: Some(name.to_owned()),
        ..spec()
    };
    let made = provider.provision(&order(image("app:dev"))).await.unwrap();
    let id = docker.cli(&["inspect", "--format", "{{.Id}}", "app:dev"]);
    let pin = format!("app@{id}");
    assert_eq!(made.details["localImage"], pin);
    assert_eq!(made.details.get("exact"), None);
    // Somebody builds it again, and the name means another.
    docker.cli(&["commit", made.resource.as_str(), "app:dev"]);
    let of = |made: &Described| {
        let format = ["inspect", "--format", "{{.Image}}", made.resource.as_str()];
        docker.cli(&format)
    };
    let newer = provider.provision(&order(image("app:dev"))).await.unwrap();
    assert_ne!(of(&newer), id);
    let pinned = provider.provision(&order(image(&pin))).await.unwrap();
    assert_eq!(of(&pinned), id);
    assert_eq!(pinned.details["localImage"], pin);
}

#[tokio::test]
async fn what_cannot_be_made_is_refused_with_the_reason_and_leaves_nothing() {
    muster_lab::require_docker!();
    let docker = Docker::start();
    let provider = docker.provider();
    let before = docker.traces();
    let missing = Value::List(vec![text("/no/such/program")]);
    let nowhere = Value::List(vec![text("/no/such/folder:/mnt")]);
    for (spec, why) in [
        (
            with(&[("privilege", Value::Bool(true))]),
            "did you mean `privileged`?",
        ),
        (
            with(&[("command", missing), ("init", Value::Bool(false))]),
            "no such file or directory",
        ),
        (
            with(&[("mounts", nowhere)]),
            "bind source path does not exist",
        ),
        (
            MachineSpec {
                network: Some("none-such".to_owned()),
                ..spec()
            },
            "none-such not found",
        ),
        (
            MachineSpec {
                user: Some("stranger".to_owned()),
                ..spec()
            },
            "unable to find user stranger",
        ),
        (
            MachineSpec {
                cpus: NonZeroU32::new(10_000),
                ..spec()
            },
            "CPUs",
        ),
        (
            MachineSpec {
                memory_mb: NonZeroU64::new(1),
                ..spec()
            },
            "memory",
        ),
    ] {
        let error = provider.provision(&order(spec)).await.unwrap_err();
        assert_eq!(error.class, FailureClass::Refused, "{}", ErrorChain(&error));
        assert!(
            ErrorChain(&error).to_string().contains(why),
            "{}",
            ErrorChain(&error)
        );
        docker.assert_traces(&before);
    }
    // This one may be there later: the registry does not answer here.
    let far = MachineSpec {
        image: Some("127.0.0.1:9/none:1".to_owned()),
        ..spec()
    };
    let error = provider.provision(&order(far)).await.unwrap_err();
    assert_eq!(
        error.class,
        FailureClass::Retryable,
        "{}",
        ErrorChain(&error)
    );
    assert!(
        ErrorChain(&error)
            .to_string()
            .contains("image 127.0.0.1:9/none:1 is not here, and cannot be pulled")
    );
    docker.assert_traces(&before);
}

#[tokio::test]
async fn what_only_looks_like_ours_is_neither_listed_nor_changed() {
    muster_lab::require_docker!();
    let docker = Docker::start();
    let provider = docker.provider();
    let first = order(spec());
    let made = provider.provision(&first).await.unwrap();
    let id = made.resource.as_str();
    // An image that somebody made of the machine has its labels, and so has what runs from it.
    docker.cli(&["commit", id, "copy"]);
    let copy = docker.cli(&["run", "--detach", "--init", "--name", "copy", "copy"]);
    let manager = &first.mark.manager;
    let listed = provider.list(manager).await.unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let theirs = Owned {
        resource: muster_provider::ResourceId::new(&copy).unwrap(),
        mark: first.mark.clone(),
    };
    let error = provider.destroy(&theirs).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused);
    // Docker itself would take the beginning of an id, or a name, for the whole.
    for key in [
        &id[..12],
        "copy",
        "../containers/json?all=1",
        &format!("muster-{}", first.mark.machine),
    ] {
        let resource = muster_provider::ResourceId::new(key).unwrap();
        let mark = first.mark.clone();
        let gone = provider.destroy(&Owned { resource, mark }).await.unwrap();
        assert_eq!(gone, State::Terminated, "{key}");
    }
    assert_eq!(docker.containers("status=running").len(), 2);
    // Somebody else has the name already: that is no machine of ours.
    let second = order(spec());
    let name = format!("muster-{}", second.mark.machine);
    docker.cli(&["create", "--name", &name, IMAGE, "true"]);
    let error = provider.provision(&second).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Refused, "{}", ErrorChain(&error));
    assert!(ErrorChain(&error).to_string().contains("somebody else's"));
}

#[tokio::test]
async fn a_stop_is_graceful_first_and_a_pause_is_not_a_sleep() {
    muster_lab::require_docker!();
    let docker = Docker::start();
    let provider = docker.provider().with_grace(Duration::from_secs(1));
    let off = State::Stopped(Halt::Off);
    // One that tidies up, and one that does not listen.
    let tidy =
        "trap 'echo > /tmp/tidied; exit 0' TERM; touch /tmp/ready; while :; do sleep 0.1; done";
    let deaf = "trap '' TERM; touch /tmp/ready; while :; do sleep 0.1; done";
    for (command, tidied) in [(tidy, true), (deaf, false)] {
        let order = order(with(&[("command", text(command))]));
        let made = provider.provision(&order).await.unwrap();
        let machine = owned(&order, &made);
        let id = made.resource.as_str();
        poll_until(PATIENCE, "the trap", || {
            docker.try_cli(&["exec", id, "test", "-e", "/tmp/ready"])
        });
        assert_eq!(provider.act(&machine, Verb::Stop).await.unwrap(), off);
        let found = docker.cli(&["diff", id]).contains("/tmp/tidied");
        assert_eq!(found, tidied, "{command}");
        provider.destroy(&machine).await.unwrap();
    }
    let order = order(spec());
    let made = provider.provision(&order).await.unwrap();
    let machine = owned(&order, &made);
    docker.cli(&["pause", made.resource.as_str()]);
    let paused = provider.describe(&machine).await.unwrap().unwrap();
    assert_eq!(
        (paused.state, paused.details["paused"].as_str()),
        (State::Running, "true")
    );
    let error = provider.act(&machine, Verb::Hibernate).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Unsupported);
    assert_eq!(
        provider.act(&machine, Verb::Start).await.unwrap(),
        State::Running
    );
    assert!(
        !provider
            .describe(&machine)
            .await
            .unwrap()
            .unwrap()
            .details
            .contains_key("paused")
    );
    // A reboot is never seen as a stop, however often somebody looks.
    let reboot = provider.act(&machine, Verb::Reboot);
    let look = async {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            let seen = provider.describe(&machine).await.unwrap().unwrap();
            assert_eq!(seen.state, State::Running);
        }
    };
    let (rebooted, ()) = tokio::join!(reboot, look);
    assert_eq!(rebooted.unwrap(), State::Running);
}
