//! What a thousand machines of the simulated cloud cost when they are made and destroyed at once: memory, of the registry and of
//! the cloud together, beside its target, and time. A figure that misses its target makes the run fail.

#![expect(
    clippy::unwrap_used,
    reason = "a panic in a helper of a benchmark is the report"
)]

#[path = "../tests/machines/many.rs"]
mod many;
#[path = "../tests/machines/rig.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod rig;

use std::process::ExitCode;

use many::make_and_destroy;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    match runtime.block_on(make_and_destroy()).report() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
