//! What a bidirectional stream carries, for both of its ends.

use std::marker::PhantomData;

use bytes::{BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::slots::ReplyKind;

/// One end of a bidirectional stream: what it sends, what it receives, which of that are answers.
/// The two ends of a method implement it with `Out` and `In` exchanged.
pub trait Protocol: Send + Sync + 'static {
    /// What this end sends.
    type Out: Message + 'static;
    /// What this end receives.
    type In: Message + Default + 'static;

    /// The method's full path, such as `/package.Service/Method`.
    const METHOD: &'static str;

    /// Set if messages of this type answer requests.
    fn reply_kind(message: &Self::In) -> Option<ReplyKind>;
}

/// A link is usually idle; its buffers grow with what it really carries.
const BUFFER: usize = 1024;
/// Small messages leave together up to this size.
const YIELD_AT: usize = 32 * 1024;

/// Sends messages that are encoded already, so that nothing between the owner and the socket is
/// generic over what is sent.
#[derive(Debug)]
pub(crate) struct EncodedCodec<In>(PhantomData<fn() -> In>);

impl<In> EncodedCodec<In> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<In: Message + Default + 'static> Codec for EncodedCodec<In> {
    type Encode = Bytes;
    type Decode = In;
    type Encoder = Encoded;
    type Decoder = Decoded<In>;

    fn encoder(&mut self) -> Encoded {
        Encoded
    }

    fn decoder(&mut self) -> Decoded<In> {
        Decoded(PhantomData)
    }
}

#[derive(Debug)]
pub(crate) struct Encoded;

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD_AT)
    }
}

#[derive(Debug)]
pub(crate) struct Decoded<In>(PhantomData<fn() -> In>);

impl<In: Message + Default> Decoder for Decoded<In> {
    type Item = In;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<In>, Status> {
        let message = In::decode(buffer);
        message.map(Some).map_err(|error| {
            Status::internal(format!("a message of the peer cannot be decoded: {error}"))
        })
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, YIELD_AT)
    }
}
