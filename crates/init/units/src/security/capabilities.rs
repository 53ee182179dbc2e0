//! Capabilities: groups of them that are judged together.

/// Capabilities, by the kernel's numbers.
pub(super) const fn bits(numbers: &[u8]) -> u64 {
    let (mut bits, mut at) = (0, 0);
    while at < numbers.len() {
        bits |= 1 << numbers[at];
        at += 1;
    }
    bits
}

/// What is written to drop them, what they weigh, which they are, and what a service with one of them can do.
pub(super) const GROUPS: [(&str, u16, u64, &str); 26] = [
    (
        "CapabilityBoundingSet=~CAP_SYS_ADMIN",
        1500,
        bits(&[21]),
        "administer the machine",
    ),
    (
        "CapabilityBoundingSet=~CAP_SET(UID|GID|PCAP)",
        1500,
        bits(&[6, 7, 8]),
        "become other users, and hand capabilities on",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_PTRACE",
        1500,
        bits(&[19]),
        "look into every process and change it",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_TIME",
        1000,
        bits(&[25]),
        "set the system's clock",
    ),
    (
        "CapabilityBoundingSet=~CAP_NET_ADMIN",
        1000,
        bits(&[12]),
        "configure the network",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_RAWIO",
        1000,
        bits(&[17]),
        "reach hardware past its drivers",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_MODULE",
        1000,
        bits(&[16]),
        "put modules into the kernel and take them out",
    ),
    (
        "CapabilityBoundingSet=~CAP_AUDIT_*",
        500,
        bits(&[29, 30, 37]),
        "take part in auditing",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYSLOG",
        500,
        bits(&[34]),
        "control the kernel's log",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_(NICE|RESOURCE)",
        500,
        bits(&[23, 24]),
        "take more of the machine than it is given",
    ),
    (
        "CapabilityBoundingSet=~CAP_MKNOD",
        500,
        bits(&[27]),
        "make nodes of any device",
    ),
    (
        "CapabilityBoundingSet=~CAP_(CHOWN|FSETID|SETFCAP)",
        1000,
        bits(&[0, 4, 31]),
        "give files to others, and rights to programs",
    ),
    (
        "CapabilityBoundingSet=~CAP_(DAC_*|FOWNER|IPC_OWNER)",
        1000,
        bits(&[1, 2, 3, 15]),
        "ignore the permissions of files and queues",
    ),
    (
        "CapabilityBoundingSet=~CAP_KILL",
        500,
        bits(&[5]),
        "send signals to every process",
    ),
    (
        "CapabilityBoundingSet=~CAP_NET_(BIND_SERVICE|BROADCAST|RAW)",
        500,
        bits(&[10, 11, 13]),
        "use low ports, broadcasts and raw packets",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_BOOT",
        100,
        bits(&[22]),
        "restart the machine",
    ),
    (
        "CapabilityBoundingSet=~CAP_MAC_*",
        100,
        bits(&[32, 33]),
        "change the rules of security modules",
    ),
    (
        "CapabilityBoundingSet=~CAP_LINUX_IMMUTABLE",
        75,
        bits(&[9]),
        "make files that nobody can change",
    ),
    (
        "CapabilityBoundingSet=~CAP_IPC_LOCK",
        50,
        bits(&[14]),
        "keep memory from being swapped out",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_CHROOT",
        50,
        bits(&[18]),
        "choose another root folder",
    ),
    (
        "CapabilityBoundingSet=~CAP_BLOCK_SUSPEND",
        25,
        bits(&[36]),
        "keep the machine awake",
    ),
    (
        "CapabilityBoundingSet=~CAP_WAKE_ALARM",
        25,
        bits(&[35]),
        "wake the machine up",
    ),
    (
        "CapabilityBoundingSet=~CAP_LEASE",
        25,
        bits(&[28]),
        "take leases on files of others",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_TTY_CONFIG",
        25,
        bits(&[26]),
        "hang terminals up",
    ),
    (
        "CapabilityBoundingSet=~CAP_SYS_PACCT",
        25,
        bits(&[20]),
        "switch the accounting of processes",
    ),
    (
        "CapabilityBoundingSet=~CAP_BPF",
        25,
        bits(&[39]),
        "run BPF programs in the kernel",
    ),
];
