//! Networks between nodes by VLAN, on a kernel that has them, and with a packet filter that is only iptables.

use std::path::Path;
use std::time::Duration;

use muster_fault::test_program;
use muster_lab::guest::Guest;
use muster_lab::require;

use crate::rig::programs;

/// A guest needs seconds; on a busy machine many.
const TIME: Duration = Duration::from_secs(180);

/// Kernel modules beside those that they depend on: links, the packet filter, speeds.
const MODULES: [&str; 13] = [
    "8021q",
    "veth",
    "bridge",
    "iptable_filter",
    "iptable_nat",
    "xt_conntrack",
    "xt_comment",
    "xt_tcpudp",
    "xt_MASQUERADE",
    "ifb",
    "sch_tbf",
    "sch_ingress",
    "act_mirred",
];

/// Two nodes with a wire between them. The network `front` has the same tag on both, `back` has not.
const SCRIPT: &str = r#"
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
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

#[test]
fn instances_of_one_network_reach_each_other_by_its_vlan_and_by_no_other() {
    require!(
        Root,
        Tool("linux.uml"),
        Tool("iptables-legacy-save"),
        File("/usr/lib/cni/bridge")
    );
    let node = test_program("network_node");
    let mut guest = Guest::uml()
        .memory_mib(512)
        .share_host_tools()
        .share(node.parent().unwrap_or(Path::new("/")), "/programs")
        .share(programs(), "/plugins");
    for module in MODULES {
        guest = guest.module(module);
    }
    // The small shell of guests would take its own tools for those of the host.
    let outcome = guest
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
