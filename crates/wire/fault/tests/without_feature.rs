//! The build that ships: the feature is off, and nothing of the points is left.
//!
//! Cargo cannot build one package with and without a feature for one test, so the compiler is called
//! directly; without the feature the library has no dependencies.

use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
muster_fault::points! {
    /// A moment with a conspicuous description.
    pub MOMENT = "conspicuous.moment",
}

fn main() {
    muster_fault::init(&[FAULT_POINTS]);
    muster_fault::hit(MOMENT);
    println!("end");
}
"#;

fn rustc(folder: &Path, arguments: &[&str]) {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "--edition",
            "2024",
            "-O",
            "--cap-lints",
            "allow",
            "--out-dir",
        ])
        .arg(folder)
        .args(arguments)
        .output()
        .expect("the compiler starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle.as_bytes())
}

#[test]
fn nothing_is_left_and_the_variable_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.rs");
    fs::write(&source, PROGRAM).unwrap();
    rustc(
        folder.path(),
        &[
            "--crate-type",
            "rlib",
            "--crate-name",
            "muster_fault",
            "src/lib.rs",
        ],
    );
    let library = format!(
        "muster_fault={}/libmuster_fault.rlib",
        folder.path().display()
    );
    rustc(
        folder.path(),
        &["--extern", &library, source.to_str().unwrap()],
    );
    let program = folder.path().join("program");

    for value in ["conspicuous.moment", "no-such-point", "syntax=error"] {
        let output = Command::new(&program)
            .env("MUSTER_FAULT", value)
            .output()
            .unwrap();
        assert!(output.status.success(), "{value}: {}", output.status);
        assert_eq!(output.stdout, b"end\n", "{value}");
    }

    let binary = fs::read(&program).unwrap();
    assert!(contains(&binary, "end\n"), "the search finds what is there");
    for trace in [
        "conspicuous.moment",
        "conspicuous description",
        "MUSTER_FAULT",
    ] {
        assert!(!contains(&binary, trace), "{trace:?} is left in the binary");
    }
}
