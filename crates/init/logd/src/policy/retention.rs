//! Which archived files go: by total size, number and age, oldest first. The file that is written to stays.

/// A file that nobody writes to any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedFile {
    /// Its name within the folder.
    pub name: Box<str>,
    /// What it takes on the disk.
    pub bytes: u64,
    /// When its newest entry was made, in microseconds since 1970.
    pub newest_us: u64,
}

/// What has to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// What all files together may take, the active one included.
    pub max_bytes: u64,
    /// How many archived files may stay.
    pub max_files: u64,
    /// Files whose newest entry is older than this go.
    pub oldest_us: u64,
}

/// The names of the files that have to go, oldest first.
#[must_use]
pub fn plan_vacuum(
    archived: &[ArchivedFile],
    active_bytes: u64,
    retention: &Retention,
) -> Vec<Box<str>> {
    let mut files: Vec<&ArchivedFile> = archived.iter().collect();
    files.sort_by(|a, b| (a.newest_us, &a.name).cmp(&(b.newest_us, &b.name)));
    let mut bytes = files
        .iter()
        .fold(active_bytes, |sum, file| sum.saturating_add(file.bytes));
    let mut count = files.len() as u64;
    let mut gone = Vec::new();
    for file in files {
        let too_many = bytes > retention.max_bytes || count > retention.max_files;
        if !too_many && file.newest_us >= retention.oldest_us {
            break;
        }
        bytes = bytes.saturating_sub(file.bytes);
        count -= 1;
        gone.push(file.name.clone());
    }
    gone
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(name: &str, bytes: u64, newest_us: u64) -> ArchivedFile {
        ArchivedFile {
            name: name.into(),
            bytes,
            newest_us,
        }
    }

    const ALL: Retention = Retention {
        max_bytes: u64::MAX,
        max_files: u64::MAX,
        oldest_us: 0,
    };

    #[test]
    fn the_oldest_go_first_until_the_limits_are_met() {
        let files = [file("c", 10, 3), file("a", 10, 1), file("b", 10, 2)];
        assert!(plan_vacuum(&files, 5, &ALL).is_empty());
        let names = |retention: Retention| plan_vacuum(&files, 5, &retention).join(",");
        assert_eq!(
            names(Retention {
                max_bytes: 34,
                ..ALL
            }),
            "a"
        );
        assert_eq!(
            names(Retention {
                max_files: 1,
                ..ALL
            }),
            "a,b"
        );
        assert_eq!(
            names(Retention {
                oldest_us: 3,
                ..ALL
            }),
            "a,b"
        );
        assert_eq!(
            names(Retention {
                max_bytes: 0,
                ..ALL
            }),
            "a,b,c"
        );
    }

    proptest! {
        #[test]
        fn what_stays_meets_the_limits_and_no_more_than_needed_goes(
            files in proptest::collection::vec((0u64..100, 0u64..20), 0..12),
            active in 0u64..100, max_bytes in 0u64..600, max_files in 0u64..12, oldest_us in 0u64..20,
        ) {
            let files: Vec<_> = files.iter().enumerate().map(|(i, (bytes, at))| file(&i.to_string(), *bytes, *at)).collect();
            let retention = Retention { max_bytes, max_files, oldest_us };
            let gone = plan_vacuum(&files, active, &retention);
            let stays: Vec<_> = files.iter().filter(|file| !gone.contains(&file.name)).collect();
            let bytes = active + stays.iter().map(|file| file.bytes).sum::<u64>();
            let meets = |bytes: u64, count: u64| bytes <= max_bytes && count <= max_files;
            prop_assert!(stays.is_empty() || meets(bytes, stays.len() as u64));
            prop_assert!(stays.iter().all(|file| file.newest_us >= oldest_us));
            if let Some(last) = gone.last() {
                let last = files.iter().find(|file| &file.name == last).expect("a known name");
                let needed = last.newest_us < oldest_us || !meets(bytes + last.bytes, stays.len() as u64 + 1);
                prop_assert!(needed, "{} went without need", last.name);
            }
        }
    }
}
