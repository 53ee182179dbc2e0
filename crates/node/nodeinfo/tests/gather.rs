//! Whole nodes: the machine that the test runs on, and boards made of files.

use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use muster_api::domain::{NodeInfo, NodeState, NodeType, PartitionName};
use muster_api::iamanager::v6 as wire;
use muster_nodeinfo::{
    GatherError, GatherWarning, NodeFacts, NodeIdProblem, Options, PartitionSpec,
};
use tempfile::TempDir;

fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("a file");
}

fn options(root: &Path) -> Options {
    let mut options = Options::new(NodeType::new("board").expect("a type"));
    options.root = root.to_owned();
    options.max_dmips = NonZeroU64::new(1000);
    options
}

/// A board with four small and two large cores, whose topology only `/sys` tells.
fn board() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    put(root, "etc/machine-id", "board-7\n");
    put(root, "etc/os-release", "ID=poky\nVERSION_ID=\"5.0.4\"\n");
    put(
        root,
        "proc/meminfo",
        "MemTotal:        3884032 kB\nMemFree: 100 kB\n",
    );
    let mut cpuinfo = String::new();
    for cpu in 0..6 {
        let part = if cpu < 4 { "0xd05" } else { "0xd0b" };
        cpuinfo += &format!(
            "processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: {part}\n\n"
        );
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        put(root, &format!("{topology}/physical_package_id"), "0\n");
        put(
            root,
            &format!("{topology}/thread_siblings_list"),
            &format!("{cpu}\n"),
        );
    }
    put(root, "proc/cpuinfo", &cpuinfo);
    folder
}

#[test]
fn this_machine_is_described_and_survives_the_wire() {
    let folder = tempfile::tempdir().expect("a folder");
    put(folder.path(), "id", "this-node\n");
    let mut options = Options::new(NodeType::new("main").expect("a type"));
    options.node_id_path = folder.path().join("id");
    options.dmips_cache = Some(folder.path().join("dmips.json"));
    options.attrs.insert("MainNode".into(), String::new());
    options.partitions.push(PartitionSpec {
        name: PartitionName::new("data").expect("a name"),
        types: vec!["services".into(), "storages".into()],
        path: folder.path().to_owned(),
    });
    let facts = NodeFacts::gather(&options).expect("a node");
    assert!(facts.warnings.is_empty(), "{:?}", facts.warnings);
    let node = facts.node_info(NodeState::Unprovisioned, None);
    assert_eq!(node.node_id.as_str(), "this-node");
    assert!(!node.title.is_empty(), "the host's name stands in");
    assert_eq!(node.os_info.os(), "linux");
    assert!(node.total_ram > 1 << 20);
    assert!(
        node.physical_ram
            .is_none_or(|physical| physical.get() >= node.total_ram)
    );
    let threads: u64 = node.cpus.iter().map(|cpu| cpu.num_threads).sum();
    let online = std::thread::available_parallelism().expect("a number of threads");
    assert!(threads >= online.get() as u64, "{threads} threads");
    assert!(
        node.cpus
            .iter()
            .all(|cpu| cpu.num_cores >= 1 && cpu.max_dmips.is_some())
    );
    assert_eq!(
        node.max_dmips,
        node.cpus
            .iter()
            .filter_map(|cpu| cpu.max_dmips)
            .map(NonZeroU64::get)
            .sum::<u64>()
    );
    let stat = rustix::fs::statvfs(folder.path()).expect("a file system");
    assert_eq!(node.partitions[0].total_size, stat.f_frsize * stat.f_blocks);

    let again = NodeFacts::gather(&options)
        .expect("a node")
        .node_info(node.state, None);
    assert_eq!(
        again, node,
        "measured once: the same figures at the next start"
    );
    let back = NodeInfo::try_from(wire::NodeInfo::from(node.clone())).expect("valid");
    assert_eq!(back, node);
}

#[test]
fn a_board_of_two_kinds_of_cores() {
    let board = board();
    let facts = NodeFacts::gather(&options(board.path())).expect("a node");
    let cpus: Vec<_> = facts
        .cpus
        .iter()
        .map(|cpu| {
            (
                cpu.model_name.as_str(),
                cpu.num_cores,
                cpu.num_threads,
                cpu.max_dmips,
            )
        })
        .collect();
    assert_eq!(
        cpus,
        [
            ("ARM Cortex-A55", 4, 4, None),
            ("ARM Cortex-A76", 2, 2, None)
        ]
    );
    assert_eq!(facts.max_dmips, 1000, "what is configured is not measured");
    assert_eq!(facts.total_ram, 3_884_032 * 1024);
    assert_eq!(facts.physical_ram, None);
    assert_eq!(facts.os_info.version(), Some("5.0.4"));
}

#[test]
fn a_text_of_another_form_still_counts_processors() {
    let board = board();
    put(
        board.path(),
        "proc/cpuinfo",
        "vendor_id : IBM/S390\n# processors : 4\n",
    );
    put(board.path(), "sys/devices/system/cpu/online", "0-3\n");
    let facts = NodeFacts::gather(&options(board.path())).expect("a node");
    assert_eq!((facts.cpus.len(), facts.cpus[0].num_threads), (1, 4));
}

#[test]
fn a_node_without_an_id_is_told_how_to_get_one() {
    let board = board();
    for content in [Some(""), Some("uninitialized\n"), None] {
        match content {
            Some(content) => put(board.path(), "etc/machine-id", content),
            None => fs::remove_file(board.path().join("etc/machine-id")).expect("a file"),
        }
        let error = NodeFacts::gather(&options(board.path())).expect_err("no id");
        assert_eq!(error.to_string(), "/etc/machine-id holds no node id");
        let GatherError::NodeId { source, .. } = error else {
            panic!("{error}")
        };
        assert!(matches!(source, NodeIdProblem::Empty));
        assert!(
            source.to_string().contains("systemd-machine-id-setup"),
            "{source}"
        );
    }
    assert!(
        !board.path().join("etc/machine-id").exists(),
        "none is made up"
    );
}

#[test]
fn a_partition_that_is_not_there_is_left_out_and_said() {
    let board = board();
    fs::create_dir(board.path().join("data")).expect("a folder");
    let mut options = options(board.path());
    for (name, path) in [("state", "/not/there"), ("data", "/data")] {
        options.partitions.push(PartitionSpec {
            name: PartitionName::new(name).expect("a name"),
            types: Vec::new(),
            path: path.into(),
        });
    }
    let facts = NodeFacts::gather(&options).expect("a node");
    assert_eq!(facts.partitions.len(), 1);
    assert_eq!(facts.partitions[0].path, "/data");
    let [warning @ GatherWarning::Partition { .. }] = facts.warnings.as_slice() else {
        panic!("{:?}", facts.warnings)
    };
    let text = warning.to_string();
    assert!(
        text.contains("state") && text.contains("/not/there"),
        "{text}"
    );

    options.partitions[1].name = PartitionName::new("state").expect("a name");
    assert!(matches!(
        NodeFacts::gather(&options),
        Err(GatherError::DuplicatePartition { .. })
    ));
}

#[test]
fn what_no_node_can_be_without_is_named() {
    let board = board();
    put(board.path(), "proc/meminfo", "nothing\n");
    let error = NodeFacts::gather(&options(board.path())).expect_err("no memory");
    assert_eq!(
        error.to_string(),
        "/proc/meminfo does not tell the amount of memory"
    );
    fs::remove_file(board.path().join("proc/cpuinfo")).expect("a file");
    let error = NodeFacts::gather(&options(board.path())).expect_err("no processors");
    assert_eq!(error.to_string(), "cannot read /proc/cpuinfo");
    let mut nameless = options(board.path());
    nameless.attrs.insert(String::new(), "x".into());
    assert!(matches!(
        NodeFacts::gather(&nameless),
        Err(GatherError::NamelessAttribute { .. })
    ));
}
