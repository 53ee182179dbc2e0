//! Resource limits of processes.

use muster_unit_file::value::rlimit::Resource;

use super::Subject;
use super::sheet::{INFINITY, Sheet};

const LIMITS: [(Resource, &str, &str); 16] = [
    (Resource::Cpu, "LimitCPU", "LimitCPUSoft"),
    (Resource::Fsize, "LimitFSIZE", "LimitFSIZESoft"),
    (Resource::Data, "LimitDATA", "LimitDATASoft"),
    (Resource::Stack, "LimitSTACK", "LimitSTACKSoft"),
    (Resource::Core, "LimitCORE", "LimitCORESoft"),
    (Resource::Rss, "LimitRSS", "LimitRSSSoft"),
    (Resource::Nofile, "LimitNOFILE", "LimitNOFILESoft"),
    (Resource::As, "LimitAS", "LimitASSoft"),
    (Resource::Nproc, "LimitNPROC", "LimitNPROCSoft"),
    (Resource::Memlock, "LimitMEMLOCK", "LimitMEMLOCKSoft"),
    (Resource::Locks, "LimitLOCKS", "LimitLOCKSSoft"),
    (
        Resource::Sigpending,
        "LimitSIGPENDING",
        "LimitSIGPENDINGSoft",
    ),
    (Resource::Msgqueue, "LimitMSGQUEUE", "LimitMSGQUEUESoft"),
    (Resource::Nice, "LimitNICE", "LimitNICESoft"),
    (Resource::Rtprio, "LimitRTPRIO", "LimitRTPRIOSoft"),
    (Resource::Rttime, "LimitRTTIME", "LimitRTTIMESoft"),
];

pub(super) fn add(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let stated = &subject.config.exec.limits;
    for (resource, hard, soft) in LIMITS {
        let limit = stated
            .iter()
            .rfind(|limit| limit.resource == resource)
            .copied()
            .unwrap_or_else(|| subject.host.limit(resource, subject.is_configured()));
        for (name, value) in [(hard, limit.hard), (soft, limit.soft)] {
            sheet.number_or(name, (value != u64::MAX).then_some(value), INFINITY);
        }
    }
}
