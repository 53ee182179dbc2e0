//! The suite that every provider passes, on moto: a likeness of EC2 that others made.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use muster_aws::testing::check_file;
use muster_aws::{AwsProvider, AwsSettings};
use muster_mapping::AmiLookup;
use muster_provider::testing::{Rig, run};
use muster_provider::{MachineSpec, Provider, Purchase, ResourceId};

use crate::rig::{PATIENCE, open, order, running, settings, spot};
use crate::server::{MOTO_IMAGE, Moto, REGION, REQUESTS, python, skip};

fn spec() -> MachineSpec {
    MachineSpec {
        ami: Some(MOTO_IMAGE.to_owned()),
        ..crate::rig::spec(r#"{ "instance_type": "t3.micro" }"#)
    }
}

const STOP_AND_TERMINATE: &str = "stopping and terminating at once ends it";
const REVIVES: &str = "whoever stops a machine that has ended revives it, in moto";

#[derive(Debug)]
struct MotoRig {
    python: PathBuf,
    moto: Moto,
    provider: AwsProvider,
}

impl Rig for MotoRig {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.provider.clone())
    }

    fn spec(&self) -> MachineSpec {
        spec()
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn add_foreign(&self) -> BoxFuture<'_, Option<ResourceId>> {
        let id = self.moto.boto(&format!(
            "print(ec2.run_instances(ImageId='{MOTO_IMAGE}', MinCount=1, MaxCount=1)['Instances'][0]['InstanceId'])"
        ));
        let resource = ResourceId::new(&format!("{id}@{REGION}")).expect("a name");
        ready(Some(resource)).boxed()
    }

    /// EC2 refuses to stop what is ending, and so does our own likeness of it.
    fn flaw(&self, case: &str) -> Option<&'static str> {
        (case == STOP_AND_TERMINATE).then_some(REVIVES)
    }

    fn is_untouched<'a>(&'a self, foreign: &'a ResourceId) -> BoxFuture<'a, bool> {
        let (id, _) = foreign.as_str().split_once('@').expect("a place");
        let state = self.moto.boto(&format!(
            "print(ec2.describe_instances(InstanceIds=['{id}'])['Reservations'][0]['Instances'][0]['State']['Name'])"
        ));
        ready(state == "running").boxed()
    }
}

/// moto takes a hibernation for a stop, so none are asked of it.
fn without_hibernation(url: &str) -> AwsSettings {
    AwsSettings {
        hibernation: false,
        ..settings(url)
    }
}

#[tokio::test]
async fn moto_shows_that_every_promise_is_kept() {
    let Some(python) = python() else {
        return skip("moto_shows_that_every_promise_is_kept");
    };
    let moto = Moto::start(python.clone());
    let provider = open(without_hibernation(&moto.url)).await;
    let rig = MotoRig {
        python,
        moto,
        provider,
    };
    let report = run(&rig).await;
    println!("{report}");
    // moto's machines do not sleep.
    report.assert_skipped_only(&[
        (STOP_AND_TERMINATE, REVIVES),
        (
            "start is refused where it is not offered",
            "it can start machines",
        ),
        (
            "stop is refused where it is not offered",
            "it can stop machines",
        ),
        (
            "a forced stop is refused where it is not offered",
            "it can force-stop machines",
        ),
        (
            "reboot is refused where it is not offered",
            "it can reboot machines",
        ),
        (
            "a hibernation ends in hibernated and goes on",
            "it cannot hibernate machines",
        ),
        (
            "starting a hibernated machine resumes it",
            "it cannot hibernate machines",
        ),
        (
            "a hibernated machine can be terminated",
            "it cannot hibernate machines",
        ),
        (
            "a machine that was rebooted has booted anew",
            "nothing tells one boot of its machines from another",
        ),
        (
            "a stopped machine cannot be hibernated",
            "it cannot hibernate machines",
        ),
        (
            "a machine that was not hibernated cannot be resumed",
            "it cannot resume machines",
        ),
        (
            "a verb is refused where it is not offered by one machine alone",
            "it offers whatever its provider can do",
        ),
    ]);

    report.assert_at_least(40);

    // Beyond the suite: spot machines of several types, and images by name and by parameter.
    let several = order(spec(), spot(&["t3.small", "t3.micro"], true));
    let made = running(&rig.provider, &several).await;
    assert!(made.spot, "{made:?}");
    let by_name = MachineSpec {
        ami: None,
        ami_lookup: Some(AmiLookup::Newest {
            owner: "099720109477".to_owned(),
            name: "ubuntu/images/hvm-ssd/*".to_owned(),
        }),
        ..spec()
    };
    let found = rig
        .provider
        .find_image(&by_name)
        .await
        .expect("moto has some");
    let made = running(&rig.provider, &order(by_name, Purchase::OnDemand)).await;
    assert_eq!(made.details["image"], found);
    let by_parameter = MachineSpec {
        ami: None,
        ami_lookup: Some(AmiLookup::Ssm {
            parameter: "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
                .to_owned(),
        }),
        ..spec()
    };
    let found = rig
        .provider
        .find_image(&by_parameter)
        .await
        .expect("moto has it");
    assert!(found.starts_with("ami-"), "{found}");

    // Those of boto3 are in there too, which does the checker no harm.
    let said = check_file(&rig.python, &rig.moto.path().join(REQUESTS), &[])
        .expect("every request is one of EC2's");
    for action in [
        "RunInstances",
        "CreateFleet",
        "GetParameter",
        "DescribeImages",
    ] {
        assert!(said.contains(action), "{said}");
    }
}

/// What stands in the code about types is what AWS says about them.
#[test]
fn the_types_of_the_settings_are_as_large_as_they_are() {
    let Some(python) = python() else {
        return skip("the_types_of_the_settings_are_as_large_as_they_are");
    };
    let program = "import gzip, json, moto, pathlib\n\
        path = pathlib.Path(moto.__file__).parent / 'ec2/resources/instance_types.json.gz'\n\
        kinds = json.loads(gzip.decompress(path.read_bytes()))\n\
        print(json.dumps({name: [kind['VCpuInfo']['DefaultVCpus'], kind['MemoryInfo']['SizeInMiB'], \
        kind['ProcessorInfo']['SupportedArchitectures']] for name, kind in kinds.items()}))";
    let output = Command::new(python.join("bin/python"))
        .args(["-c", program])
        .output()
        .expect("python starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    type Facts = std::collections::BTreeMap<String, (u32, u64, Vec<String>)>;
    let facts: Facts = serde_json::from_slice(&output.stdout).expect("facts");
    let kinds = AwsSettings::default().instance_types;
    assert!(kinds.len() > 50);
    for kind in kinds {
        let (cpus, memory, archs) = &facts[&kind.name];
        assert_eq!(
            (kind.cpus, kind.memory_mb),
            (*cpus, *memory),
            "{}",
            kind.name
        );
        let arch = kind.arch.ec2_name().expect("EC2 has it");
        assert!(archs.iter().any(|found| found == arch), "{}", kind.name);
    }
}
