//! Decompression, one step at a time, so that the caller owns every buffer.

use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::options::{Compression, EndOfLayer};

/// In which way a layer is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamageKind {
    /// The compressed data ends in the middle.
    #[error("the compressed data ends too early")]
    CompressedTruncated,
    /// The gzip data cannot be read, or its checksum is wrong.
    #[error("the gzip data is corrupt")]
    Gzip,
    /// The zstd data cannot be read, or its checksum is wrong.
    #[error("the zstd data is corrupt: {0}")]
    Zstd(&'static str),
    /// A zstd frame needs more memory than allowed.
    #[error("a zstd frame needs a window of more than 2^{limit} bytes")]
    ZstdWindow {
        /// [`crate::Limits::zstd_window_log`].
        limit: u32,
    },
    /// Something follows the compressed data.
    #[error("something else follows the compressed data")]
    CompressedTrailer,
    /// The archive ends in the middle of an entry.
    #[error("the archive ends too early")]
    Truncated,
    /// The archive ends without two empty blocks.
    #[error("the archive has no end marker")]
    NoEndMarker,
    /// Something follows the archive's end marker.
    #[error("something else follows the archive")]
    Trailer,
}

/// What one step did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) consumed: usize,
    pub(crate) produced: usize,
}

/// Decompresses a stream of members or frames.
pub(crate) struct Decoder {
    end: EndOfLayer,
    state: State,
    started: bool,
}

enum State {
    Plain,
    /// `None` between two members.
    Gzip(Option<Box<Decompress>>),
    Zstd {
        context: DCtx<'static>,
        in_frame: bool,
        window_log: u32,
    },
    /// What follows is hashed, not decoded.
    Ignoring,
}

/// From `zstd_errors.h`, where these numbers are promised to stay.
mod zstd_error {
    pub(super) const PREFIX_UNKNOWN: usize = 10;
    pub(super) const WINDOW_TOO_LARGE: usize = 16;
}

/// The largest window of gzip, as zlib counts it.
const GZIP_WINDOW_BITS: u8 = 15;
const GZIP_MAGIC: u8 = 0x1f;

impl Decoder {
    pub(crate) fn new(compression: Compression, window_log: u32, end: EndOfLayer) -> Self {
        let state = match compression {
            Compression::None => State::Plain,
            Compression::Gzip => State::Gzip(None),
            Compression::Zstd => {
                let window_log = window_log.clamp(10, 27);
                let mut context = DCtx::create();
                context
                    .set_parameter(DParameter::WindowLogMax(window_log))
                    .expect("10 to 27 is within zstd's bounds");
                State::Zstd {
                    context,
                    in_frame: false,
                    window_log,
                }
            }
        };
        Self {
            end,
            state,
            started: false,
        }
    }

    /// Decodes some of `input` into some of `output`. When `output` was not filled, nothing is left inside.
    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DamageKind> {
        match &mut self.state {
            State::Plain => {
                let length = input.len().min(output.len());
                output[..length].copy_from_slice(&input[..length]);
                Ok(Step {
                    consumed: length,
                    produced: length,
                })
            }
            State::Ignoring => Ok(Step {
                consumed: input.len(),
                produced: 0,
            }),
            State::Gzip(member) => {
                let Some(inflate) = member else {
                    return match input.first() {
                        None => Ok(Step::default()),
                        Some(&GZIP_MAGIC) => {
                            self.started = true;
                            *member = Some(Box::new(Decompress::new_gzip(GZIP_WINDOW_BITS)));
                            self.step(input, output)
                        }
                        Some(_) if self.started => self.trailer(input),
                        Some(_) => Err(DamageKind::Gzip),
                    };
                };
                let (from_in, from_out) = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress(input, output, FlushDecompress::None)
                    .map_err(|_| DamageKind::Gzip)?;
                let step = Step {
                    consumed: length(inflate.total_in() - from_in),
                    produced: length(inflate.total_out() - from_out),
                };
                if status == Status::StreamEnd {
                    *member = None;
                }
                Ok(step)
            }
            State::Zstd {
                context,
                in_frame,
                window_log,
            } => {
                let mut to = OutBuffer::around(output);
                let mut from = InBuffer::around(input);
                let result = context.decompress_stream(&mut to, &mut from);
                let step = Step {
                    consumed: from.pos(),
                    produced: to.pos(),
                };
                match result {
                    Ok(hint) => {
                        if step.consumed > 0 || step.produced > 0 {
                            *in_frame = hint != 0;
                            self.started = true;
                        }
                        Ok(step)
                    }
                    Err(code) => match 0_usize.wrapping_sub(code) {
                        zstd_error::WINDOW_TOO_LARGE => {
                            Err(DamageKind::ZstdWindow { limit: *window_log })
                        }
                        zstd_error::PREFIX_UNKNOWN if self.started => self.trailer(input),
                        _ => Err(DamageKind::Zstd(zstd::zstd_safe::get_error_name(code))),
                    },
                }
            }
        }
    }

    fn trailer(&mut self, input: &[u8]) -> Result<Step, DamageKind> {
        match self.end {
            EndOfLayer::Strict => Err(DamageKind::CompressedTrailer),
            EndOfLayer::Lenient => {
                self.state = State::Ignoring;
                Ok(Step {
                    consumed: input.len(),
                    produced: 0,
                })
            }
        }
    }

    /// Whether the input may end here.
    pub(crate) fn finish(&self) -> Result<(), DamageKind> {
        let whole = match &self.state {
            State::Plain | State::Ignoring => true,
            State::Gzip(member) => member.is_none() && self.started,
            State::Zstd { in_frame, .. } => !in_frame && self.started,
        };
        if whole {
            Ok(())
        } else {
            Err(DamageKind::CompressedTruncated)
        }
    }
}

/// A difference of totals is never more than the buffer it is about.
fn length(total: u64) -> usize {
    usize::try_from(total).unwrap_or(usize::MAX)
}
