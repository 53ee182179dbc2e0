//! Generators of valid domain values, and the round trip that all of them must survive.

use std::fmt::Debug;
use std::net::IpAddr;
use std::num::{NonZeroI32, NonZeroU64};
use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use prost::Message;

use super::*;

/// Domain to wire to bytes, and all the way back.
pub(super) fn round_trip<W, D>(value: &D) -> Result<(), TestCaseError>
where
    W: Message + Default + Debug + PartialEq + From<D>,
    D: Clone + Debug + PartialEq + TryFrom<W, Error = ConvertError>,
{
    let wire = W::from(value.clone());
    let bytes = wire.encode_to_vec();
    let decoded = W::decode(bytes.as_slice())
        .map_err(|error| TestCaseError::fail(format!("decode: {error}")))?;
    prop_assert!(
        decoded == wire,
        "the bytes hold something else: {:?} is not {:?}",
        decoded,
        wire
    );
    let back =
        D::try_from(decoded).map_err(|error| TestCaseError::fail(format!("convert: {error}")))?;
    prop_assert_eq!(&back, value);
    Ok(())
}

/// Any text that the rules of every id accept, and that no stricter rule refuses.
fn id<T: std::str::FromStr<Err = InvalidValue> + Debug>() -> impl Strategy<Value = T> {
    prop_oneof!["[a-z0-9_. -]{1,40}", "\\PC{1,32}"]
        .prop_filter_map("breaks a rule of this id", |text| text.parse().ok())
}

fn label() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9.]{0,8}", any::<String>()]
}

fn amount() -> impl Strategy<Value = Option<NonZeroU64>> {
    any::<u64>().prop_map(NonZeroU64::new)
}

fn several<S: Strategy>(element: S) -> impl Strategy<Value = Vec<S::Value>> {
    vec(element, 0..4)
}

pub(super) fn instance_ident() -> impl Strategy<Value = InstanceIdent> {
    (
        id(),
        id(),
        any::<u64>(),
        select(ItemType::ALL),
        any::<bool>(),
    )
        .prop_map(
            |(item_id, subject_id, instance, item_type, preinstalled)| InstanceIdent {
                item_id,
                subject_id,
                instance,
                item_type,
                preinstalled,
            },
        )
}

pub(super) fn instance_filter() -> impl Strategy<Value = InstanceFilter> {
    (
        option::of(id()),
        option::of(id()),
        option::of(0..=i64::MAX.unsigned_abs()),
    )
        .prop_map(|(item, subject, instance)| {
            InstanceFilter::new(item, subject, instance).expect("the index fits")
        })
}

pub(super) fn timestamp() -> impl Strategy<Value = Timestamp> {
    (-62_135_596_800_i64..=253_402_300_799, 0..1_000_000_000).prop_map(|(seconds, nanos)| {
        Timestamp::try_from(prost_types::Timestamp { seconds, nanos }).expect("in range")
    })
}

pub(super) fn interval() -> impl Strategy<Value = Interval> {
    (0..315_576_000_000_u64, 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| {
        Interval::try_from(Duration::new(seconds, nanos)).expect("in range")
    })
}

fn fault() -> impl Strategy<Value = Option<AosError>> {
    let number = || any::<i32>().prop_filter_map("not 0", NonZeroI32::new);
    let code = prop_oneof![
        select(AosCode::LISTED),
        number().prop_map(AosCode::from_number),
    ];
    let cause = prop_oneof![
        (code, any::<i32>()).prop_map(|(code, exit_code)| Cause::Code { code, exit_code }),
        number().prop_map(Cause::Errno),
    ];
    option::of((cause, label()).prop_map(|(cause, message)| AosError { cause, message }))
}

fn digest() -> impl Strategy<Value = Digest> {
    prop_oneof![
        any::<[u8; 32]>().prop_map(Digest::from_sha256),
        any::<[u8; 32]>().prop_map(|half| {
            let mut value = [0; 64];
            value[32..].copy_from_slice(&half);
            Digest::from_sha512(value)
        }),
    ]
}

fn data_path() -> impl Strategy<Value = DataPath> {
    prop_oneof!["/?([a-z0-9.]{1,6}/?){1,4}", "\\PC{1,32}"]
        .prop_filter_map("breaks a rule of paths", |text| text.parse().ok())
}

fn env_var_name() -> impl Strategy<Value = EnvVarName> {
    "[A-Z_]{1,8}".prop_map(|name| name.parse().expect("a valid name"))
}

fn env_var() -> impl Strategy<Value = EnvVar> {
    (env_var_name(), any::<String>())
        .prop_filter_map("no NUL", |(name, value)| EnvVar::new(name, value).ok())
}

fn percent_rule() -> impl Strategy<Value = AlertRule<Percent>> {
    (interval(), 0.0..=100.0, 0.0..=100.0).prop_map(|(duration, one, other): (_, f64, f64)| {
        let percent = |value| Percent::new(value).expect("in range");
        AlertRule::new(duration, percent(one.min(other)), percent(one.max(other))).expect("ordered")
    })
}

fn points_rule() -> impl Strategy<Value = AlertRule<u64>> {
    (interval(), any::<u64>(), any::<u64>()).prop_map(|(duration, one, other)| {
        AlertRule::new(duration, one.min(other), one.max(other)).expect("ordered")
    })
}

pub(super) fn alert_rules() -> impl Strategy<Value = AlertRules> {
    (
        option::of(percent_rule()),
        option::of(percent_rule()),
        several((id(), percent_rule())),
        option::of(points_rule()),
        option::of(points_rule()),
    )
        .prop_map(|(ram, cpu, partitions, download, upload)| AlertRules {
            ram,
            cpu,
            partitions,
            download,
            upload,
        })
}

fn subnet() -> impl Strategy<Value = Subnet> {
    (any::<IpAddr>(), any::<u8>()).prop_map(|(address, length)| {
        let bits = if address.is_ipv4() { 33 } else { 129 };
        Subnet::new(address, length % bits).expect("fits the address")
    })
}

fn firewall_rule() -> impl Strategy<Value = FirewallRule> {
    use TransportProtocol::{Sctp, Tcp, Udp};
    let ports = (1..=u16::MAX, 1..=u16::MAX)
        .prop_map(|(a, b)| PortRange::new(a.min(b), a.max(b)).expect("ordered"));
    (
        any::<IpAddr>(),
        ports,
        select(&[Tcp, Udp, Sctp][..]),
        any::<Option<IpAddr>>(),
    )
        .prop_map(|(dst_ip, dst_port, proto, src_ip)| FirewallRule {
            dst_ip,
            dst_port,
            proto,
            src_ip,
        })
}

pub(super) fn network_parameters() -> impl Strategy<Value = NetworkParameters> {
    (
        id(),
        subnet(),
        any::<IpAddr>(),
        several(any::<IpAddr>()),
        several(firewall_rule()),
    )
        .prop_map(
            |(network_id, subnet, ip, dns_servers, rules)| NetworkParameters {
                network_id,
                subnet,
                ip,
                dns_servers,
                rules,
            },
        )
}

pub(super) fn instance_info() -> impl Strategy<Value = InstanceInfo> {
    let identity = (instance_ident(), label(), digest(), option::of(id()), id());
    let account = (0..u32::MAX, 0..u32::MAX, any::<u64>());
    let paths = (option::of(data_path()), option::of(data_path()));
    let rest = (
        several(env_var()),
        option::of(network_parameters()),
        alert_rules(),
    );
    (identity, account, paths, rest).prop_map(|(identity, account, paths, rest)| InstanceInfo {
        instance: identity.0,
        version: identity.1,
        manifest_digest: identity.2,
        owner_id: identity.3,
        runtime_id: identity.4,
        uid: Uid::new(account.0).expect("not the maximum"),
        gid: Gid::new(account.1).expect("not the maximum"),
        priority: account.2,
        storage_path: paths.0,
        state_path: paths.1,
        env_vars: rest.0,
        network: rest.1,
        alert_rules: rest.2,
    })
}

pub(super) fn instance_status() -> impl Strategy<Value = InstanceStatus> {
    let variable = (env_var_name(), fault()).prop_map(|(name, error)| EnvVarStatus { name, error });
    (
        instance_ident(),
        label(),
        option::of(id()),
        option::of(digest()),
        several(variable),
        select(InstanceState::ALL),
        fault(),
    )
        .prop_map(
            |(instance, version, runtime_id, manifest_digest, env_vars, state, error)| {
                InstanceStatus {
                    instance,
                    version,
                    runtime_id,
                    manifest_digest,
                    env_vars,
                    state,
                    error,
                }
            },
        )
}

pub(super) fn node_config_status() -> impl Strategy<Value = NodeConfigStatus> {
    (select(NodeConfigState::ALL), label(), fault()).prop_map(|(state, version, error)| {
        NodeConfigStatus {
            state,
            version,
            error,
        }
    })
}

fn os_info() -> impl Strategy<Value = OsInfo> {
    ("[a-z]{1,8}", label(), several(label()))
        .prop_map(|(os, version, features)| OsInfo::new(os, version, features).expect("named"))
}

fn arch_info() -> impl Strategy<Value = ArchInfo> {
    ("[a-z0-9]{1,8}", label())
        .prop_map(|(architecture, variant)| ArchInfo::new(architecture, variant).expect("named"))
}

fn runtime_info() -> impl Strategy<Value = RuntimeInfo> {
    let amounts = (amount(), amount(), amount(), amount(), any::<u64>());
    (id(), id(), amounts, os_info(), arch_info()).prop_map(
        |(runtime_id, runtime_type, amounts, os_info, arch_info)| RuntimeInfo {
            runtime_id,
            runtime_type,
            max_dmips: amounts.0,
            allowed_dmips: amounts.1,
            total_ram: amounts.2,
            allowed_ram: amounts.3,
            max_instances: amounts.4,
            os_info,
            arch_info,
        },
    )
}

pub(super) fn sm_info() -> impl Strategy<Value = SmInfo> {
    let resource = ("[a-z]{1,8}", amount())
        .prop_map(|(name, count)| ResourceInfo::new(name, count).expect("named"));
    (id(), several(runtime_info()), several(resource)).prop_map(|(node_id, runtimes, resources)| {
        SmInfo {
            node_id,
            runtimes,
            resources,
        }
    })
}

pub(super) fn node_info() -> impl Strategy<Value = NodeInfo> {
    let cpu = (label(), any::<u64>(), any::<u64>(), arch_info(), amount()).prop_map(
        |(model_name, num_cores, num_threads, arch_info, max_dmips)| CpuInfo {
            model_name,
            num_cores,
            num_threads,
            arch_info,
            max_dmips,
        },
    );
    let partition = (id(), several(label()), any::<u64>(), label()).prop_map(
        |(name, types, total_size, path)| PartitionInfo {
            name,
            types,
            total_size,
            path,
        },
    );
    let identity = (id(), id(), label(), any::<u64>(), any::<u64>(), amount());
    let parts = (
        several(cpu),
        several(partition),
        btree_map("[a-z]{1,4}", label(), 0..4),
    );
    (identity, os_info(), parts, select(NodeState::ALL), fault()).prop_map(
        |(identity, os_info, parts, state, error)| NodeInfo {
            node_id: identity.0,
            node_type: identity.1,
            title: identity.2,
            max_dmips: identity.3,
            total_ram: identity.4,
            physical_ram: identity.5,
            os_info,
            cpus: parts.0,
            partitions: parts.1,
            attrs: parts.2,
            state,
            error,
        },
    )
}

fn monitoring_data() -> impl Strategy<Value = MonitoringData> {
    let usage =
        (id(), any::<u64>()).prop_map(|(name, used_size)| PartitionUsage { name, used_size });
    (timestamp(), any::<[u64; 4]>(), several(usage)).prop_map(
        |(timestamp, [ram, cpu, download, upload], partitions)| MonitoringData {
            timestamp,
            ram,
            cpu,
            partitions,
            download,
            upload,
        },
    )
}

pub(super) fn node_monitoring() -> impl Strategy<Value = NodeMonitoring> {
    let instance = (instance_ident(), option::of(id()), monitoring_data()).prop_map(
        |(instance, runtime_id, data)| InstanceMonitoring {
            instance,
            runtime_id,
            data,
        },
    );
    (monitoring_data(), several(instance))
        .prop_map(|(node, instances)| NodeMonitoring { node, instances })
}

fn quota() -> impl Strategy<Value = (QuotaParameter, u64, AlertStatus)> {
    let parameter = prop_oneof![
        Just(QuotaParameter::Cpu),
        Just(QuotaParameter::Ram),
        Just(QuotaParameter::Download),
        Just(QuotaParameter::Upload),
        id().prop_map(QuotaParameter::Partition),
    ];
    (parameter, any::<u64>(), select(AlertStatus::ALL))
}

pub(super) fn alert() -> impl Strategy<Value = Alert> {
    let kind = prop_oneof![
        quota().prop_map(|(parameter, value, status)| AlertKind::SystemQuota {
            parameter,
            value,
            status
        }),
        (instance_ident(), quota()).prop_map(|(instance, (parameter, value, status))| {
            AlertKind::InstanceQuota {
                instance,
                parameter,
                value,
                status,
            }
        }),
        (instance_ident(), label(), label()).prop_map(|(instance, resource, message)| {
            AlertKind::ResourceAllocate {
                instance,
                resource,
                message,
            }
        }),
        label().prop_map(|message| AlertKind::System { message }),
        (label(), label()).prop_map(|(component, message)| AlertKind::Core { component, message }),
        (instance_ident(), label(), label()).prop_map(|(instance, version, message)| {
            AlertKind::Instance {
                instance,
                version,
                message,
            }
        }),
    ];
    (timestamp(), kind).prop_map(|(timestamp, kind)| Alert { timestamp, kind })
}
