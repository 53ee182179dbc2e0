use super::*;
use Permission::{Change, Read, View};

fn id(text: &str) -> SpiffeId {
    text.parse().unwrap()
}

fn access() -> Access {
    let grant = |who: &str, may| Grant { who: id(who), may };
    let grants = vec![
        grant("spiffe://sys/node/desk/viewer", View),
        grant("spiffe://other/node/desk/operator", Read),
        grant("spiffe://sys/node/main/nodemgr", Change),
        grant("spiffe://sys/node/twice/viewer", View),
        grant("spiffe://sys/node/twice/viewer", Read),
    ];
    let access = Access {
        own_user: 1000,
        ..Access::local_only()
    };
    access.operators_of(SystemId::new("sys").unwrap(), grants)
}

/// Every cell: each caller with each call.
#[test]
fn who_may_call_what() {
    let peer = |text: &str| Caller::Identified(id(text));
    let rows = [
        (Caller::Local { user: 0 }, Some(Change)),
        (Caller::Local { user: 1000 }, Some(Change)),
        (Caller::Local { user: 1001 }, None),
        (Caller::Unknown, None),
        (peer("spiffe://sys/node/desk/operator"), Some(Change)),
        (peer("spiffe://sys/node/elsewhere/operator"), Some(Change)),
        (peer("spiffe://elsewhere/node/desk/operator"), None),
        (peer("spiffe://other/node/desk/operator"), Some(Read)),
        (peer("spiffe://other/node/desk2/operator"), None),
        (peer("spiffe://sys/node/desk/viewer"), Some(View)),
        (peer("spiffe://sys/node/twice/viewer"), Some(Read)),
        (peer("spiffe://sys/node/main/nodemgr"), Some(Change)),
        (peer("spiffe://sys/node/n2/nodemgr"), None),
        (peer("spiffe://sys/node/main/sm"), None),
        (peer("spiffe://sys/node/main/cm"), None),
        (peer("spiffe://sys/node/main/iam"), None),
        (peer("spiffe://sys/node/main/mp"), None),
        (peer("spiffe://sys/node/main/operators"), None),
    ];
    let access = access();
    for (caller, may) in rows {
        for call in Call::ALL {
            let expected = may.is_some_and(|may| may >= call.needs());
            let answer = access.check(&caller, *call);
            assert_eq!(answer.is_ok(), expected, "{caller} {call}");
        }
    }
}

#[test]
fn changes_and_secrets_are_not_for_viewers() {
    let of = |needs| {
        let calls = Call::ALL.iter().filter(move |call| call.needs() == needs);
        calls.copied().collect::<Vec<_>>()
    };
    assert_eq!(of(Read), [Call::GetDesired, Call::ReadLogs]);
    assert_eq!(
        of(Change),
        [
            Call::Apply,
            Call::Rollback,
            Call::SetNodePaused,
            Call::DrainNode
        ]
    );
}

#[test]
fn without_a_system_certificates_open_nothing() {
    let access = Access::local_only();
    let operator = Caller::Identified(id("spiffe://sys/node/desk/operator"));
    assert!(access.check(&operator, Call::GetOverview).is_err());
}

#[test]
fn a_refusal_names_caller_call_and_what_is_missing() {
    let access = access();
    let refusal = |caller, call| Status::from(access.check(&caller, call).unwrap_err());
    let viewer = Caller::Identified(id("spiffe://sys/node/desk/viewer"));
    let status = refusal(viewer, Call::Apply);
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    assert_eq!(
        status.message(),
        "spiffe://sys/node/desk/viewer may not call Apply: it is granted view, and needs change"
    );
    let status = refusal(Caller::Unknown, Call::Watch);
    assert_eq!(status.code(), tonic::Code::Unauthenticated);
    let status = refusal(Caller::Local { user: 7 }, Call::Watch);
    assert_eq!(
        status.message(),
        "user 7 of this machine may not call Watch: only root and user 1000 may"
    );
}
