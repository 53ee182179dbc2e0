//! Where blobs are.

use muster_api::servicemanager::v5 as wire;
use muster_smcontroller::Limits;
use tonic::{Code, Status};
use wire::sm_service_client::SmServiceClient;

use crate::rig::*;

fn digest(first: char) -> String {
    format!("sha256:{first}{}", "0".repeat(63))
}

async fn ask(
    site: &Site,
    node: &str,
    role: &str,
    digests: &[String],
) -> Result<Vec<String>, Status> {
    let mut client = SmServiceClient::new(site.channel(node, role).await);
    let digests = digests.to_vec();
    let request = wire::BlobsInfosRequest { digests };
    Ok(client.get_blobs_infos(request).await?.into_inner().urls)
}

#[tokio::test]
async fn places_come_in_the_order_of_the_digests_one_for_each() {
    let mut site = Site::new(quick()).await;
    let _node = site.node("a").await;
    let digests: Vec<_> = "3915027".chars().chain("33".chars()).map(digest).collect();
    let places: Vec<_> = digests
        .iter()
        .map(|it| format!("https://files/{it}"))
        .collect();
    assert_eq!(ask(&site, "a", "sm", &digests).await.unwrap(), places);
    assert_eq!(ask(&site, "a", "sm", &[]).await.unwrap(), [""; 0]);
    site.end().await;
}

#[tokio::test]
async fn one_unknown_digest_is_an_internal_error() {
    let mut site = Site::new(quick()).await;
    let _node = site.node("a").await;
    for unknown in [digest('f'), "rubbish".to_owned(), String::new()] {
        let digests = [digest('1'), unknown, digest('2')];
        let failed = ask(&site, "a", "sm", &digests).await.unwrap_err();
        assert_eq!(failed.code(), Code::Internal, "{failed}");
        assert!(failed.message().contains("there is no"), "{failed}");
    }
    site.end().await;
}

#[tokio::test]
async fn only_a_connected_service_manager_may_ask() {
    let mut site = Site::new(quick()).await;
    let digests = [digest('1')];
    let refused = ask(&site, "a", "sm", &digests).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    let node = site.node("a").await;
    ask(&site, "a", "sm", &digests).await.unwrap();
    for (node, role) in [("a", "iam"), ("b", "sm")] {
        let refused = ask(&site, node, role, &digests).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    }
    drop(node);
    site.wait_for(&Event::gone("a")).await;
    ask(&site, "a", "sm", &digests).await.unwrap_err();
    site.end().await;
    let mut plain = Site::on(Port::Insecure, quick()).await;
    let refused = ask(&plain, "a", "sm", &digests).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    let _node = plain.node("a").await;
    ask(&plain, "a", "sm", &digests).await.unwrap();
    plain.end().await;
}

#[tokio::test]
async fn a_request_is_bounded() {
    let limits = Limits {
        digests: 3,
        ..quick()
    };
    let mut site = Site::new(limits).await;
    let _node = site.node("a").await;
    let four = vec![digest('1'); 4];
    ask(&site, "a", "sm", &four[..3]).await.unwrap();
    let refused = ask(&site, "a", "sm", &four).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    site.end().await;
}
