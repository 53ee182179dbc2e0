//! Cases: nothing is written outside of where it should be.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::bench::{Bench, ensure, same};
use super::{Case, CaseResult, case};
use crate::transfer::Transfer;

pub(super) const CASES: &[Case] = &[
    case!(
        Copy,
        "a link here in the place of a folder is not followed by a download",
        link_here
    ),
    case!(
        Copy,
        "a link that came with a download is not followed by the next",
        link_came
    ),
    case!(
        Copy,
        "a link here in the place of a file is not written through",
        link_file
    ),
    case!(
        Copy,
        "a link in the machine in the place of a folder is not followed by an upload",
        link_there
    ),
    case!(
        Copy,
        "bits that give somebody's rights are not copied",
        set_user_id
    ),
];

fn io<T>(result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

async fn link_here(bench: &Bench<'_>) -> CaseResult {
    let (to, outside) = (bench.here("to"), bench.here("outside"));
    io(fs::create_dir(&to))?;
    io(fs::create_dir(&outside))?;
    io(symlink(&outside, to.join("d")))?;
    bench
        .script("mkdir -p tree/d/e; echo evil >tree/d/e/f; echo evil >tree/d/g")
        .await?;
    bench
        .copy(&Transfer::download(bench.there("tree"), &to))
        .await?;
    let left = io(fs::read_dir(&outside))?.count();
    same("what was written outside", &left, &0)?;
    same(
        "the file",
        &io(fs::read(to.join("d/e/f")))?,
        &b"evil\n".to_vec(),
    )
}

async fn link_came(bench: &Bench<'_>) -> CaseResult {
    let (to, outside) = (bench.here("to"), bench.here("outside"));
    io(fs::create_dir(&outside))?;
    let link = format!("mkdir tree; ln -s '{}' tree/d", outside.display());
    bench.script(&link).await?;
    let download = Transfer::download(bench.there("tree"), &to);
    bench.copy(&download).await?;
    bench
        .script("rm tree/d; mkdir tree/d; echo evil >tree/d/f")
        .await?;
    bench.copy(&download).await?;
    let left = io(fs::read_dir(&outside))?.count();
    same("what was written outside", &left, &0)
}

async fn link_file(bench: &Bench<'_>) -> CaseResult {
    let (to, outside) = (bench.here("to"), bench.here("outside"));
    io(fs::create_dir(&to))?;
    for (name, size) in [("small", 10), ("large", 400_000)] {
        io(fs::write(&outside, b"mine"))?;
        io(symlink(&outside, to.join(name)))?;
        bench
            .script(&format!(
                "mkdir -p tree; head -c {size} /dev/zero >tree/{name}"
            ))
            .await?;
        bench
            .copy(&Transfer::download(bench.there("tree"), &to))
            .await?;
        same(
            "what is outside",
            &io(fs::read(&outside))?,
            &b"mine".to_vec(),
        )?;
        let there = io(fs::symlink_metadata(to.join(name)))?;
        ensure(there.is_file() && there.len() == size, || {
            format!("{name} is {there:?}")
        })?;
    }
    // A single file is no different.
    io(symlink(&outside, to.join("one")))?;
    let one = Transfer::download(bench.there("tree/small"), to.join("one"));
    bench.copy(&one).await?;
    same(
        "what is outside",
        &io(fs::read(&outside))?,
        &b"mine".to_vec(),
    )
}

async fn link_there(bench: &Bench<'_>) -> CaseResult {
    let from = bench.here("from");
    io(fs::create_dir_all(from.join("d")))?;
    io(fs::write(from.join("d/f"), b"x"))?;
    bench
        .script("mkdir tree outside; ln -s ../outside tree/d")
        .await?;
    bench
        .copy(&Transfer::upload(&from, bench.there("tree")))
        .await?;
    same(
        "what is outside",
        &bench.script("ls outside").await?,
        &String::new(),
    )?;
    same(
        "the file",
        &bench.script("cat tree/d/f").await?,
        &"x".to_owned(),
    )
}

async fn set_user_id(bench: &Bench<'_>) -> CaseResult {
    bench
        .script("mkdir tree; touch tree/f; chmod 6755 tree/f")
        .await?;
    for (name, sync) in [("copied", false), ("synced", true)] {
        let to = bench.here(name);
        let download = Transfer::download(bench.there("tree"), &to);
        match sync {
            true => bench.sync(&download).await?,
            false => bench.copy(&download).await?,
        };
        let mode = io(fs::metadata(to.join("f")))?.permissions().mode() & 0o7777;
        same("the mode", &mode, &0o755)?;
    }
    Ok(())
}
