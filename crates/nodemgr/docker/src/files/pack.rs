//! Small files as an archive, in memory: tar is what every container can take apart.

use std::collections::BTreeMap;
use std::io::{self, Read};

use bytes::Bytes;
use muster_executor::files::{RelPath, SmallFile};
use tar::{Archive, Builder, EntryType, Header};

/// An archive of files, with their permissions and times.
pub(super) fn pack(files: &[SmallFile]) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for file in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(file.mode & 0o777);
        header.set_size(file.content.len() as u64);
        header.set_mtime(u64::try_from(file.mtime).unwrap_or(0));
        builder.append_data(&mut header, file.path.as_path(), &file.content[..])?;
    }
    builder.into_inner()
}

/// What the files of an archive hold, in this order. Names that were not asked for are an error: nothing is taken on trust.
pub(super) fn unpack(archive: &[u8], paths: &[RelPath], limit: usize) -> io::Result<Vec<Bytes>> {
    let mut found: BTreeMap<RelPath, Bytes> = BTreeMap::new();
    let mut archive = Archive::new(archive);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = relative(&entry.path_bytes())?;
        let content = match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                let mut content = Vec::new();
                // One byte more shows that there is more.
                let most = (limit as u64).saturating_add(1);
                Read::by_ref(&mut entry)
                    .take(most)
                    .read_to_end(&mut content)?;
                if content.len() > limit {
                    return Err(io::Error::other(format!("{path} has become longer")));
                }
                content.into()
            }
            // The second name of a file that is in the archive already.
            EntryType::Link => {
                let first = entry.link_name_bytes();
                let first = first.map(|name| relative(&name)).transpose()?;
                let first = first.and_then(|first| found.get(&first).cloned());
                first.ok_or_else(|| io::Error::other(format!("{path} is a link to nowhere")))?
            }
            _ => return Err(io::Error::other(format!("{path} is no file"))),
        };
        found.insert(path, content);
    }
    let wanted = paths.iter().map(|path| {
        let content = found.get(path).cloned();
        content.ok_or_else(|| io::Error::other(format!("{path} is not there")))
    });
    wanted.collect()
}

fn relative(name: &[u8]) -> io::Result<RelPath> {
    let name = name.strip_prefix(b"./").unwrap_or(name);
    RelPath::new(name).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, content: &[u8]) -> SmallFile {
        SmallFile {
            path: RelPath::new(path).unwrap(),
            mode: 0o640,
            mtime: 7,
            content: Bytes::copy_from_slice(content),
        }
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
        let files = [file("a", b"one"), file("-b", b""), file(&long, b"three")];
        let archive = pack(&files).unwrap();
        let paths: Vec<_> = files.iter().rev().map(|it| it.path.clone()).collect();
        let contents = unpack(&archive, &paths, 5).unwrap();
        assert_eq!(contents, [&b"three"[..], b"", b"one"]);
        let too_long = unpack(&archive, &paths, 4).unwrap_err();
        assert!(too_long.to_string().contains("has become longer"));
        let missing = [RelPath::new("other").unwrap()];
        assert!(unpack(&archive, &missing, 5).is_err());
    }

    #[test]
    fn a_second_name_of_a_file_holds_the_same() {
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_size(3);
        builder
            .append_data(&mut header, "./a", &b"one"[..])
            .unwrap();
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Link);
        header.set_size(0);
        builder.append_link(&mut header, "./b", "./a").unwrap();
        let archive = builder.into_inner().unwrap();
        let paths = [RelPath::new("b").unwrap()];
        assert_eq!(unpack(&archive, &paths, 9).unwrap(), [&b"one"[..]]);
    }

    #[test]
    fn links_and_names_that_lead_elsewhere_are_errors() {
        let mut builder = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        builder
            .append_link(&mut header, "a", "/etc/passwd")
            .unwrap();
        let archive = builder.into_inner().unwrap();
        assert!(unpack(&archive, &[RelPath::new("a").unwrap()], 9).is_err());

        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..6].copy_from_slice(b"../../");
        header.set_size(0);
        header.set_cksum();
        let archive = [header.as_bytes().as_slice(), &[0; 1024]].concat();
        assert!(unpack(&archive, &[], 9).is_err());
    }

    proptest! {
        #[test]
        fn any_archive_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            let _ = unpack(&bytes, &[RelPath::new("a").unwrap()], 100);
        }
    }
}
