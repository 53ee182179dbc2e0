//! Networks between nodes by VLAN, on kernels that have them: one whose packet filter is iptables, one with nftables.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_fault::test_program;
use muster_lab::guest::Guest;
use muster_lab::require;

use crate::rig::programs;

/// A guest needs seconds; on a busy machine many.
const TIME: Duration = Duration::from_secs(180);

/// Kernel modules beside those that they depend on: links and the packet filter.
const LINKS: [&str; 3] = ["8021q", "veth", "bridge"];
const IPTABLES: [&str; 6] = [
    "iptable_filter",
    "iptable_nat",
    "xt_conntrack",
    "xt_comment",
    "xt_tcpudp",
    "xt_MASQUERADE",
];
const NFTABLES: [&str; 6] = [
    "crc32c_intel",
    "nf_tables",
    "nft_ct",
    "nft_masq",
    "nft_chain_nat",
    "nft_objref",
];

/// Two nodes with a wire between them. The network `front` has the same tag on both, `back` has not.
const SCRIPT: &str = r#"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/lab/bin
set -e
fail() { echo "FAILED: $*"; cat /tmp/answers* 2>/dev/null; exit 1; }
mkdir -p /run/netns /tmp
ip link set lo up
for n in 1 2; do ip netns add n$n; nsenter --net=/run/netns/n$n ip link set lo up; done
ip link add up0 netns n1 type veth peer name up0 netns n2
for n in 1 2; do nsenter --net=/run/netns/n$n ip link set up0 up; done

node() {
    tag=$((7 + $1))
    cat > /tmp/requests$1 <<REQUESTS
{"update": [{"id": "front", "subnet": "172.17.0.0/16", "ip": "172.17.0.$1", "vlan": 7}, {"id": "back", "subnet": "172.18.0.0/16", "ip": "172.18.0.$1", "vlan": $tag}]}
{"attach": {"item": "front", "network": "front", "subnet": "172.17.0.0/16", "ip": "172.17.1.$1", "exposed": ["8080"]}}
{"attach": {"item": "back", "network": "back", "subnet": "172.18.0.0/16", "ip": "172.18.1.$1", "exposed": ["8080"]}}
REQUESTS
    nsenter --net=/run/netns/n$1 /programs/network_node /tmp/db$1/sm.db /run/muster$1 /plugins uplink=up0 < /tmp/requests$1 > /tmp/answers$1
    grep -q error /tmp/answers$1 && fail "node $1"
    [ "$(grep -c ok /tmp/answers$1)" = 4 ] || fail "node $1 did not answer"
}
mkdir -m 700 /tmp/db1 /tmp/db2
node 1
node 2
nsenter --net=/run/netns/n1 ip -d link show type vlan > /out/vlans
namespace() { sed -n "s/.*\"namespace\":\"\([^\"]*\)\".*/\1/p" /tmp/answers$1 | sed -n "$2p"; }

serve() { ( while :; do echo "hello from $2" | nsenter --net=$1 busybox nc -l -p 8080 -w 60; done ) & }
serve "$(namespace 2 1)" front
serve "$(namespace 2 2)" back
reach() { nsenter --net=$1 timeout $3 busybox nc -w $3 $2 8080 < /dev/null 2>/dev/null; }
for attempt in 1 2 3 4 5 6 7 8; do
    reach "$(namespace 1 1)" 172.17.1.2 5 > /out/front && [ -s /out/front ] && break
done
nsenter --net=/run/netns/n1 ip -s link show type vlan > /out/counted
reach "$(namespace 1 2)" 172.18.1.2 5 > /out/back || true
echo through > /out/end
"#;

fn run(mut guest: Guest, modules: &[&str]) {
    for module in LINKS.iter().chain(modules) {
        guest = guest.module(*module);
    }
    // The small shell of guests would take its own tools for those of the host.
    let outcome = guest
        .memory_mib(512)
        .file("/vlan.sh", SCRIPT, 0o755)
        .script("exec /usr/bin/bash /vlan.sh")
        .run(TIME)
        .unwrap();
    let text = |name: &str| outcome.text(name).unwrap_or_default();
    assert_eq!(text("end"), "through\n", "{:#?}", outcome.console);
    assert!(text("vlans").contains("802.1Q id 7"), "{}", text("vlans"));
    assert_eq!(
        text("front"),
        "hello from front\n",
        "{:#?}",
        outcome.console
    );
    assert_eq!(text("back"), "", "tags do not part networks");
}

/// User-Mode Linux has no nftables for IPv4: here the rules are those of iptables.
#[test]
fn instances_of_one_network_reach_each_other_by_its_vlan_and_by_no_other() {
    require!(
        Root,
        Tool("linux.uml"),
        Tool("iptables-legacy-save"),
        File("/usr/lib/cni/bridge")
    );
    let node = test_program("network_node");
    let guest = Guest::uml()
        .share_host_tools()
        .share(node.parent().unwrap(), "/programs")
        .share(programs(), "/plugins");
    run(guest, &IPTABLES);
}

/// Puts a program and the libraries that it needs into a guest.
fn with_program(mut guest: Guest, host: &Path, place: &str) -> Guest {
    let needs = Command::new("ldd").arg(host).output().unwrap();
    let needs = String::from_utf8(needs.stdout).unwrap();
    for library in needs.split_whitespace().filter(|it| it.starts_with("/lib")) {
        guest = guest.host_file(library, library);
    }
    guest.host_file(host, place)
}

/// The distribution's own kernel, with nftables.
#[test]
fn the_same_holds_with_the_distributions_kernel_and_nftables() {
    require!(
        Root,
        Tool("qemu-system-x86_64"),
        Tool("busybox"),
        Tool("nft"),
        Tool("strip"),
        File("/usr/lib/cni/bridge")
    );
    let mut guest = Guest::qemu();
    if !guest.can_boot() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = [
        (test_program("network_node"), "/programs/network_node"),
        (
            programs().join("muster-firewall"),
            "/plugins/muster-firewall",
        ),
    ];
    for (built, place) in programs {
        // What is for debuggers would fill the guest's memory.
        let small = folder.path().join(built.file_name().unwrap());
        let stripped = Command::new("strip")
            .arg("-o")
            .args([&small, &built])
            .status();
        assert!(stripped.unwrap().success());
        guest = with_program(guest, &small, place);
    }
    for tool in [
        "/usr/bin/bash",
        "/usr/sbin/ip",
        "/usr/bin/nsenter",
        "/usr/sbin/nft",
    ] {
        guest = with_program(guest, Path::new(tool), tool);
    }
    for plugin in ["loopback", "bridge", "static"] {
        let plugin = format!("/usr/lib/cni/{plugin}");
        guest = with_program(guest, Path::new(&plugin), &plugin);
    }
    run(guest, &NFTABLES);
}
