//! Any bytes as the configuration that a controller gives a node.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_config::Limits;
use muster_node_config::Document;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { file_bytes: 1 << 16, nodes: 1000, ..Limits::default() };
    match Document::read(data, &limits) {
        Ok(document) => {
            assert!(document.unknown.len() <= 32);
            assert!(document.config.labels.iter().all(|label| !label.is_empty()));
            let partitions = document.config.alert_rules.partitions;
            for (name, rule) in &partitions {
                assert!(rule.min_threshold() <= rule.max_threshold());
                assert!(partitions.iter().filter(|(other, _)| other == name).count() == 1);
            }
        }
        Err(refused) => {
            assert!(!refused.problems.is_empty());
            let text = refused.to_string();
            assert!(text.len() < 10_000 && !text.chars().any(char::is_control), "{text}");
        }
    }
});
