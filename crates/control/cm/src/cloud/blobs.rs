//! Blobs of the cloud: where they are, and how their downloads do.

use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_cloud::message::Timestamp;
use muster_cloud::message::incoming as wire;
use muster_cloud::message::telemetry::{Alert, DownloadState as Told};
use muster_items::{
    BlobInfo, BlobInfos, BoxError, DecryptInfo, DownloadEvent, DownloadEvents, DownloadState,
    SignInfo,
};

use super::{CloudDesk, convert};

/// Why the cloud's word about a blob is of no use.
#[derive(Debug, thiserror::Error)]
enum UnusableBlobInfo {
    #[error("the cloud says nothing about {digest}")]
    Silent { digest: Digest },
    #[error("the cloud's checksum of {digest} is none")]
    Checksum { digest: Digest },
    #[error("the cloud's time of the signature of {digest} cannot be read")]
    Time { digest: Digest },
}

impl BlobInfos for CloudDesk {
    fn info(&self, digest: Digest) -> BoxFuture<'_, Result<BlobInfo, BoxError>> {
        Box::pin(async move {
            let infos = self.link().blob_urls(vec![digest.to_string()]).await?;
            let name = digest.to_string();
            let found = infos.into_iter().find(|it| it.digest == name);
            let Some(found) = found else {
                return Err(UnusableBlobInfo::Silent { digest }.into());
            };
            read(digest, found)
        })
    }
}

fn read(digest: Digest, info: wire::BlobInfo) -> Result<BlobInfo, BoxError> {
    let sha256 = info.sha256.0.try_into();
    let sha256 = sha256.map_err(|_| UnusableBlobInfo::Checksum { digest })?;
    let decrypt = match info.decrypt_info {
        None => None,
        Some(it) => Some(DecryptInfo {
            cipher: it.block_alg.parse()?,
            iv: it.block_iv.0,
            key: it.block_key.expose().to_vec().into(),
        }),
    };
    let sign = match info.sign_info {
        None => None,
        Some(it) => {
            let at: Option<Timestamp> = it.trusted_timestamp.parse().ok();
            Some(SignInfo {
                chain: it.chain_name,
                algorithm: it.alg.parse()?,
                value: it.value.0,
                at: at.ok_or(UnusableBlobInfo::Time { digest })?,
            })
        }
    };
    Ok(BlobInfo {
        urls: info.urls,
        sha256,
        size: info.size,
        decrypt,
        sign,
    })
}

impl DownloadEvents for CloudDesk {
    fn happened(&self, event: DownloadEvent) {
        let (state, error) = match &event.state {
            DownloadState::Started => (Told::Started, None),
            DownloadState::Paused => (Told::Paused, None),
            DownloadState::Interrupted(error) => (Told::Interrupted, Some(error)),
            DownloadState::Finished => (Told::Finished, None),
        };
        self.later(Alert::DownloadProgressAlert {
            timestamp: Timestamp::now(),
            digest: event.digest.to_string(),
            url: (!event.url.is_empty()).then_some(event.url),
            downloaded_bytes: event.downloaded_bytes,
            total_bytes: event.total_bytes,
            state,
            reason: error.map(|it| it.message.clone()),
            error_info: error.map(convert::error),
        });
    }
}

#[cfg(test)]
mod tests {
    use muster_cloud::testing::samples;

    use super::*;

    #[test]
    fn what_the_cloud_says_about_a_blob_is_read_or_refused_with_a_reason() {
        let digest: Digest = format!("sha256:{}", "ab".repeat(32)).parse().expect("one");
        let info = read(digest, samples::blob("x")).expect("it is right");
        assert_eq!(info.sha256, [9; 32]);
        assert_eq!(info.sign.expect("signed").chain, "chain");
        assert!(info.decrypt.is_some());
        let mut short = samples::blob("x");
        short.sha256.0.pop();
        let mut unknown = samples::blob("x");
        unknown.decrypt_info.as_mut().expect("encrypted").block_alg = "ROT13".to_owned();
        let mut timeless = samples::blob("x");
        timeless
            .sign_info
            .as_mut()
            .expect("signed")
            .trusted_timestamp = "yesterday".to_owned();
        for (wrong, words) in [(short, "checksum"), (unknown, "ROT13"), (timeless, "time")] {
            let error = read(digest, wrong).expect_err(words).to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
