//! `muster machine` with moto, a likeness of EC2 that others made. Its machines have no system.

use serde_json::json;

use crate::ec2::{MOTO_IMAGE, Moto, REGION, python, skip};
use crate::rig::{Site, until};

#[test]
fn a_machine_of_moto_is_made_shown_stopped_started_and_destroyed() {
    let Some(python) = python() else {
        return skip("a_machine_of_moto_is_made_shown_stopped_started_and_destroyed");
    };
    let moto = Moto::start(python);
    let site = Site::with_env(
        json!({
            "templates": ["moto.yaml"],
            "providers": {
                "docker": { "enabled": false },
                // moto takes a hibernation for a stop.
                "aws": { "regions": [REGION], "endpointUrl": moto.url, "hibernation": false },
            },
        }),
        &[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")],
    );
    let template = format!(
        "name: web\ncpus: 2\nmemoryMB: 1024\noverrides: {{ aws: {{ ami: {MOTO_IMAGE} }} }}\n"
    );
    site.write("moto.yaml", &template);

    // Nobody answers there.
    let order = [
        "provision",
        "-t",
        "web",
        "--name",
        "web",
        "--key",
        "k",
        "--no-wait",
    ];
    let made = site.json(&order);
    assert_eq!(made["provider"], "aws", "{made}");
    until("it runs", || site.state("web") == "running");
    let again = site.json(&order);
    assert_eq!(again["id"], made["id"]);
    let resource = again["resource"].as_str().expect("a name");
    let (instance, region) = resource.split_once('@').expect("a place");
    assert_eq!(region, REGION);
    let state = || {
        moto.boto(&format!(
            "print(ec2.describe_instances(InstanceIds=['{instance}'])['Reservations'][0]['Instances'][0]['State']['Name'])"
        ))
    };
    assert_eq!(state(), "running");
    let shown = site.json(&["show", "web"]);
    assert_eq!(shown["details"]["image"], MOTO_IMAGE, "{shown}");
    assert!(shown["address"].is_string(), "{shown}");
    assert_eq!(site.json(&["list"])[0]["id"], made["id"]);

    // Another one, which is not ours.
    let foreign = moto.boto(&format!(
        "print(ec2.run_instances(ImageId='{MOTO_IMAGE}', MinCount=1, MaxCount=1)['Instances'][0]['InstanceId'])"
    ));
    site.run(&["hibernate", "web"])
        .refused(3, &["cannot do that"]);
    for (verb, wanted) in [("stop", "stopped"), ("start", "running")] {
        site.run(&[verb, "web"]).ok();
        assert_eq!(site.state("web"), wanted);
        assert_eq!(state(), wanted);
    }
    site.run(&["reboot", "web"]).ok();
    assert_eq!(site.json(&["gc"]), json!([]));
    site.run(&["destroy", "web"]).ok();
    assert_eq!(site.json(&["list"]), json!([]));
    assert_eq!(state(), "terminated");
    assert_eq!(site.json(&["gc", "--destroy"]), json!([]));
    let running = moto.boto(
        "found = ec2.describe_instances(Filters=[{'Name': 'instance-state-name', 'Values': ['running']}])\n\
         print(' '.join(i['InstanceId'] for r in found['Reservations'] for i in r['Instances']))",
    );
    assert_eq!(running, foreign);
}
