//! What the container's tools say about files. A container may say anything: what makes no sense is an error, never a path that
//! leads elsewhere.

use muster_executor::files::{Entry, InvalidPath, Kind, RelPath, Tree};

/// What is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ListingError {
    /// The names and what is known about them do not go together: something was changed meanwhile, or lies.
    #[error("the folder was changed while it was listed")]
    Changed,
    #[error("the machine's `stat` gave no sensible answer: {0:?}")]
    Stat(String),
    #[error(transparent)]
    Name(#[from] InvalidPath),
    #[error(transparent)]
    TooLarge(#[from] muster_executor::files::TreeTooLarge),
}

/// The kind of a file, in the bits of its mode.
const KIND: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// One line: the mode in hexadecimal digits, the size, the time. A link has no target yet.
pub(super) fn entry(line: &[u8]) -> Result<Entry, ListingError> {
    let wrong = || {
        let shown: Vec<u8> = line.iter().copied().take(80).collect();
        ListingError::Stat(String::from_utf8_lossy(&shown).into_owned())
    };
    let text = std::str::from_utf8(line).map_err(|_| wrong())?;
    let mut words = text.split(' ');
    let (Some(mode), Some(size), Some(mtime), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(wrong());
    };
    let mode = u32::from_str_radix(mode, 16).map_err(|_| wrong())?;
    let size = size.parse().map_err(|_| wrong())?;
    let kind = match mode & KIND {
        FOLDER => Kind::Folder,
        FILE => Kind::File { size },
        LINK => Kind::Link { target: Vec::new() },
        _ => Kind::Special,
    };
    Ok(Entry {
        kind,
        mode: mode & 0o777,
        mtime: mtime.parse().map_err(|_| wrong())?,
    })
}

/// Takes bytes up to a separator, which is dropped.
fn take_until<'a>(rest: &mut &'a [u8], separator: u8) -> Option<&'a [u8]> {
    let end = rest.iter().position(|&byte| byte == separator)?;
    let (taken, after) = rest.split_at(end);
    *rest = &after[1..];
    Some(taken)
}

/// All names, each ended by a zero byte, and an empty one; a line about each; the targets of links, each ended by a zero byte.
pub(super) fn tree(mut said: &[u8]) -> Result<Tree, ListingError> {
    let rest = &mut said;
    let mut names = Vec::new();
    loop {
        match take_until(rest, 0).ok_or(ListingError::Changed)? {
            [] => break,
            name => names.push(name),
        }
    }
    let mut found = Vec::with_capacity(names.len().min(Tree::MOST));
    for name in names {
        let line = take_until(rest, b'\n').ok_or(ListingError::Changed)?;
        found.push((name, entry(line)?));
    }
    let mut tree = Tree::default();
    for (name, mut entry) in found {
        if let Kind::Link { target } = &mut entry.kind {
            *target = take_until(rest, 0).ok_or(ListingError::Changed)?.to_vec();
        }
        // The folder itself comes first, and is not in itself.
        let Some(path) = name.strip_prefix(b"./") else {
            match name {
                b"." => continue,
                other => {
                    return Err(InvalidPath(String::from_utf8_lossy(other).into_owned()).into());
                }
            }
        };
        tree.add(RelPath::new(path)?, entry)?;
    }
    match rest.is_empty() && is_whole(&tree) {
        true => Ok(tree),
        false => Err(ListingError::Changed),
    }
}

/// Whether everything is in a folder that is listed too.
fn is_whole(tree: &Tree) -> bool {
    tree.iter().all(|(path, _)| match path.split() {
        Some((parent, _)) if !parent.is_root() => tree.get(&parent).is_some_and(Entry::is_folder),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAID: &[u8] = b".\0./a\0./a/b\nc\0./l\0\0\
        41ed 4096 1\n41c0 4096 2\n81a4 5 3\na1ff 3 -4\n../x\0";

    #[test]
    fn names_lines_and_targets_come_together() {
        let tree = tree(SAID).unwrap();
        let seen: Vec<_> = tree
            .iter()
            .map(|(path, it)| (path.as_bytes(), it.mode))
            .collect();
        assert_eq!(
            seen,
            [(&b"a"[..], 0o700), (b"a/b\nc", 0o644), (b"l", 0o777)]
        );
        let link = tree.get(&RelPath::new("l").unwrap()).unwrap();
        let target = b"../x".to_vec();
        assert_eq!((link.kind.clone(), link.mtime), (Kind::Link { target }, -4));
        assert_eq!(
            tree.get(&RelPath::new("a/b\nc").unwrap()).unwrap().kind,
            Kind::File { size: 5 }
        );
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_an_error() {
        for name in ["/etc/passwd", "./../x", "./a/../../x", "..", "./a//b", "x"] {
            let said = [name.as_bytes(), b"\0\081a4 1 1\n"].concat();
            assert!(matches!(tree(&said), Err(ListingError::Name(_))), "{name}");
        }
        // One in a folder that is none.
        let said = b"./a\0./a/b\0\0a1ff 3 1\n81a4 1 1\nt\0";
        assert_eq!(tree(said), Err(ListingError::Changed));
    }

    #[test]
    fn what_is_cut_or_too_much_is_an_error() {
        for length in 0..SAID.len() {
            assert!(tree(&SAID[..length]).is_err(), "{length}");
        }
        assert_eq!(tree(&[SAID, b"x\0"].concat()), Err(ListingError::Changed));
    }

    proptest! {
        /// Nothing that a container says makes it panic, and no path leaves the folder.
        #[test]
        fn any_answer_is_survived(said in prop::collection::vec(prop_oneof![
            Just(0_u8), Just(b'\n'), Just(b' '), Just(b'/'), Just(b'.'), Just(b'8'), Just(b'1'), any::<u8>()
        ], 0..120)) {
            let _ = tree(&said);
            let _ = entry(&said);
        }
    }
}
