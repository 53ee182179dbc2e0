use super::*;

/// The whole table, written out: a cell that changes has to be changed here as well.
///
/// Columns: public port; protected port in the clear; root on the local socket; then peers of this
/// system by role, first of this node, then of another: iam, cm, sm, mp, nodemgr, operator, custom.
/// `x` allowed, `.` refused.
const MATRIX: &[(Call, &str)] = &[
    //                                    pub clr root  iam cm sm mp nm op cu   iam cm sm mp nm op cu
    (Call::GetApiVersion, "x x x  x x x x x x x  x x x x x x x"),
    (Call::GetSystemInfo, "x x x  x x x x x x x  x x x x x x x"),
    (Call::GetSubjects, "x x x  x x x x x x x  x x x x x x x"),
    (
        Call::SubscribeSubjectsChanged,
        "x x x  x x x x x x x  x x x x x x x",
    ),
    (
        Call::GetCurrentNodeInfo,
        "x x x  x x x x x x x  x x x x x x x",
    ),
    (
        Call::SubscribeCurrentNodeChanged,
        "x x x  x x x x x x x  x x x x x x x",
    ),
    (Call::GetCert, "x x x  x x x x x x x  x x x x x x x"),
    (
        Call::SubscribeCertChanged,
        "x x x  x x x x x x x  x x x x x x x",
    ),
    (Call::GetPermissions, "x x x  x x x x x x x  x x x x x x x"),
    (Call::GetAllNodeIds, "x x x  x x x x x x x  x x x x x x x"),
    (Call::GetNodeInfo, "x x x  x x x x x x x  x x x x x x x"),
    (
        Call::SubscribeNodeChanged,
        "x x x  x x x x x x x  x x x x x x x",
    ),
    (Call::RegisterNode, "x . .  . . . . . . .  x . . . . . ."),
    (Call::PauseNode, ". . x  . x . . x x .  . . . . x x ."),
    (Call::ResumeNode, ". . x  . x . . x x .  . . . . x x ."),
    (Call::GetCertTypes, ". x x  . x . . x x .  . . . . x x ."),
    (
        Call::StartProvisioning,
        ". x x  . x . . x x .  . . . . x x .",
    ),
    (
        Call::FinishProvisioning,
        ". x x  . x . . x x .  . . . . x x .",
    ),
    (Call::Deprovision, ". . x  . x . . x x .  . . . . x x ."),
    (Call::CreateKey, ". x x  . x . . x x .  . . . . x x ."),
    (Call::ApplyCert, ". x x  . x . . x x .  . . . . x x ."),
    (
        Call::RegisterInstance,
        ". . .  . . x . . . .  . . . . . . .",
    ),
    (
        Call::UnregisterInstance,
        ". . .  . . x . . . .  . . . . . . .",
    ),
];

const ROLES: [&str; 7] = ["iam", "cm", "sm", "mp", "nodemgr", "operator", "gateway"];

fn peer(system: &str, node: &str, role: &str) -> Caller {
    Caller::Identified(PeerIdentity {
        id: format!("spiffe://{system}/node/{node}/{role}")
            .parse()
            .unwrap(),
        origin: muster_tls::IdentityOrigin::Spiffe,
    })
}

fn authority() -> Authority {
    Authority::new(
        Some(SystemId::new("unit").unwrap()),
        NodeId::new("here").unwrap(),
    )
}

fn columns() -> Vec<Caller> {
    let mut columns = vec![Caller::Public, Caller::UnprotectedPort, Caller::LocalRoot];
    for node in ["here", "there"] {
        columns.extend(ROLES.map(|role| peer("unit", node, role)));
    }
    columns
}

#[test]
fn every_cell_of_the_table() {
    let listed: Vec<Call> = MATRIX.iter().map(|row| row.0).collect();
    assert_eq!(listed, Call::ALL, "each call has its row");
    let columns = columns();
    for (call, row) in MATRIX {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.len(), columns.len(), "{call}");
        for (caller, cell) in columns.iter().zip(cells) {
            let allowed = authority().check(caller, *call).is_ok();
            assert_eq!(allowed, cell == "x", "{caller} calls {call}");
        }
    }
}

#[test]
fn a_peer_of_another_system_may_do_nothing_under_its_identity() {
    for role in ROLES {
        for call in Call::ALL {
            let denied = authority()
                .check(&peer("other", "here", role), *call)
                .unwrap_err();
            assert!(denied.to_string().contains("system unit"), "{denied}");
        }
    }
}

#[test]
fn without_a_system_of_its_own_the_authorities_decide_who_belongs_here() {
    let authority = Authority::new(None, NodeId::new("here").unwrap());
    assert!(
        authority
            .check(&peer("any", "here", "cm"), Call::CreateKey)
            .is_ok()
    );
    assert!(
        authority
            .check(&peer("any", "here", "sm"), Call::CreateKey)
            .is_err()
    );
}

#[test]
fn refusals_say_who_what_and_why_with_the_right_code() {
    let denied = authority()
        .check(&peer("unit", "here", "sm"), Call::StartProvisioning)
        .unwrap_err();
    assert_eq!(
        denied.to_string(),
        "spiffe://unit/node/here/sm may not call StartProvisioning: it needs one of the roles cm, \
         nodemgr, operator"
    );
    assert_eq!(Status::from(denied).code(), tonic::Code::PermissionDenied);
    let denied = authority()
        .check(&Caller::Public, Call::CreateKey)
        .unwrap_err();
    assert_eq!(Status::from(denied).code(), tonic::Code::Unauthenticated);
}
