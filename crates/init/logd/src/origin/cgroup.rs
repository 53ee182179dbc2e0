//! From a cgroup's path to the unit whose cgroup it is.

/// What a path says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitOfCgroup<'a> {
    /// The unit, a service or scope.
    pub unit: Option<&'a str>,
    /// The slice it is in.
    pub slice: Option<&'a str>,
    /// A unit of a user's own manager within it.
    pub user_unit: Option<&'a str>,
}

/// The unit of a path such as `/system.slice/ssh.service`.
///
/// What stands before the first slice or unit belongs to the container or supervisor that Muster runs in.
/// A unit in no slice is in the root slice.
#[must_use]
pub fn unit_of_cgroup(path: &str) -> UnitOfCgroup<'_> {
    let mut found = UnitOfCgroup::default();
    for part in path.split('/') {
        // A leading underscore keeps names of units apart from the kernel's own files.
        let name = part.strip_prefix('_').unwrap_or(part);
        let is_slice = name.len() > ".slice".len() && name.ends_with(".slice");
        if is_slice && found.unit.is_none() {
            found.slice = Some(name);
        } else if is_unit(name) {
            if found.unit.is_none() {
                found.unit = Some(name);
            } else {
                found.user_unit = Some(name);
                break;
            }
        }
    }
    if found.unit.is_some() && found.slice.is_none() {
        found.slice = Some("-.slice");
    }
    found
}

fn is_unit(name: &str) -> bool {
    [".service", ".scope", ".socket", ".mount", ".swap"]
        .iter()
        .any(|suffix| name.len() > suffix.len() && name.ends_with(suffix))
}

/// The path that matters in the text of `/proc/PID/cgroup`: that of a manager's own tree, else of cgroup v2.
pub(super) fn path_of(text: &str) -> Option<&str> {
    let mut best = None;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let rank = match controllers {
            _ if unit_of_cgroup(path).unit.is_some() => 3,
            "" => 2,
            name if name.starts_with("name=") => 1,
            _ => continue,
        };
        if best.is_none_or(|(other, _)| rank > other) {
            best = Some((rank, path));
        }
    }
    best.map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_and_its_slice_are_found() {
        let of = |path| {
            let found = unit_of_cgroup(path);
            (found.unit, found.slice, found.user_unit)
        };
        assert_eq!(
            of("/system.slice/ssh.service"),
            (Some("ssh.service"), Some("system.slice"), None)
        );
        assert_eq!(
            of("/docker/1234/a.slice/a-b.slice/x@1.service/payload"),
            (Some("x@1.service"), Some("a-b.slice"), None)
        );
        assert_eq!(
            of("/init.scope"),
            (Some("init.scope"), Some("-.slice"), None)
        );
        assert_eq!(
            of("/user.slice/user-1.slice/user@1.service/app.slice/app.service"),
            (
                Some("user@1.service"),
                Some("user-1.slice"),
                Some("app.service")
            )
        );
        assert_eq!(of("/"), (None, None, None));
        assert_eq!(of("/.service/x"), (None, None, None));
        assert_eq!(
            of("/_cpu.service"),
            (Some("cpu.service"), Some("-.slice"), None)
        );
    }

    #[test]
    fn the_tree_with_a_unit_is_preferred() {
        let hybrid = "3:cpu:/x\n1:name=muster:/system.slice/a.service\n0::/\n";
        assert_eq!(path_of(hybrid), Some("/system.slice/a.service"));
        assert_eq!(path_of("1:name=systemd:/user\n0::/plain\n"), Some("/plain"));
        assert_eq!(path_of("4:memory:/x\n"), None);
        assert_eq!(path_of("rubbish"), None);
    }
}
