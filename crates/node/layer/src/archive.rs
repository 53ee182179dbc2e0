//! The stream as entries: headers, long names, extended headers and sparse maps put together.

use crate::decode::DamageKind;
use crate::error::{EntryRef, Fault, NameRule, Rule};
use crate::header::{self, Header, text};
use crate::options::{EndOfLayer, Limits};
use crate::pax::{Moment, Pax, PaxSparse, Xattr};
use crate::pipe::{BLOCK, Stream};
use crate::sparse::{self, ContentMap, SparseMap, SparsePieces};

/// An entry, with everything that the archive says about it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// As it stands in the archive.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: Moment,
    pub(crate) xattrs: Vec<Xattr>,
}

/// What an entry is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Its content follows in the stream.
    File(Content),
    Folder,
    Symlink(Vec<u8>),
    HardLink(Vec<u8>),
    CharDevice(u32, u32),
    BlockDevice(u32, u32),
    Fifo,
}

/// Where a file's content goes.
#[derive(Debug)]
pub(crate) enum Content {
    Dense { size: u64 },
    Sparse(SparseMap),
}

impl Content {
    /// The file's size with its holes.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Dense { size } => *size,
            Self::Sparse(map) => map.size(),
        }
    }
}

pub(crate) struct Archive<'a> {
    stream: Stream,
    limits: &'a Limits,
    end: EndOfLayer,
    globals: Pax,
    /// Bytes of the current entry's content that have not been used.
    content: u64,
    /// What fills its last block.
    filling: usize,
    /// The name of the entry that is being put together, as far as it is known.
    name: Option<Vec<u8>>,
}

/// Extended headers on the way to their entry.
#[derive(Default)]
struct Extensions {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pax: Option<Pax>,
}

impl<'a> Archive<'a> {
    pub(crate) fn new(stream: Stream, limits: &'a Limits, end: EndOfLayer) -> Self {
        Self {
            stream,
            limits,
            end,
            globals: Pax::default(),
            content: 0,
            filling: 0,
            name: None,
        }
    }

    /// The next entry; what is left of the current one's content is skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Fault> {
        self.skip_content()?;
        self.name = None;
        let mut extensions = Extensions::default();
        loop {
            let Some(block) = self.stream.block()? else {
                return match self.end {
                    EndOfLayer::Strict => Err(Fault::Damaged(DamageKind::NoEndMarker)),
                    EndOfLayer::Lenient => extensions.end(),
                };
            };
            if block.iter().all(|byte| *byte == 0) {
                let strict = self.end == EndOfLayer::Strict;
                if self.stream.drain(strict)? < BLOCK as u64 && strict {
                    return Err(Fault::Damaged(DamageKind::NoEndMarker));
                }
                return extensions.end();
            }
            let header = header::parse(&block)?;
            let names = self.limits.path_bytes as u64 + 1;
            match header.type_flag {
                b'L' => once(
                    &mut extensions.name,
                    long_name(&self.extension(&header, names)?)?,
                )?,
                b'K' => once(
                    &mut extensions.link,
                    long_name(&self.extension(&header, names)?)?,
                )?,
                b'x' => {
                    let bytes = self.extension(&header, self.limits.pax_bytes)?;
                    once(&mut extensions.pax, Pax::parse(&bytes, self.limits)?)?;
                }
                b'g' => {
                    let bytes = self.extension(&header, self.limits.pax_bytes)?;
                    let globals = Pax::parse(&bytes, self.limits)?.into_global()?;
                    self.globals.uid = globals.uid.or(self.globals.uid);
                    self.globals.gid = globals.gid.or(self.globals.gid);
                    self.globals.mtime = globals.mtime.or(self.globals.mtime);
                }
                _ => return self.entry(header, &block, extensions).map(Some),
            }
        }
    }

    fn entry(
        &mut self,
        header: Header,
        block: &[u8; BLOCK],
        extensions: Extensions,
    ) -> Result<Entry, Fault> {
        let pax = extensions.pax.unwrap_or_default();
        let size = pax.size.unwrap_or(header.size);
        let link = pax.link.or(extensions.link).unwrap_or(header.link);
        let mut name = pax.path.or(extensions.name).unwrap_or(header.name);
        self.name = Some(name.clone());
        let (major, minor) = header.device;
        let is_file = matches!(header.type_flag, 0 | b'0' | b'7' | b'S');
        if is_file {
            self.content = size;
            // At most 511, whatever the size.
            self.filling = (BLOCK - usize::try_from(size % BLOCK as u64).unwrap_or(0)) % BLOCK;
        } else if size != 0 {
            return Err(Rule::Content.into());
        }
        let kind = match header.type_flag {
            0 | b'0' | b'7' => {
                if let Some(sparse_name) = &pax.sparse.name {
                    name.clone_from(sparse_name);
                }
                if pax.sparse != PaxSparse::default() {
                    Kind::File(Content::Sparse(self.pax_map(pax.sparse)?))
                } else if name.ends_with(b"/") {
                    // How the oldest archives say folder.
                    if size != 0 {
                        return Err(Rule::Content.into());
                    }
                    Kind::Folder
                } else {
                    Kind::File(Content::Dense { size })
                }
            }
            b'S' => Kind::File(Content::Sparse(self.old_map(block)?)),
            b'1' => Kind::HardLink(link),
            b'2' => Kind::Symlink(link),
            b'3' => Kind::CharDevice(major, minor),
            b'4' => Kind::BlockDevice(major, minor),
            b'5' => Kind::Folder,
            b'6' => Kind::Fifo,
            other => return Err(Rule::Type(other).into()),
        };
        let header_time = Moment {
            seconds: header.mtime,
            nanoseconds: 0,
        };
        Ok(Entry {
            name,
            kind,
            mode: header.mode,
            uid: pax.uid.or(self.globals.uid).unwrap_or(header.uid),
            gid: pax.gid.or(self.globals.gid).unwrap_or(header.gid),
            mtime: pax.mtime.or(self.globals.mtime).unwrap_or(header_time),
            xattrs: pax.xattrs,
        })
    }

    /// The content of a long name or extended header.
    fn extension(&mut self, header: &Header, limit: u64) -> Result<Vec<u8>, Fault> {
        if header.size > limit {
            return Err(Rule::ExtensionSize { limit }.into());
        }
        let mut bytes = Vec::new();
        for _ in 0..header.size.div_ceil(BLOCK as u64) {
            bytes.extend_from_slice(&self.content_block()?);
        }
        // Within the limit, which fits the memory.
        bytes.truncate(usize::try_from(header.size).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn content_block(&mut self) -> Result<[u8; BLOCK], Fault> {
        self.stream
            .block()?
            .ok_or(Fault::Damaged(DamageKind::Truncated))
    }

    fn old_map(&mut self, block: &[u8; BLOCK]) -> Result<SparseMap, Fault> {
        let (mut pieces, mut more, size) = sparse::old_header(block, self.limits)?;
        let mut blocks = 0;
        while more {
            // Blocks without a piece in them must not go on for ever either.
            blocks += 1;
            if blocks > self.limits.sparse_pieces {
                return Err(Rule::SparsePieces {
                    limit: self.limits.sparse_pieces,
                }
                .into());
            }
            let block = self.content_block()?;
            more = sparse::old_block(&block, &mut pieces, self.limits)?;
        }
        Ok(pieces.into_map(size, self.content)?)
    }

    fn pax_map(&mut self, sparse: PaxSparse) -> Result<SparseMap, Fault> {
        let size = sparse.size.ok_or(Rule::SparseMap)?;
        let pieces = match sparse.version {
            (None, None) => {
                let given = sparse.pieces.len() as u64;
                if sparse.count.is_some_and(|count| count != given) {
                    return Err(Rule::SparseMap.into());
                }
                sparse.pieces
            }
            (Some(1), Some(0)) if sparse.pieces.len() == 0 => self.content_map()?,
            _ => return Err(Rule::SparseMap.into()),
        };
        Ok(pieces.into_map(size, self.content)?)
    }

    fn content_map(&mut self) -> Result<SparsePieces, Fault> {
        let mut map = ContentMap::default();
        loop {
            self.content = self
                .content
                .checked_sub(BLOCK as u64)
                .ok_or(Rule::SparseMap)?;
            let block = self.content_block()?;
            if let Some(pieces) = map.take(&block, self.limits)? {
                return Ok(pieces);
            }
        }
    }

    /// Some of the current entry's content, at least one byte unless there is no more.
    pub(crate) fn content(&mut self) -> Result<&[u8], Fault> {
        if self.content == 0 {
            return Ok(&[]);
        }
        let bytes = self.stream.fill()?;
        if bytes.is_empty() {
            return Err(Fault::Damaged(DamageKind::Truncated));
        }
        let length =
            usize::try_from(self.content).map_or(bytes.len(), |left| left.min(bytes.len()));
        Ok(&bytes[..length])
    }

    /// Bytes of what `content` gave have been used.
    pub(crate) fn consume(&mut self, length: usize) {
        self.content -= length as u64;
        self.stream.consume(length);
    }

    fn skip_content(&mut self) -> Result<(), Fault> {
        loop {
            let length = self.content()?.len();
            if length == 0 {
                break;
            }
            self.consume(length);
        }
        let filling = std::mem::take(&mut self.filling);
        if filling > 0 {
            // Blocks do not span buffers, so neither does what fills one.
            if self.stream.fill()?.len() < filling {
                return Err(Fault::Damaged(DamageKind::Truncated));
            }
            self.stream.consume(filling);
        }
        Ok(())
    }

    /// Where it is, for whoever has to say what is wrong with an entry that has not been given.
    pub(crate) fn near(&self, number: u64) -> EntryRef {
        match &self.name {
            Some(name) => EntryRef::new(number, name),
            None => EntryRef::unnamed(number),
        }
    }

    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }
}

impl Extensions {
    fn end(self) -> Result<Option<Entry>, Fault> {
        match self {
            Self {
                name: None,
                link: None,
                pax: None,
            } => Ok(None),
            _ => Err(Rule::ExtensionAlone.into()),
        }
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), Fault> {
    match place.replace(value) {
        Some(_) => Err(Rule::ExtensionTwice.into()),
        None => Ok(()),
    }
}

/// GNU's long names end with NULs; one with more behind would be read differently elsewhere.
fn long_name(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let name = text(bytes);
    if bytes[name.len()..].iter().any(|byte| *byte != 0) {
        return Err(Rule::Name(NameRule::Nul).into());
    }
    Ok(name.to_vec())
}
