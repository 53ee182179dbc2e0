use muster_lifecycle::{Halt, State};
use proptest::prelude::*;

use super::*;

/// A page as EC2 writes it, with much that nobody here reads.
const PAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <requestId>8f7724cf-496f-496e-8fe3-example</requestId>
  <reservationSet>
    <item>
      <reservationId>r-1</reservationId><ownerId>123456789012</ownerId><groupSet/>
      <instancesSet>
        <item>
          <instanceId>i-0a</instanceId><imageId>ami-1</imageId>
          <instanceState><code>80</code><name>stopped</name></instanceState>
          <reason>User initiated (2026-01-01 00:00:00 GMT)</reason>
          <instanceType>t3.micro</instanceType>
          <placement><availabilityZone>eu-central-1a</availabilityZone><groupName/></placement>
          <privateIpAddress>10.0.0.4</privateIpAddress>
          <stateReason><code>Client.UserInitiatedHibernate</code><message>Client.UserInitiatedHibernate: User initiated hibernate</message></stateReason>
          <tagSet><item><key>Name</key><value>a &amp; b</value></item><item><key>empty</key><value/></item></tagSet>
          <hibernationOptions><configured>true</configured></hibernationOptions>
        </item>
        <item>
          <instanceId>i-0b</instanceId>
          <instanceState><code>16</code><name>running</name></instanceState>
          <ipAddress>192.0.2.1</ipAddress><instanceLifecycle>spot</instanceLifecycle>
        </item>
      </instancesSet>
    </item>
    <item><instancesSet/></item>
  </reservationSet>
  <nextToken>more</nextToken>
</DescribeInstancesResponse>"#;

#[test]
fn a_page_of_instances_is_read() {
    let page = read_answer::<DescribeInstances>(PAGE.as_bytes()).unwrap();
    assert_eq!(page.next.as_deref(), Some("more"));
    let [asleep, spot] = page.instances.as_slice() else {
        panic!("{page:?}");
    };
    assert_eq!(asleep.state, State::Stopped(Halt::Hibernated));
    assert!(asleep.can_hibernate && !asleep.spot);
    assert_eq!(asleep.tags["Name"], "a & b");
    assert_eq!(asleep.tags["empty"], "");
    assert_eq!(asleep.private_address, "10.0.0.4".parse().ok());
    assert_eq!(asleep.zone.as_deref(), Some("eu-central-1a"));
    assert!(spot.spot && !spot.can_hibernate);
    assert_eq!(spot.state, State::Running);
    assert_eq!(spot.tags.len(), 0);
}

#[test]
fn an_answer_that_lacks_something_says_what() {
    let broken = PAGE.replace("<name>running</name>", "<name>dreaming</name>");
    let error = read_answer::<DescribeInstances>(broken.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("dreaming"), "{error}");
    let broken = PAGE.replace("<instanceId>i-0a</instanceId>", "");
    let error = read_answer::<DescribeInstances>(broken.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("id of an instance"), "{error}");
    let error = read_answer::<RunInstances>(b"<RunInstancesResponse/>").unwrap_err();
    assert!(error.to_string().contains("no instance"), "{error}");
    let error = read_answer::<StopInstances>(b"nothing at all").unwrap_err();
    assert!(matches!(
        error,
        ReadAnswerError::Xml {
            action: "StopInstances",
            ..
        }
    ));
}

#[test]
fn a_fleet_tells_what_it_made_or_why_it_did_not() {
    let made = br#"<CreateFleetResponse><fleetId>fleet-1</fleetId><fleetInstanceSet><item>
        <instanceIds><item>i-1</item></instanceIds><instanceType>m5.large</instanceType><lifecycle>spot</lifecycle>
        </item></fleetInstanceSet></CreateFleetResponse>"#;
    let answer = read_answer::<CreateFleet>(made).unwrap();
    assert_eq!(
        answer,
        FleetAnswer::Made {
            id: "i-1".to_owned()
        }
    );
    let missed =
        br#"<CreateFleetResponse><errorSet><item><errorCode>UnfulfillableCapacity</errorCode>
        <errorMessage>none</errorMessage></item></errorSet></CreateFleetResponse>"#;
    let FleetAnswer::NotMade(faults) = read_answer::<CreateFleet>(missed).unwrap() else {
        panic!("it made nothing");
    };
    assert_eq!(faults[0].meaning(), Meaning::Capacity);
}

#[test]
fn faults_are_read_whatever_their_form() {
    let ec2 = b"<Response><Errors><Error><Code>IncorrectInstanceState</Code><Message>no</Message></Error></Errors></Response>";
    assert_eq!(read_fault(400, ec2).meaning(), Meaning::WrongState);
    let other = b"<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>";
    assert_eq!(read_fault(400, other).meaning(), Meaning::Throttled);
    let page = read_fault(502, b"<html><body>Bad Gateway</body></html>");
    assert_eq!((page.code.as_str(), page.meaning()), ("", Meaning::Passing));
    let long = format!("<R><Error><Code>{}</Code></Error></R>", "x".repeat(100_000));
    assert!(read_fault(400, long.as_bytes()).code.len() < 2000);
}

#[test]
fn a_filter_on_a_tag_takes_its_value_as_it_stands() {
    let request = DescribeInstances {
        filters: vec![Filter::tag("owner", "a*b?\\")],
        ..DescribeInstances::default()
    };
    let query = request.query();
    let value = query.iter().find(|(name, _)| *name == "Filter.1.Value.1");
    assert_eq!(value, Some(("Filter.1.Value.1", "a\\*b\\?\\\\")));
}

#[test]
fn named_instances_are_asked_for_without_pages() {
    let has_pages = |request: DescribeInstances| {
        let query = request.query();
        query.iter().any(|(name, _)| name == "MaxResults")
    };
    assert!(has_pages(DescribeInstances::default()));
    assert!(!has_pages(DescribeInstances {
        ids: vec!["i-1".to_owned()],
        ..DescribeInstances::default()
    }));
}

proptest! {
    /// An answer that was cut or garbled on its way is an error or an answer, never a panic.
    #[test]
    fn no_garbled_answer_makes_a_panic(
        cut in 0..PAGE.len(),
        at in 0..PAGE.len(),
        byte in any::<u8>(),
    ) {
        let mut bytes = PAGE.as_bytes()[..cut].to_vec();
        let _ = read_answer::<DescribeInstances>(&bytes);
        let _ = read_answer::<RunInstances>(&bytes);
        let _ = read_answer::<CreateFleet>(&bytes);
        let _ = read_answer::<DescribeImages>(&bytes);
        let _ = read_fault(400, &bytes);
        bytes = PAGE.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = read_answer::<DescribeInstances>(&bytes);
    }
}
