//! Who knows users and groups beside the machine's files: what `/etc/nsswitch.conf` says.

/// Whether somebody else than the files may know in which groups a user is.
#[must_use]
pub(super) fn know_groups(nsswitch: &str) -> bool {
    let sources = |wanted: &str| {
        let mut lines = nsswitch.lines().filter_map(|line| {
            let line = line.split('#').next().unwrap_or(line);
            let (database, sources) = line.split_once(':')?;
            (database.trim() == wanted).then_some(sources)
        });
        lines.next_back()
    };
    // The C library asks this one first for exactly that, and the general one where it is missing.
    let sources = sources("initgroups").or_else(|| sources("group"));
    sources.is_some_and(|sources| {
        let mut in_brackets = false;
        sources.split_ascii_whitespace().any(|word| {
            let is_source = !in_brackets && !word.starts_with('[');
            in_brackets = (in_brackets || word.starts_with('[')) && !word.ends_with(']');
            is_source && word != "files"
        })
    })
}

#[cfg(test)]
mod tests {
    use super::know_groups;

    #[test]
    fn sources_of_groups_are_read() {
        for (text, known) in [
            ("", false),
            ("group: files\n", false),
            ("passwd: files sss\ngroup:files\n", false),
            ("group: files systemd\n", true),
            ("group: files # sss\n", false),
            ("group: files [SUCCESS=merge] sss\n", true),
            ("group: files [ SUCCESS=merge UNAVAIL=return ]\n", false),
            ("group: sss\ninitgroups: files\n", false),
            ("group: files\n initgroups: files ldap\n", true),
            ("group: compat\n", true),
        ] {
            assert_eq!(know_groups(text), known, "{text:?}");
        }
    }
}
