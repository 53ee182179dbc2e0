//! What is chosen with the configuration that people copy to begin with.

use std::path::Path;

use muster_config::{Load, Loaded};

use super::*;
use crate::catalog::PLAIN;
use crate::config::{Config, RawConfig};

#[test]
fn the_example_configuration_lets_an_image_alone_be_run() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/machines");
    let load = Load::<RawConfig>::new("muster-nodemgr").file(examples.join("nodemgr.yaml"));
    let config: Config = load.load().and_then(Loaded::validate).unwrap();
    let templates = std::fs::read_to_string(examples.join("templates/debian.yaml")).unwrap();
    let catalog = catalog(&templates);
    let docker = config.providers.docker.unwrap();
    assert!(docker.common.quota.memory_mb.is_some());
    let offers = [Offer {
        quota: docker.common.quota,
        ..offer(ProviderId::Docker)
    }];
    let given = [("image".to_owned(), "debian:12".to_owned())];
    let wish = Wish {
        given: crate::catalog::fields(&given.into()).unwrap(),
        policy: config.policy,
        ..wish(PLAIN)
    };
    let choice = decide(&wish, &catalog, &offers, [], NOW).unwrap();
    assert_eq!(chosen_provider(&choice), Some(ProviderId::Docker));
    let told = choice.explain();
    assert!(told[0].why[1].contains("nobody set its memory"), "{told:?}");
}
