//! Any bytes as an answer of EC2: the first byte chooses to which request. What is taken is told within bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_aws::ec2::{
    Action, CreateFleet, DescribeImages, DescribeInstances, DescribeLaunchTemplates, FleetAnswer,
    RunInstances, StopInstances, newest, read_answer, read_fault,
};

fn read<A: Action>(bytes: &[u8]) -> Option<A::Answer> {
    match read_answer::<A>(bytes) {
        Ok(answer) => Some(answer),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    match first % 7 {
        0 => {
            if let Some(page) = read::<DescribeInstances>(bytes) {
                assert!(page.instances.iter().all(|instance| !instance.id.is_empty()));
            }
        }
        1 => drop(read::<RunInstances>(bytes)),
        2 => drop(read::<StopInstances>(bytes)),
        3 => {
            if let Some(images) = read::<DescribeImages>(bytes) {
                let some = !images.is_empty();
                assert_eq!(newest(images).is_some(), some);
            }
        }
        4 => {
            if let Some(FleetAnswer::NotMade(faults)) = read::<CreateFleet>(bytes) {
                assert!(faults.iter().all(|fault| fault.status == 200));
            }
        }
        5 => drop(read::<DescribeLaunchTemplates>(bytes)),
        _ => {
            let fault = read_fault(400, bytes);
            assert!(fault.code.chars().count() + fault.message.chars().count() < 1000);
            let text = fault.to_string();
            assert!(!text.contains(|c: char| c.is_control()));
            let _ = fault.meaning();
        }
    }
});
