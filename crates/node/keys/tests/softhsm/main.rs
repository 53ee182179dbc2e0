//! Keys in a real PKCS#11 token: SoftHSM, each test with tokens of its own.

mod fixture;
mod handler;
mod negative;
mod sessions;
mod tls;
