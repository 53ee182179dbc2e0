//! Cases: single files, large ones, and those that were cut or spoilt.

use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::bench::{Bench, expect_class, same};
use super::trees::at;
use super::{Case, CaseResult, case};
use crate::command::Command;
use crate::error::FailureClass;
use crate::files::RelPath;
use crate::transfer::Transfer;
use crate::transfer::plan::part_of;

/// 64 MiB, and 1 GiB in the long runs.
pub(super) const LARGE: &str = "a large file goes over and comes back";

pub(super) const CASES: &[Case] = &[
    case!(
        Copy,
        "a file is copied under another name, and into a folder",
        single
    ),
    case!(Copy, "what is not there is not copied", missing),
    case!(Copy, LARGE, large),
    case!(Copy, "a copy that was cut goes on where it was", resume),
    case!(
        Copy,
        "a download that was cut goes on where it was",
        resume_download
    ),
    case!(
        Copy,
        "a part that is not what it should be is not used",
        spoilt_part
    ),
    case!(
        Copy,
        "a spoilt file is found by its digest and repaired",
        repaired
    ),
    case!(Copy, "a file is replaced while it is in use", replaced),
];

fn io<T>(result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Bytes that no part of is like another.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        bytes.extend_from_slice(&(state >> 16).to_be_bytes()[2..]);
    }
    bytes.truncate(length);
    bytes
}

async fn single(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from.txt");
    io(fs::write(&from, b"content"))?;
    at(&from, 1_111_111_111)?;
    bench
        .copy(&Transfer::upload(&from, bench.there("new/to.txt")))
        .await?;
    bench
        .copy(&Transfer::upload(
            &from,
            format!("{}/", bench.there("in").display()),
        ))
        .await?;
    let printed = bench
        .script("cat new/to.txt in/from.txt; stat -c %Y new/to.txt")
        .await?;
    same(
        "what is there",
        &printed,
        &"contentcontent1111111111".to_owned(),
    )?;
    let back = bench.here("back/x");
    bench
        .copy(&Transfer::download(bench.there("new/to.txt"), &back))
        .await?;
    same("what came back", &io(fs::read(back))?, &b"content".to_vec())
}

async fn missing(bench: &Bench<'_>) -> CaseResult {
    let down = Transfer::download(bench.there("missing"), bench.here("x"));
    expect_class(bench.executor.copy(&down).await, FailureClass::Io)?;
    let up = Transfer::upload(bench.here("missing"), bench.there("x"));
    expect_class(bench.executor.copy(&up).await, FailureClass::Io)
}

fn digest_of(path: &Path) -> Result<String, String> {
    let mut file = io(fs::File::open(path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = io(std::io::Read::read(&mut file, &mut buffer))?;
        if read == 0 {
            return Ok(hex::encode(hasher.finalize()));
        }
        hasher.update(&buffer[..read]);
    }
}

async fn large(bench: &Bench<'_>) -> CaseResult {
    let megabytes = match std::env::var_os("MUSTER_SOAK") {
        Some(_) => 1024,
        None => 64,
    };
    let from = bench.here("from");
    {
        use std::io::Write as _;
        let mut file = io(fs::File::create(&from))?;
        let block = noise(1 << 20);
        for index in 0..megabytes {
            io(file.write_all(&block[index % 1000..]))?;
        }
    }
    let (there, back) = (bench.there("large"), bench.here("back"));
    bench.copy(&Transfer::upload(&from, &there)).await?;
    let printed = bench.script("sha256sum <large").await?;
    let digest = digest_of(&from)?;
    same("what is there", &printed, &format!("{digest}  -"))?;
    bench.copy(&Transfer::download(&there, &back)).await?;
    same("what came back", &digest_of(&back)?, &digest)
}

/// The name of the part of a file called `to`.
fn part() -> Result<RelPath, String> {
    let path = RelPath::new("to").map_err(|error| error.to_string())?;
    Ok(part_of(&path))
}

async fn resume(bench: &Bench<'_>) -> CaseResult {
    let (from, content) = (bench.here("from"), noise(2_000_000));
    io(fs::write(&from, &content))?;
    let cut = bench.here("cut");
    io(fs::write(&cut, &content[..1_500_000]))?;
    let there = bench.there("to");
    // What a copy that was cut has left.
    bench
        .copy(&Transfer::upload(&cut, bench.there(part()?.as_path())))
        .await?;
    let report = bench.copy(&Transfer::upload(&from, &there)).await?;
    same("what was used again", &report.resumed, &1_500_000)?;
    same("what was moved", &report.bytes, &500_000)?;
    let back = bench.here("back");
    bench.copy(&Transfer::download(&there, &back)).await?;
    same("it is whole", &(io(fs::read(back))? == content), &true)?;
    same(
        "nothing is left",
        &bench.script("ls -A").await?,
        &"to".to_owned(),
    )
}

async fn resume_download(bench: &Bench<'_>) -> CaseResult {
    let (from, content) = (bench.here("from"), noise(2_000_000));
    io(fs::write(&from, &content))?;
    bench
        .copy(&Transfer::upload(&from, bench.there("to")))
        .await?;
    let into = bench.here("into");
    io(fs::create_dir(&into))?;
    io(fs::write(
        into.join(part()?.as_path()),
        &content[..1_200_000],
    ))?;
    let to = into.join("to");
    let report = bench
        .copy(&Transfer::download(bench.there("to"), &to))
        .await?;
    same("what was used again", &report.resumed, &1_200_000)?;
    same("it is whole", &(io(fs::read(to))? == content), &true)
}

async fn spoilt_part(bench: &Bench<'_>) -> CaseResult {
    let (from, content) = (bench.here("from"), noise(1_000_000));
    io(fs::write(&from, &content))?;
    let mut spoilt = content[..600_000].to_vec();
    spoilt[300_000] ^= 1;
    let cut = bench.here("cut");
    io(fs::write(&cut, &spoilt))?;
    bench
        .copy(&Transfer::upload(&cut, bench.there(part()?.as_path())))
        .await?;
    let there = bench.there("to");
    let report = bench.copy(&Transfer::upload(&from, &there)).await?;
    same("what was used again", &report.resumed, &0)?;
    let back = bench.here("back");
    bench.copy(&Transfer::download(&there, &back)).await?;
    same("it is whole", &(io(fs::read(back))? == content), &true)
}

async fn repaired(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    io(fs::create_dir(&from))?;
    for (name, content) in [("small", noise(1000)), ("large\nname", noise(500_000))] {
        io(fs::write(from.join(name), content))?;
        at(&from.join(name), 1_000_000_000)?;
    }
    let mut upload = Transfer::upload(&from, bench.there("tree"));
    bench.copy(&upload).await?;
    // The same size and time, and another byte.
    let spoil = "cd tree; for f in *; do printf X | dd of=\"$f\" bs=1 seek=500 conv=notrunc 2>/dev/null; \
         touch -d @1000000000 \"$f\"; done";
    bench.script(spoil).await?;
    let report = bench.copy(&upload).await?;
    same("what looks the same is left alone", &report.files, &0)?;
    upload.checksum = true;
    let report = bench.copy(&upload).await?;
    same("what was repaired", &report.files, &2)?;
    let report = bench.copy(&upload).await?;
    same("what is left to repair", &report.files, &0)?;
    let back = bench.here("back");
    bench
        .copy(&Transfer::download(bench.there("tree"), &back))
        .await?;
    for name in ["small", "large\nname"] {
        let (is, wanted) = (
            io(fs::read(back.join(name)))?,
            io(fs::read(from.join(name)))?,
        );
        same("it is whole", &(is == wanted), &true)?;
    }
    Ok(())
}

async fn replaced(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    io(fs::write(&from, b"new"))?;
    // A program that runs cannot be written to, only replaced.
    // A shell may have it built in, and name no file.
    let copy =
        "file=$(command -v sleep); [ -f \"$file\" ] || file=$(which sleep); cp \"$file\" program";
    bench.script(copy).await?;
    let command = Command::new("./program").arg("1000").folder(&bench.there);
    let running = bench.executor.run(&command).await;
    let running = running.map_err(|error| error.to_string())?;
    bench
        .copy(&Transfer::upload(&from, bench.there("program")))
        .await?;
    drop(running);
    same(
        "it is the new one",
        &bench.script("cat program").await?,
        &"new".to_owned(),
    )
}
