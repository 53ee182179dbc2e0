//! Programs that somebody else loaded, by their files.

use muster_cgroup::{AttachPoint, PinnedProgram, Unapplied};
use muster_unit_file::config::ResourceControl;

use super::Asked;

const INGRESS: &str = "IPIngressFilterPath";
const EGRESS: &str = "IPEgressFilterPath";
const ANY: &str = "BPFProgram";

/// Whether a unit's processes must not be started without such a program: one that decides whom they talk to. Of all others
/// systemd's documentation says that units are started without those that are not there.
pub(super) fn is_needed(setting: &str) -> bool {
    [INGRESS, EGRESS].contains(&setting)
}

/// Those that a unit asks for.
pub(super) fn pinned(own: &ResourceControl, asked: &mut Asked) {
    let packets = [
        (INGRESS, AttachPoint::INGRESS, &own.ip_ingress_filter_path),
        (EGRESS, AttachPoint::EGRESS, &own.ip_egress_filter_path),
    ];
    for (setting, point, paths) in packets {
        let paths = paths.iter().map(|path| PinnedProgram {
            setting,
            point,
            path: path.into(),
        });
        asked.resources.pinned.extend(paths);
    }
    for text in own.bpf_program.iter() {
        let parts = text.split_once(':');
        match parts.and_then(|(name, path)| Some((AttachPoint::named(name)?, path))) {
            Some((point, path)) => asked.resources.pinned.push(PinnedProgram {
                setting: ANY,
                point,
                path: path.into(),
            }),
            None => asked.unapplied.push(Unapplied {
                setting: ANY,
                reason: format!("{text:?} is no type and path such as egress:/sys/fs/bpf/x"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_unit_file::directives::PROGRAM_TYPES;

    use super::*;

    #[test]
    fn every_type_that_unit_files_may_name_has_a_place() {
        let mut own = ResourceControl::default();
        for name in PROGRAM_TYPES {
            own.bpf_program.push(&format!("{name}:/sys/fs/bpf/{name}"));
        }
        let mut asked = Asked::default();
        pinned(&own, &mut asked);
        assert!(asked.unapplied.is_empty(), "{:?}", asked.unapplied);
        let found = asked.resources.pinned;
        assert_eq!(found.len(), AttachPoint::ALL.len());
        for one in found {
            assert_eq!(*one.path, *format!("/sys/fs/bpf/{}", one.point));
            assert!(!is_needed(one.setting));
        }
    }

    #[test]
    fn programs_for_packets_have_settings_of_their_own() {
        let mut own = ResourceControl::default();
        own.ip_egress_filter_path.push("/b/out");
        own.ip_ingress_filter_path.push("/b/in");
        own.bpf_program.push("egress:/b/out");
        own.bpf_program.push("nonsense:/b/out");
        let mut asked = Asked::default();
        pinned(&own, &mut asked);
        let found = asked.resources.pinned.iter();
        let found: Vec<_> = found
            .map(|one| (one.setting, one.point, &*one.path))
            .collect();
        let expected = [
            (INGRESS, AttachPoint::INGRESS, "/b/in"),
            (EGRESS, AttachPoint::EGRESS, "/b/out"),
            (ANY, AttachPoint::EGRESS, "/b/out"),
        ];
        assert_eq!(found, expected);
        assert!(is_needed(INGRESS) && is_needed(EGRESS));
        assert_eq!(asked.unapplied.len(), 1, "{:?}", asked.unapplied);
    }
}
