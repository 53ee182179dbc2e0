//! Python's grpcio as a peer that is not ours: it knows the contracts and nothing else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::program::{Program, ProgramError, Stream};

/// The interpreter that has grpcio; a test opens with `require!(File(GRPC_TOOLS))`.
pub const PYTHON: &str = "/usr/bin/python3";
/// What compiles contracts.
pub const GRPC_TOOLS: &str = "/usr/lib/python3/dist-packages/grpc_tools";

/// Why contracts could not be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContractsError {
    /// The folder cannot be made.
    #[error("cannot make {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// The compiler cannot be run.
    #[error("cannot run the compiler of contracts")]
    Run(#[source] ProgramError),
    /// The compiler does not take them.
    #[error("contracts are not taken: {said}")]
    Refused {
        /// What the compiler said.
        said: String,
    },
}

/// Compiles contracts, named as in `proto/`, into a new folder that Python can import from.
pub fn contracts(folder: &Path, protos: &[&str], within: Duration) -> Result<(), ContractsError> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    fs::create_dir(folder).map_err(|source| ContractsError::Folder {
        path: folder.to_owned(),
        source,
    })?;
    let mut compiler = Program::new(PYTHON)
        .args(["-m", "grpc_tools.protoc"])
        .arg(format!("-I{}", sources.display()))
        .arg(format!("--python_out={}", folder.display()))
        .arg(format!("--grpc_python_out={}", folder.display()))
        .args(protos.iter().copied())
        .start()
        .map_err(ContractsError::Run)?;
    let status = compiler.wait(within).map_err(ContractsError::Run)?;
    if !status.success() {
        let said = compiler.text(Stream::Stderr);
        return Err(ContractsError::Refused { said });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_become_modules_and_unknown_ones_are_refused() {
        crate::require!(File(GRPC_TOOLS));
        let place = tempfile::tempdir().unwrap();
        let time = Duration::from_secs(60);
        let folder = place.path().join("good");
        contracts(&folder, &["common/v2/common.proto"], time).unwrap();
        assert!(folder.join("common/v2/common_pb2.py").is_file());
        let refused = contracts(&place.path().join("bad"), &["no/such.proto"], time).unwrap_err();
        assert!(refused.to_string().contains("no/such.proto"), "{refused}");
        let again = contracts(&folder, &["common/v2/common.proto"], time);
        assert!(matches!(again, Err(ContractsError::Folder { .. })));
    }
}
