//! On this machine, in folders of their own.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use muster_executor::local::LocalExecutor;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

async fn prepare(folder: &Path) -> Result<(), JoinError> {
    let prepare = Command::new("sh").args(["-c", PREPARE, "muster-join"]);
    run(&LocalExecutor::new(), "prepare", &prepare.arg(folder)).await
}

#[tokio::test]
async fn what_a_try_left_is_used_and_a_link_in_its_place_is_not_followed() {
    let home = tempfile::tempdir().unwrap();
    let [stage, elsewhere] = [".muster-join", "elsewhere"].map(|it| home.path().join(it));
    prepare(&stage).await.unwrap();
    assert_eq!(mode(&stage), 0o700);
    fs::write(stage.join("left"), "half of it").unwrap();
    fs::set_permissions(&stage, fs::Permissions::from_mode(0o755)).unwrap();
    prepare(&stage).await.unwrap();
    assert_eq!(mode(&stage), 0o700);
    assert!(stage.join("left").exists());
    // Somebody means it to go elsewhere.
    fs::rename(&stage, &elsewhere).unwrap();
    symlink(&elsewhere, &stage).unwrap();
    prepare(&stage).await.unwrap();
    assert!(!stage.is_symlink() && !stage.join("left").exists());
    assert!(elsewhere.join("left").exists());
    fs::remove_dir(&stage).unwrap();
    fs::write(&stage, "a file").unwrap();
    prepare(&stage).await.unwrap();
    assert!(stage.is_dir());
    let nowhere = prepare(Path::new("/no/such/home/.muster-join")).await;
    assert!(matches!(nowhere, Err(JoinError::Command { .. })));
}

#[tokio::test]
async fn files_go_to_their_places_on_a_machine_that_has_few_tools() {
    let folder = tempfile::tempdir().unwrap();
    let [stage, root, bin] = ["stage", "root", "bin"].map(|it| folder.path().join(it));
    for folder in [&stage.join("a b/c"), &root, &bin] {
        fs::create_dir_all(folder).unwrap();
    }
    for tool in ["mkdir", "cmp", "cp", "chown", "mv"] {
        let found = ["/usr/bin", "/bin"].map(|it| Path::new(it).join(tool));
        let found = found.iter().find(|it| it.exists());
        symlink(found.expect("it is somewhere"), bin.join(tool)).unwrap();
    }
    if !is_root() {
        // What belongs to whom is root's to say.
        fs::remove_file(bin.join("chown")).unwrap();
        symlink("/bin/true", bin.join("chown")).unwrap();
    }
    let files = ["a b/c/x", "a b/y"];
    for file in files {
        fs::write(stage.join(file), file).unwrap();
    }
    fs::write(stage.join("left"), "of another try").unwrap();
    let place = Command::new("/bin/sh")
        .args(["-c", PLACE, "muster-join"])
        .args([&stage, &root])
        .args(files)
        .env("PATH", &bin);
    let here = LocalExecutor::new();
    for _ in 0..2 {
        run(&here, "place", &place).await.unwrap();
        for file in files {
            assert_eq!(fs::read_to_string(root.join(file)).unwrap(), file);
        }
        assert!(!root.join("left").exists());
    }
    let wrong = place.clone().arg("not/there");
    let failed = run(&here, "place", &wrong).await;
    assert!(matches!(failed, Err(JoinError::Command { .. })));
}

fn is_root() -> bool {
    let own = fs::metadata("/proc/self").unwrap();
    own.uid() == 0
}

#[tokio::test]
async fn a_home_that_executes_nothing_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("muster-init");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    let here = LocalExecutor::new();
    let tried = try_program(&here, folder.path(), &program).await;
    let said = tried.unwrap_err().to_string();
    let place = folder.path().display().to_string();
    assert!(said.contains(&place) && said.contains("noexec"), "{said}");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    try_program(&here, folder.path(), &program).await.unwrap();
}
