//! Keys in a real PKCS#11 token: SoftHSM, each test with tokens of its own.
#![expect(
    clippy::unwrap_used,
    reason = "a panic in a test's helper is the report as well"
)]

mod fixture;
mod handler;
mod negative;
mod sessions;
mod tls;
