//! Protobuf in buffers that begin small.
//!
//! tonic gives every call two buffers of 8 KiB before the first message. Most streams of the system are
//! open for ever and nearly always idle, one or more for each node, so theirs begin with 1 KiB and grow
//! with what they really carry.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

const BUFFER: usize = 1024;
/// Small messages leave together up to this size.
const YIELD_AT: usize = 32 * 1024;

/// What the generated clients and servers use; see `build.rs`.
pub(crate) struct SmallBuffers<T, U>(PhantomData<fn() -> (T, U)>);

impl<T, U> Default for SmallBuffers<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallBuffers<T, U>
where
    T: Message + 'static,
    U: Message + Default + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER, YIELD_AT))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER, YIELD_AT))
    }
}

#[cfg(test)]
mod tests {
    use tonic::codec::{Decoder as _, Encoder as _};

    use super::*;
    use crate::iamanager::v6::NodeInfo;

    /// The settings cannot be read back, but they can be seen.
    #[test]
    fn buffers_begin_small() {
        let expected = format!("{:?}", BufferSettings::new(BUFFER, YIELD_AT));
        let mut codec = SmallBuffers::<NodeInfo, NodeInfo>::default();
        let encoder = codec.encoder().buffer_settings();
        let decoder = codec.decoder().buffer_settings();
        assert_eq!(format!("{encoder:?}"), expected);
        assert_eq!(format!("{decoder:?}"), expected);
    }
}
