use muster_config::{Format, Load};
use muster_libvirt::Acceleration;
use muster_schedule::{Criterion, Spot};

use super::*;

fn load(text: &str) -> Result<Config, String> {
    let load = Load::<RawConfig>::new("muster-nodemgr");
    let loaded = load.document("nodemgr.yaml", Format::Yaml, text).load();
    loaded
        .and_then(muster_config::Loaded::validate)
        .map_err(|error| error.to_string())
}

#[test]
fn nothing_has_to_be_said() {
    let config = load("{}").unwrap();
    assert!(config.providers.local.is_some() && config.providers.docker.is_some());
    assert_eq!(config.providers.sim, None);
    assert_eq!(config.policy.spot, Spot::Never);
    assert!(
        !config.insecure,
        "a machine that is no barrier is never chosen unasked"
    );
    assert_eq!(config.lock, Some(LockUse::Keep));
    assert_eq!(config.timers, Timers::default());
}

#[test]
fn everything_can_be_said() {
    let config = load(
        "stateDir: /var/lib/x\n\
         lock: frozen\n\
         policy: { prefer: [cost, speed], spot: prefer, spotTypes: [c7g.large], near: [eu-central-1] }\n\
         timers: { idle: 30m, whenIdle: hibernate, stopped: 7d }\n\
         providers:\n\
         \x20 local: { enabled: false }\n\
         \x20 docker: { endpoint: 'unix:///run/d.sock', quota: { machines: 4, memoryMB: 4096 }, price: 0.25 }\n\
         \x20 sim: { boot: 2s, fail: 10 }\n\
         pools:\n\
         \x20 builders: { template: small, provider: docker, minIdle: 2, max: 5, timers: { idle: 0s, lifetime: 1d } }\n\
         registry: { sweep: 10s, attempts: 3 }\n",
    )
    .unwrap();
    assert_eq!(
        config.policy.order()[..2],
        [Criterion::Cost, Criterion::Speed]
    );
    assert_eq!(config.providers.local, None);
    let docker = config.providers.docker.unwrap();
    let elsewhere = docker.endpoint(Some("tcp://elsewhere:1")).unwrap();
    assert_eq!(elsewhere.to_string(), "unix:///run/d.sock");
    assert_eq!(docker.common.price.on_demand, Some(250_000));
    assert_eq!(docker.common.quota.memory_mb, Some(4096));
    let pool = &config.pools["builders"];
    assert_eq!(pool.timers.idle, None, "0 takes back what is set for all");
    assert_eq!(pool.timers.stopped, config.timers.stopped);
    assert_eq!(config.registry.attempts, 3);
}

#[test]
fn what_the_policy_goes_by_can_be_said_of_every_provider() {
    let config = load(
        "providers:\n\
         \x20 docker: { taints: { gpu: dear } }\n\
         \x20 sim: { interrupt: 5, spotCapacity: { a: 2 }, price: 1, spotPrice: 0.5 }\n\
         \x20 aws:\n\
         \x20   regions: [eu-central-1, us-east-1]\n\
         \x20   zones: [eu-central-1a, eu-central-1b]\n\
         \x20   instanceTypes: { m7i.large: { cpus: 2, memoryMB: 8192, arch: amd64, price: 0.1, spotPrice: 0.03 } }\n",
    )
    .unwrap();
    let docker = config.providers.docker.unwrap();
    let taints: Vec<_> = docker.common.taints.iter().collect();
    assert_eq!((taints[0].key.as_str(), taints.len()), ("gpu", 1));
    let sim = config.providers.sim.unwrap();
    assert_eq!(sim.settings.faults.interrupt, 5);
    assert_eq!(sim.settings.capacity.spot["a"], 2);
    let price = sim.common.price;
    assert_eq!(
        (price.on_demand, price.spot),
        (Some(1_000_000), Some(500_000))
    );
    let aws = config.providers.aws.unwrap();
    let places = aws.places.iter();
    let places: Vec<_> = places
        .map(|it| (it.region.as_str(), it.zone.as_deref()))
        .collect();
    assert_eq!(
        places,
        [
            ("eu-central-1", Some("eu-central-1a")),
            ("eu-central-1", Some("eu-central-1b")),
            ("us-east-1", None),
        ]
    );
    assert_eq!(aws.prices["m7i.large"].spot, Some(30_000));
}

#[test]
fn patience_and_whether_machines_are_taken_again_can_be_said() {
    let usual = load("policy: { prefer: [cost] }").unwrap();
    assert!(!usual.reuse);
    assert_eq!(usual.registry, Settings::default());
    let config = load(
        "policy: { prefer: [reuse, cost] }\nregistry: { restLongest: 2h, silence: 3m, sweep: 5s }\n",
    );
    let config = config.unwrap();
    assert!(config.reuse);
    let registry = config.registry;
    let seconds = [registry.rest_longest, registry.silence, registry.sweep].map(|it| it.as_secs());
    assert_eq!(seconds, [7200, 180, 5]);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, parts) in [
        (
            "polcy: {}",
            &["nodemgr.yaml:1", "polcy", "did you mean `policy`"][..],
        ),
        (
            "policy:\n  prefer: [cheap]",
            &["nodemgr.yaml:2", "policy.prefer", "reuse, cost"],
        ),
        (
            "timers:\n  whenIdle: sleep",
            &["nodemgr.yaml:2", "timers.whenIdle", "hibernate"],
        ),
        (
            "providers:\n  aws: { regions: [eu-west-1], zones: [us-east-1a] }",
            &["nodemgr.yaml:2", "providers.aws.zones", "no part of any"],
        ),
        (
            "providers:\n  sim: { spotPrice: -1 }",
            &["nodemgr.yaml:2", "providers.sim.spotPrice"],
        ),
        (
            "providers:\n  docker: { price: -1 }",
            &["nodemgr.yaml:2", "providers.docker.price"],
        ),
        (
            "pools:\n  x: { minIdle: 2, max: 1, template: t }",
            &["pools.x.max"],
        ),
        (
            "pools:\n  x: { provider: vmware }",
            &["pools.x.template", "pools.x.provider"],
        ),
        ("lock: open", &["nodemgr.yaml:1", "keep, frozen or off"]),
        (
            "providers:\n  libvirt: { acceleration: fast }",
            &["providers.libvirt.acceleration", "probe, kvm or tcg"],
        ),
        (
            "registry: { poll: 0s }",
            &["registry.poll", "longer than 0s"],
        ),
    ] {
        let said = load(text).unwrap_err();
        for part in parts {
            assert!(said.contains(part), "{part} is not in: {said}");
        }
    }
}

#[test]
fn distributions_and_types_of_instances_can_be_added() {
    let config = load(
        "providers:\n\
         \x20 libvirt:\n\
         \x20   acceleration: tcg\n\
         \x20   distributions:\n\
         \x20     debian-12: { image: 'https://images.example.org/12/{arch}.qcow2', checksums: 'file:///srv/SUMS' }\n\
         \x20 aws:\n\
         \x20   hibernation: false\n\
         \x20   instanceTypes:\n\
         \x20     m7i.large: { cpus: 2, memoryMB: 8192, arch: x86_64 }\n",
    );
    let providers = config.unwrap().providers;
    let libvirt = providers.libvirt.unwrap();
    let names: Vec<&str> = libvirt.catalog.names().collect();
    assert_eq!(names, ["debian-12"]);
    assert_eq!(libvirt.acceleration, Acceleration::Tcg);
    let aws = providers.aws.unwrap().settings;
    assert!(!aws.hibernation);
    let types: Vec<&str> = aws
        .instance_types
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(types, ["m7i.large"]);
    let usual = load("providers: { libvirt: {}, aws: {} }")
        .unwrap()
        .providers;
    assert_eq!(usual.libvirt.unwrap().catalog.names().count(), 0);
    let published = load(
        "providers: { libvirt: { publishedDistributions: true, distributions: { fedora-42: { image: 'file:///a.img', checksums: 'file:///s' } } } }",
    );
    let published = published.unwrap().providers.libvirt.unwrap().catalog;
    let own = published.get("fedora-42").unwrap();
    let names: Vec<&str> = published.names().collect();
    assert!(names.contains(&"ubuntu-24.04"), "{names:?}");
    assert_eq!(
        own.image,
        muster_libvirt::Location::new("file:///a.img").unwrap()
    );
    let aws = usual.aws.unwrap().settings;
    assert!(aws.hibernation && aws.instance_types.len() > 1);
}

#[test]
fn a_distribution_without_a_checksum_or_from_an_open_line_is_refused() {
    let said = load(
        "providers:\n  libvirt:\n    distributions:\n      a: { image: 'https://h/a.img' }\n      \
         b: { image: 'http://h/a.img', checksums: 'https://h/s' }\n      \
         a/b: { image: 'https://h/a.img', checksums: 'https://h/s' }\n",
    )
    .unwrap_err();
    for part in [
        "distributions.a.checksums",
        "nodemgr.yaml:5",
        "distributions.b.image",
        "https://HOST/PATH/FILE",
        "is no name of a distribution",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    let said = load("providers: { aws: { instanceTypes: { huge: { cpus: 2 } } } }").unwrap_err();
    for part in [
        "instanceTypes.huge",
        "such as `m7i.large`",
        "huge.memoryMB",
        "huge.arch",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

#[test]
fn an_engine_is_found_where_the_environment_says() {
    let docker = load("{}").unwrap().providers.docker.unwrap();
    assert!(!docker.asked);
    let found = |host: Option<&str>| docker.endpoint(host).map(|it| it.to_string());
    let usual = "unix:///var/run/docker.sock";
    assert_eq!(found(None).unwrap(), usual);
    assert_eq!(found(Some("")).unwrap(), usual);
    assert_eq!(found(Some("unix:///x")).unwrap(), "unix:///x");
    assert!(found(Some("ssh://elsewhere")).is_err());
}
