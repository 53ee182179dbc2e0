//! Any bytes as each of the documents of an item: the first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_item::{Document, ImageConfig, ItemConfig, Limits, Platform};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let limits = Limits { document_bytes: 1 << 16, nesting: 16, values: 1000, layers: 20 };
    let refused = match first % 3 {
        0 => match Document::read(rest, &limits) {
            Ok(Document::Index(index)) => {
                let node = Platform::new("linux", "arm").with_variant("v7");
                match index.select(&node) {
                    // What is chosen is one of those that are there.
                    Ok(chosen) => {
                        assert!(index.manifests.iter().any(|entry| &entry.descriptor == chosen));
                        None
                    }
                    Err(error) => Some(error.to_string()),
                }
            }
            Ok(Document::Manifest(manifest)) => {
                assert!(manifest.layers.len() <= limits.layers);
                None
            }
            Err(error) => Some(error.to_string()),
        },
        1 => match ImageConfig::read(rest, &limits) {
            Ok(image) => {
                assert!(image.working_dir.starts_with('/'));
                assert!(!image.working_dir.split('/').any(|part| part == ".."));
                assert!(image.command().all(|word| !word.contains('\0')));
                None
            }
            Err(error) => Some(error.to_string()),
        },
        _ => match ItemConfig::read(rest, &limits) {
            Ok(item) => {
                assert!(item.run_parameters.start_burst > 0 && !item.runtimes.is_empty());
                assert!(item.sysctl.keys().all(|name| !name.contains("..")));
                None
            }
            Err(error) => Some(error.to_string()),
        },
    };
    if let Some(text) = refused {
        assert!(text.len() < 10_000 && !text.chars().any(char::is_control), "{text}");
    }
});
