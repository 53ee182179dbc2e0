//! What every server of the product offers.

use std::time::Duration;

use muster_api::servicemanager::v5::BlobsInfosRequest;
use muster_api::servicemanager::v5::sm_service_client::SmServiceClient;
use muster_rpc::server::{ServerBuilder, ServerConfig, StartServerError};
use muster_rpc::session::SessionConfig;
use muster_rpc::{ChannelConfig, ListenAddress, StreamBuilder, channel};
use tokio::time::Instant;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::rig::*;

#[tokio::test]
async fn health_and_reflection_are_on_every_server() {
    let (server, _streams) = start_cm(ServerConfig::default(), SessionConfig::default()).await;
    let channel = channel(&target(server.address()), ChannelConfig::default());
    for service in ["", "servicemanager.v5.SMService"] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let health = HealthClient::new(channel.clone())
            .check(request)
            .await
            .unwrap();
        assert_eq!(
            health.into_inner().status(),
            ServingStatus::Serving,
            "{service:?}"
        );
    }
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else {
        panic!("no list of services: {answer:?}");
    };
    let mut names: Vec<_> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "servicemanager.v5.SMService"
        ]
    );
    drop(answers);
    server.shutdown().await;
}

#[tokio::test]
async fn a_channel_reconnects_after_the_server_came_back() {
    let (server, _streams) = start_cm(ServerConfig::default(), SessionConfig::default()).await;
    let address = server.address();
    let mut client = SmServiceClient::new(channel(&target(address), ChannelConfig::default()));
    let request = BlobsInfosRequest {
        digests: vec!["sha256:0".into()],
    };
    let urls = client
        .get_blobs_infos(request.clone())
        .await
        .unwrap()
        .into_inner()
        .urls;
    assert_eq!(urls, ["sha256:0"]);
    server.shutdown().await;
    assert!(soon(client.get_blobs_infos(request.clone())).await.is_err());
    let again = ListenAddress(address);
    let (server, _streams) = start_cm_at(
        again,
        &server_tls(),
        ServerConfig::default(),
        SessionConfig::default(),
    )
    .await;
    assert!(soon(client.get_blobs_infos(request)).await.is_ok());
    server.shutdown().await;
}

#[tokio::test]
async fn a_shutdown_is_bounded_though_a_client_stays() {
    let grace = Duration::from_millis(300);
    let config = ServerConfig {
        shutdown_grace: grace,
        ..ServerConfig::default()
    };
    let (server, mut streams) = start_cm(config, SessionConfig::default()).await;
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(server.address()), quick())
        .hello(hello)
        .start();
    let (session, mut from_sm) = soon(streams.recv()).await.unwrap();
    soon(from_sm.recv()).await.unwrap();
    let begin = Instant::now();
    soon(server.shutdown()).await;
    let took = begin.elapsed();
    assert!(
        took >= grace && took < grace + Duration::from_secs(2),
        "{took:?}"
    );
    soon(async { while from_sm.recv().await.is_some() {} }).await;
    assert!(session.send(check_config("late")).await.is_err());
    handle.stop().await;
}

#[tokio::test]
async fn connections_over_the_limit_are_closed() {
    let config = ServerConfig {
        connections: 1,
        ..ServerConfig::default()
    };
    let (server, mut streams) = start_cm(config, SessionConfig::default()).await;
    let start = || StreamBuilder::<SmEnd>::new(target(server.address()), quick()).start();
    let (first, _first_incoming) = start();
    let accepted = soon(streams.recv()).await.unwrap();
    let (second, _second_incoming) = start();
    eventually("the second is turned away", || {
        let stats = second.stats();
        stats.dials_failed + stats.broken > 2
    })
    .await;
    assert!(streams.try_recv().is_err());
    first.stop().await;
    drop(accepted);
    soon(streams.recv()).await.unwrap();
    second.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_taken_address_and_bad_descriptors_are_named() {
    let (server, _streams) = start_cm(ServerConfig::default(), SessionConfig::default()).await;
    let address = ListenAddress(server.address());
    let builder = || ServerBuilder::new(ServerConfig::default(), muster_api::FILE_DESCRIPTOR_SET);
    let taken = builder().start(address, &server_tls()).await.unwrap_err();
    assert_eq!(
        taken.to_string(),
        format!("cannot listen on {}", server.address())
    );
    let broken = ServerBuilder::new(ServerConfig::default(), b"\xff")
        .start("127.0.0.1:0".parse().unwrap(), &server_tls())
        .await;
    assert!(matches!(broken, Err(StartServerError::Descriptors { .. })));
    server.shutdown().await;
}

#[tokio::test]
async fn one_listener_serves_one_server_after_another() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let start = async || {
        let copy = listener.try_clone().unwrap();
        let copy = tokio::net::TcpListener::from_std(copy).unwrap();
        ServerBuilder::new(ServerConfig::default(), muster_api::FILE_DESCRIPTOR_SET)
            .start_on(copy, address, &server_tls())
            .await
            .unwrap()
    };
    let first = start().await;
    first.shutdown().await;
    // Nobody serves, and yet nobody is refused: the connection waits for the next server.
    let waiting = tokio::spawn(async move {
        let channel = channel(&target(address), ChannelConfig::default());
        HealthClient::new(channel)
            .check(HealthCheckRequest::default())
            .await
    });
    let _connected = tokio::net::TcpStream::connect(address).await.unwrap();
    let second = start().await;
    assert!(soon(waiting).await.unwrap().is_ok());
    second.shutdown().await;
}

#[tokio::test]
async fn a_unix_socket_is_served_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let server = ServerBuilder::new(ServerConfig::default(), muster_api::FILE_DESCRIPTOR_SET)
        .start_unix(listener, path.clone())
        .await
        .unwrap();
    assert_eq!(server.address(), path);
    let endpoint = tonic::transport::Endpoint::try_from(format!("unix://{}", path.display()));
    let channel = endpoint.unwrap().connect().await.unwrap();
    let healthy = HealthClient::new(channel)
        .check(HealthCheckRequest::default())
        .await;
    assert_eq!(
        healthy.unwrap().into_inner().status(),
        ServingStatus::Serving
    );
    soon(server.shutdown()).await;
}
