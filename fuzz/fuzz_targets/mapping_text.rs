//! Any bytes as mappings, and as a lock file: the first byte chooses. What is taken is applied to a template.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use muster_mapping::{LockFile, MachineSpec, Mappings, Request, resolve};
use muster_template::{Format, Limits, ProviderId, Template, DescriptionError, TemplateSet};

const TEMPLATE: &[u8] = b"{name: a, image: 'ubuntu:24.04', arch: amd64, cpus: 2, labels: {team: a}}";

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let limits = Limits { file_bytes: 1 << 16, values: 2000, mappings: 50, ..Limits::default() };
    let name = Path::new("m");
    let problems = match first % 3 {
        0 | 1 => {
            let format = if first % 3 == 0 { Format::Yaml } else { Format::Json };
            match Mappings::read(name, format, rest, &limits) {
                Ok(mappings) => {
                    apply(&mappings);
                    return;
                }
                Err(DescriptionError::Invalid { problems }) => problems,
                Err(other) => panic!("no file was read, yet {other}"),
            }
        }
        _ => match LockFile::parse(name, rest, &limits) {
            Ok(lock) => {
                let text = lock.to_text();
                let again = LockFile::parse(name, text.as_bytes(), &Limits::default());
                assert_eq!(again.expect("what is written is valid"), lock);
                return;
            }
            Err(problems) => problems,
        },
    };
    assert!(!problems.is_empty() && problems.len() <= 64);
    for problem in problems {
        assert!(!problem.to_string().contains(|c: char| c.is_control()));
    }
});

fn apply(mappings: &Mappings) {
    let limits = Limits::default();
    let templates = Template::read_all(Path::new("t"), Format::Yaml, TEMPLATE, &limits);
    let set = TemplateSet::new(templates.expect("it is valid"), &limits).expect("it is valid");
    for provider in ProviderId::ALL {
        let found = resolve(&set, "a", mappings, &Request::new(provider)).expect("it is there");
        assert_eq!(found.considered().len(), mappings.len());
        assert!(found.get("name").is_some_and(|it| it.value.as_str() == Some("a")));
        let _ = found.explain().to_string();
        if let Ok(spec) = MachineSpec::from_resolved(&found) {
            assert!(!format!("{spec:?}").is_empty());
        }
    }
}
