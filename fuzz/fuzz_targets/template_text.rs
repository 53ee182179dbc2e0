//! Any bytes as templates: the first byte chooses the format. What is taken comes back from JSON and can be resolved.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use muster_mapping::{MachineSpec, Mappings, Request, resolve};
use muster_template::{Format, Limits, ProviderId, Template, DescriptionError, TemplateSet};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let format = if first % 2 == 0 { Format::Yaml } else { Format::Json };
    let limits = Limits { file_bytes: 1 << 16, values: 2000, templates: 20, ancestors: 3, ..Limits::default() };
    let name = Path::new("t");
    let read = Template::read_all(name, format, rest, &limits);
    let set = read.and_then(|templates| {
        for template in &templates {
            let json = serde_json::to_string(template).expect("a template is a value");
            let again = Template::read_all(name, Format::Json, json.as_bytes(), &Limits::default());
            assert_eq!(again.expect("what was taken is valid"), [template.clone()]);
        }
        TemplateSet::new(templates, &limits)
    });
    match set {
        Ok(set) => {
            for template in set.iter() {
                for provider in ProviderId::ALL {
                    let request = Request::new(provider);
                    let found = resolve(&set, template.name().as_str(), &Mappings::default(), &request)
                        .expect("it is in the set");
                    let told = found.explain();
                    assert!(told.fields.iter().all(|field| !field.steps.is_empty()));
                    if let Err(error) = MachineSpec::from_resolved(&found) {
                        assert!(!error.problems.is_empty());
                    }
                }
            }
        }
        Err(DescriptionError::Invalid { problems }) => {
            assert!(!problems.is_empty() && problems.len() <= 64);
            for problem in problems {
                assert!(!problem.to_string().contains(|c: char| c.is_control()));
            }
        }
        Err(other) => panic!("no file was read, yet {other}"),
    }
});
