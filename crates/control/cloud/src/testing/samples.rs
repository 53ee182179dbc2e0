//! A message of every type.

use jiff::Timestamp;
use serde_json::json;

use crate::message::incoming::*;
use crate::message::outgoing::*;
use crate::message::status::*;
use crate::message::telemetry::*;
use crate::message::{
    Base64, CertType, Checksum, DeprovisioningResponse, ErrorInfo, FinishProvisioningResponse,
    Identity, IdentityType, Incoming, Key, Outgoing, Secret,
};

/// A text that is a secret in these messages.
pub const SECRET: &str = "hunter2-hunter2-hunter2";

fn node() -> Identity {
    Identity::codename("node-1")
}

fn item() -> Identity {
    Identity::id("web").of(IdentityType::Service)
}

fn subject() -> Identity {
    Identity::id("subject-1")
}

fn secret() -> Secret {
    SECRET.to_owned().into()
}

fn time() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn error() -> Option<ErrorInfo> {
    Some(ErrorInfo {
        aos_code: 5,
        exit_code: 0,
        message: "not found".to_owned(),
    })
}

/// A message of the Unit that can be told from others by its number.
pub fn numbered(number: u64) -> StateRequest {
    StateRequest {
        item: item(),
        subject: subject(),
        instance: number,
        default: false,
    }
}

/// An alert that can be told from others by its number.
pub fn alert(number: u64) -> Alert {
    Alert::SystemQuotaAlert {
        timestamp: time(),
        node: node(),
        parameter: "ram".to_owned(),
        value: number,
    }
}

/// Monitoring that can be told from others by its number.
pub fn monitoring(number: u64) -> MonitoringData {
    MonitoringData {
        nodes: vec![NodeMonitoring {
            node: node(),
            node_states: Vec::new(),
            items: vec![Usage {
                timestamp: time(),
                ram: number,
                cpu: 2,
                download: 3,
                upload: 4,
                partitions: vec![PartitionUsage {
                    name: "states".to_owned(),
                    used_size: 5,
                }],
            }],
        }],
        instances: Vec::new(),
    }
}

/// One of every type that the cloud sends.
pub fn incoming() -> Vec<Incoming> {
    vec![
        desired_status().into(),
        BlobUrls {
            items: vec![blob("sha256:1234")],
        }
        .into(),
        RequestLog {
            log_type: LogType::InstanceLog,
            filter: LogFilter {
                from: Some(time()),
                till: None,
                node_ids: vec![node()],
                item: Some(item()),
                subject: Some(subject()),
                instance: Some(3),
            },
            upload_options: Some(UploadOptions {
                kind: UploadType::Https,
                url: Some("https://logs".to_owned()),
                bearer_token: Some(secret()),
                bearer_token_ttl: Some(time()),
            }),
        }
        .into(),
        UpdateState {
            item: item(),
            subject: subject(),
            instance: 0,
            state_checksum: Checksum(vec![7; 28]),
            state: "a state".to_owned(),
        }
        .into(),
        StateAcceptance {
            item: item(),
            subject: subject(),
            instance: 0,
            checksum: Checksum(vec![7; 28]),
            result: StateResult::Rejected,
            reason: "too old".to_owned(),
        }
        .into(),
        OverrideEnvVars {
            items: vec![EnvVars {
                item: Some(item()),
                subject: None,
                instance: None,
                variables: vec![EnvVar {
                    name: "COLOUR".to_owned(),
                    value: secret(),
                    ttl: Some(time()),
                }],
            }],
        }
        .into(),
        StartProvisioningRequest {
            node: node(),
            password: secret(),
        }
        .into(),
        FinishProvisioningRequest {
            node: node(),
            certificates: vec![NodeCertificate {
                kind: "sm".to_owned(),
                chain: "PEM".to_owned(),
            }],
            password: secret(),
        }
        .into(),
        DeprovisioningRequest {
            node: node(),
            password: secret(),
        }
        .into(),
        RenewCertificates {
            certificates: vec![ExpiringCertificate {
                kind: CertType::Online,
                node: node(),
                serial: "1f".to_owned(),
                valid_till: Some(time()),
            }],
            unit_secrets: UnitSecrets {
                version: 7,
                nodes: vec![NodeSecret {
                    node: node(),
                    secret: secret(),
                }],
            },
        }
        .into(),
        IssuedUnitCertificates {
            certificates: vec![IssuedCertificate {
                kind: CertType::Iam,
                node: node(),
                certificate_chain: "PEM".to_owned(),
            }],
        }
        .into(),
    ]
}

/// What is wanted, with one of everything.
pub fn desired_status() -> DesiredStatus {
    DesiredStatus {
        nodes: vec![DesiredNode {
            item: node(),
            state: DesiredNodeState::Paused,
        }],
        unit_config: Some(json!({"formatVersion": "1", "version": "2.0.0", "nodes": []})),
        items: vec![DesiredItem {
            item: item(),
            version: "1.0.0".to_owned(),
            owner: Identity::id("owner"),
            index_digest: "sha256:1234".to_owned(),
        }],
        instances: vec![DesiredInstances {
            item: item(),
            subject: subject(),
            priority: 5,
            num_instances: 2,
            labels: vec!["gpu".to_owned()],
        }],
        subjects: vec![DesiredSubject {
            identity: subject(),
            kind: SubjectType::User,
            is_reported_from_unit: true,
        }],
        certificates: vec![SigningCertificate {
            certificate: Base64(vec![1, 2, 3]),
            fingerprint: "f1".to_owned(),
        }],
        certificate_chains: vec![CertificateChain {
            name: "chain".to_owned(),
            fingerprints: vec!["f1".to_owned()],
        }],
    }
}

/// Where a blob is.
pub fn blob(digest: &str) -> BlobInfo {
    BlobInfo {
        digest: digest.to_owned(),
        urls: vec!["https://blobs/1".to_owned()],
        sha256: Checksum(vec![9; 32]),
        size: 10,
        decrypt_info: Some(DecryptInfo {
            block_alg: "AES256/GCM/".to_owned(),
            block_iv: Base64(vec![1; 12]),
            block_key: Key::from(SECRET.as_bytes().to_vec()),
        }),
        sign_info: Some(SignInfo {
            chain_name: "chain".to_owned(),
            alg: "EC/SHA256".to_owned(),
            value: Base64(vec![1; 64]),
            trusted_timestamp: "2024-01-01T00:00:00Z".to_owned(),
            ocsp_values: Vec::new(),
        }),
    }
}

/// One of every type that the Unit sends.
pub fn outgoing() -> Vec<Outgoing> {
    let response = NodeResponse {
        node: node(),
        error_info: error(),
    };
    vec![
        unit_status().into(),
        RequestBlobUrls {
            digests: vec!["sha256:1234".to_owned()],
        }
        .into(),
        all_monitoring().into(),
        Alerts { items: alerts() }.into(),
        PushLog {
            node: node(),
            part: 1,
            parts_count: 2,
            content: Base64(b"gzip".to_vec()),
            status: LogStatus::Ok,
            error_info: None,
        }
        .into(),
        numbered(0).into(),
        NewState {
            item: item(),
            subject: subject(),
            instance: 0,
            state_checksum: Checksum(vec![7; 28]),
            state: "a state".to_owned(),
        }
        .into(),
        OverrideEnvVarsStatus {
            statuses: vec![EnvVarStatus {
                item: item(),
                subject: subject(),
                instance: 0,
                name: "COLOUR".to_owned(),
                error_info: error(),
            }],
        }
        .into(),
        StartProvisioningResponse {
            node: node(),
            csrs: vec![NodeCsr {
                kind: "sm".to_owned(),
                csr: "PEM".to_owned(),
            }],
            error_info: None,
        }
        .into(),
        FinishProvisioningResponse(response.clone()).into(),
        DeprovisioningResponse(response).into(),
        IssueUnitCertificates {
            requests: vec![CertificateRequest {
                kind: CertType::Sm,
                node: node(),
                csr: "PEM".to_owned(),
            }],
        }
        .into(),
        InstallUnitCertificatesConfirmation {
            certificates: vec![InstalledCertificate {
                kind: CertType::Sm,
                node: node(),
                serial: "1f".to_owned(),
                error_info: None,
            }],
        }
        .into(),
    ]
}

/// A status with one of everything.
pub fn unit_status() -> UnitStatus {
    let arch = ArchInfo {
        architecture: "amd64".to_owned(),
        variant: None,
    };
    let os = OsInfo {
        os: "linux".to_owned(),
        ..OsInfo::default()
    };
    UnitStatus {
        is_delta_info: false,
        unit_config: Some(vec![UnitConfigStatus {
            version: "2.0.0".to_owned(),
            state: UnitConfigState::Installed,
            error_info: None,
        }]),
        nodes: Some(vec![NodeStatus {
            identity: node(),
            node_group_subject: Identity::codename("main"),
            max_dmips: 1000,
            total_ram: 1 << 30,
            os_info: os.clone(),
            cpus: Some(vec![CpuInfo {
                model_name: "a processor".to_owned(),
                total_num_cores: 2,
                total_num_threads: 2,
                arch_info: arch.clone(),
                max_dmips: None,
            }]),
            partitions: Some(vec![PartitionInfo {
                name: "states".to_owned(),
                path: None,
                types: vec!["states".to_owned()],
                total_size: 1 << 20,
            }]),
            state: NodeState::Provisioned,
            is_connected: true,
            runtimes: Some(vec![RuntimeInfo {
                identity: Identity::codename("runtime-1"),
                runtime_type: "crun".to_owned(),
                arch_info: arch,
                os_info: os,
                max_instances: 10,
                ..RuntimeInfo::default()
            }]),
            resources: Some(vec![ResourceInfo {
                name: "camera".to_owned(),
                shared_count: 1,
            }]),
            ..NodeStatus::default()
        }]),
        items: Some(vec![ItemStatus {
            item: item(),
            version: "1.0.0".to_owned(),
            state: ItemState::Installed,
            error_info: None,
        }]),
        instances: Some(vec![InstancesStatus {
            item: item(),
            subject: subject(),
            version: "1.0.0".to_owned(),
            instances: vec![InstanceStatus {
                node: node(),
                runtime: Identity::codename("runtime-1"),
                instance: 0,
                state_checksum: Some(Checksum(vec![7; 28])),
                state: InstanceState::Active,
                error_info: None,
            }],
        }]),
        subjects: Some(vec![Identity::codename("subject-1")]),
    }
}

fn all_monitoring() -> MonitoringData {
    let mut data = monitoring(1);
    data.nodes[0].node_states = vec![NodeStateAt {
        timestamp: time(),
        state: NodeState::Provisioned,
        is_connected: true,
    }];
    data.instances = vec![InstanceMonitoring {
        item: item(),
        subject: subject(),
        instance: 0,
        node: node(),
        item_states: vec![InstanceStateAt {
            timestamp: time(),
            state: InstanceState::Active,
        }],
        items: data.nodes[0].items.clone(),
    }];
    data
}

/// One alert of every kind.
pub fn alerts() -> Vec<Alert> {
    vec![
        Alert::SystemAlert {
            timestamp: time(),
            node: node(),
            message: "disk".to_owned(),
        },
        Alert::CoreAlert {
            timestamp: time(),
            node: node(),
            core_component: "SM".to_owned(),
            message: "failed".to_owned(),
        },
        Alert::ResourceAllocateAlert {
            timestamp: time(),
            item: item(),
            subject: subject(),
            instance: 0,
            node: node(),
            device_id: "camera".to_owned(),
            message: "in use".to_owned(),
        },
        alert(1),
        Alert::InstanceQuotaAlert {
            timestamp: time(),
            item: item(),
            subject: subject(),
            instance: 0,
            parameter: "cpu".to_owned(),
            value: 1,
        },
        Alert::DownloadProgressAlert {
            timestamp: time(),
            digest: "sha256:1234".to_owned(),
            url: Some("https://blobs/1".to_owned()),
            downloaded_bytes: 1,
            total_bytes: 2,
            state: DownloadState::Interrupted,
            reason: Some("cut".to_owned()),
            error_info: error(),
        },
        Alert::UpdateItemInstanceAlert {
            timestamp: time(),
            item: item(),
            subject: subject(),
            instance: 0,
            version: "1.0.0".to_owned(),
            message: "crashed".to_owned(),
        },
    ]
}
