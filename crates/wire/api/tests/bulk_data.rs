//! Bulk payloads are handed on without being copied.

use muster_api::servicemanager::v5::{DownloadContent, LogData};
use prost::Message;
use prost::bytes::Bytes;

/// Whether `part` lies in the memory of `whole`.
fn shares_memory(whole: &Bytes, part: &Bytes) -> bool {
    whole.as_ptr_range().contains(&part.as_ptr())
        && part.as_ptr_range().end <= whole.as_ptr_range().end
}

#[test]
fn a_received_payload_is_a_view_of_the_receive_buffer() {
    let payload = Bytes::from(vec![7; 64 * 1024]);

    let sent = DownloadContent {
        data: payload.clone(),
        request_id: 1,
        ..Default::default()
    };
    let buffer = Bytes::from(sent.encode_to_vec());
    let received = DownloadContent::decode(buffer.clone()).expect("decodes");
    assert!(received == sent && shares_memory(&buffer, &received.data));

    let sent = LogData {
        data: payload,
        correlation_id: "c".into(),
        ..Default::default()
    };
    let buffer = Bytes::from(sent.encode_to_vec());
    let received = LogData::decode(buffer.clone()).expect("decodes");
    assert!(received == sent && shares_memory(&buffer, &received.data));
}
