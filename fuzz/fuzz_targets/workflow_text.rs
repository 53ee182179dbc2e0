//! Any bytes as a workflow: whatever is one can be written and reads back as the same, and whatever is none is told in lines
//! that can be printed. The first byte chooses the format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_orchestrate::{Format, Limits, ReadWorkflowError, Workflow};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let format = match first % 2 {
        0 => Format::Json,
        _ => Format::Yaml,
    };
    let limits = Limits {
        document: 64 << 10,
        ..Limits::default()
    };
    match Workflow::read("w", format, rest, &limits) {
        Ok(workflow) => {
            assert!(workflow.slots().count() <= 1000);
            let text = workflow.to_json();
            let wide = Limits {
                document: text.len(),
                values: usize::MAX,
                ..Limits::default()
            };
            let again = Workflow::read("w", Format::Json, text.as_bytes(), &wide);
            assert_eq!(again.expect("what was written reads back"), workflow);
        }
        Err(ReadWorkflowError::Invalid { source, .. }) => {
            let told = source.to_string();
            let hidden = |it: char| it.is_control() && it != '\n';
            assert!(!told.is_empty() && !told.contains(hidden));
        }
        Err(other) => assert!(!other.to_string().is_empty()),
    }
});
