//! The runner against plugins that are right and wrong in every way.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_cni::{
    AddError, Attachment, CheckError, DelError, NetworkList, PluginConfig, PluginFault, Runner,
};
use serde_json::{Value, json};

/// Far more than a plugin here needs, far less than a test may take.
const LIMIT: Duration = Duration::from_secs(20);

struct Rig {
    folder: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let rig = Self { folder };
        for name in ["one", "two", "three"] {
            rig.plugin(name, "");
        }
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A plugin that writes down what it gets; `special` comes before its good answer.
    fn plugin(&self, name: &str, special: &str) {
        let (log, inputs) = (self.path("log"), self.path("inputs"));
        let script = format!(
            r#"#!/bin/sh
input=$(cat)
echo "$CNI_COMMAND {name} $CNI_CONTAINERID $CNI_IFNAME [$CNI_NETNS] [$CNI_ARGS]" >> {log}
echo "$input" >> {inputs}
{special}
[ "$CNI_COMMAND" = ADD ] && echo '{{"cniVersion": "1.0.0", "ips": [{{"address": "10.0.0.7/24"}}], "by": "{name}"}}'
exit 0
"#,
            log = log.display(),
            inputs = inputs.display()
        );
        let path = self.path("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn runner(&self) -> Runner {
        self.runner_with(LIMIT)
    }

    fn runner_with(&self, limit: Duration) -> Runner {
        let folders = vec![self.path("nothing"), self.path("bin")];
        Runner::new(folders, self.path("cache"), limit)
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What was asked of whom, in order, without the rest.
    fn calls(&self) -> Vec<String> {
        let words = |line: String| line.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ");
        self.log().into_iter().map(words).collect()
    }

    fn inputs(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("inputs")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn kept(&self) -> usize {
        fs::read_dir(self.path("cache")).map_or(0, Iterator::count)
    }
}

fn list(names: &[&str]) -> NetworkList {
    let plugins = names.iter().map(|name| PluginConfig::new(name).unwrap());
    NetworkList::new("lab", plugins.collect()).unwrap()
}

fn attachment() -> Attachment {
    Attachment::new("c1", "/no/such/namespace", "eth0").unwrap()
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text += &format!(": {inner}");
        source = inner.source();
    }
    text
}

#[tokio::test]
async fn plugins_run_in_order_up_and_in_reverse_down_each_with_the_result_before() {
    let rig = Rig::new();
    let plugins = vec![
        PluginConfig::new("one").unwrap().with("key", 1),
        PluginConfig::new("two")
            .unwrap()
            .with("capabilities", json!({"ips": true})),
    ];
    let list = NetworkList::new("lab", plugins).unwrap();
    let attachment = attachment()
        .arg("K", "v")
        .unwrap()
        .capability("ips", json!(["10.0.0.7/24"]));
    let result = rig.runner().add(&list, &attachment).await.unwrap();
    assert_eq!(result.document()["by"], "two");
    assert_eq!(result.addresses()[0].to_string(), "10.0.0.7");
    rig.runner().check(&attachment).await.unwrap();

    // Another process knows nothing but the name.
    rig.runner().del(&attachment).await.unwrap();
    assert_eq!(rig.kept(), 0);
    assert_eq!(
        rig.log(),
        [
            "ADD one c1 eth0 [/no/such/namespace] [K=v]",
            "ADD two c1 eth0 [/no/such/namespace] [K=v]",
            "CHECK one c1 eth0 [/no/such/namespace] [K=v]",
            "CHECK two c1 eth0 [/no/such/namespace] [K=v]",
            // A namespace that is gone is not named any more.
            "DEL two c1 eth0 [] [K=v]",
            "DEL one c1 eth0 [] [K=v]",
        ]
    );
    let inputs = rig.inputs();
    assert_eq!(
        (&inputs[0]["key"], inputs[0].get("prevResult")),
        (&json!(1), None)
    );
    assert_eq!(inputs[0].get("runtimeConfig"), None);
    assert_eq!(inputs[1]["prevResult"]["by"], "one");
    assert_eq!(inputs[1]["runtimeConfig"], json!({"ips": ["10.0.0.7/24"]}));
    for input in &inputs[2..] {
        assert_eq!(input["prevResult"]["by"], "two");
    }
}

#[tokio::test]
async fn a_failed_plugin_and_those_before_it_are_undone_in_reverse() {
    let rig = Rig::new();
    let refusal = r#"[ "$CNI_COMMAND" = ADD ] && echo '{"cniVersion": "1.0.0", "code": 11, "msg": "try later", "details": "no room"}' && exit 1"#;
    rig.plugin("two", refusal);
    let error = rig
        .runner()
        .add(&list(&["one", "two", "three"]), &attachment())
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "cannot put container c1 into network lab: plugin two: ADD of container c1 failed: \
         it says \"try later\" (code 11): no room"
    );
    assert_eq!(rig.calls(), ["ADD one", "ADD two", "DEL two", "DEL one"]);
    assert_eq!(rig.inputs()[2]["prevResult"]["by"], "one");
    assert_eq!(rig.kept(), 0);
}

#[tokio::test]
async fn a_plugin_that_cannot_delete_does_not_keep_the_others_and_can_be_asked_again() {
    let rig = Rig::new();
    let broken = rig.path("broken");
    let special = format!(
        r#"[ "$CNI_COMMAND" = DEL ] && [ -e {} ] && echo stuck >&2 && exit 3"#,
        broken.display()
    );
    rig.plugin("two", &special);
    fs::write(&broken, "").unwrap();
    rig.runner()
        .add(&list(&["one", "two", "three"]), &attachment())
        .await
        .unwrap();
    let error = rig.runner().del(&attachment()).await.unwrap_err();
    assert_eq!(
        chain(&error),
        "1 of 3 plugins could not take container c1 out of its network: plugin two: DEL of container c1 failed: \
         it ended with exit status: 3: stuck"
    );
    assert!(matches!(
        error,
        DelError::Plugins {
            failed: 1,
            all: 3,
            ..
        }
    ));
    assert_eq!(rig.calls()[3..], ["DEL three", "DEL two", "DEL one"]);
    assert_eq!(rig.runner().attachments().await.unwrap(), [attachment()]);

    fs::remove_file(&broken).unwrap();
    rig.runner().del(&attachment()).await.unwrap();
    assert_eq!(rig.runner().attachments().await.unwrap(), []);
    // What was never there is out.
    rig.runner().del(&attachment()).await.unwrap();
    assert_eq!(rig.calls().len(), 9);
}

/// Runs one ADD of a plugin that misbehaves and answers why it failed.
async fn fault_of(special: &str, limit: Duration) -> (PluginFault, Rig) {
    let rig = Rig::new();
    rig.plugin(
        "bad",
        &format!("if [ $CNI_COMMAND = ADD ]; then {special}; fi"),
    );
    let added = rig
        .runner_with(limit)
        .add(&list(&["one", "bad"]), &attachment())
        .await;
    let Err(AddError::Plugin { source, .. }) = added else {
        panic!("{added:?}");
    };
    assert_eq!(
        (source.plugin.as_str(), source.container.as_str()),
        ("bad", "c1")
    );
    assert_eq!(rig.calls(), ["ADD one", "ADD bad", "DEL bad", "DEL one"]);
    assert_eq!(rig.kept(), 0);
    (source.fault, rig)
}

#[tokio::test]
async fn garbage_half_an_answer_nothing_and_a_lie_are_told_apart_from_an_answer() {
    for special in [
        "echo hello; exit 0",
        r#"printf '{"cniVersion": "1.0.0", "ips": ['; exit 0"#,
        "exit 0",
        r#"echo '{"cniVersion": "0.2.0"}'; exit 0"#,
        r#"echo '{"cniVersion": "1.0.0", "ips": [{"address": "here"}]}'; exit 0"#,
        r"printf '\377\376'; exit 0",
    ] {
        let (fault, _rig) = fault_of(special, LIMIT).await;
        assert!(
            matches!(fault, PluginFault::Garbage(_)),
            "{special}: {fault:?}"
        );
    }
    let (fault, _rig) = fault_of(
        "echo '{\"code\": 7, \"msg\": \"bad\\u001b[31m\"}'; exit 0",
        LIMIT,
    )
    .await;
    assert_eq!(fault.to_string(), "it says \"bad [31m\" (code 7)");
}

#[tokio::test]
async fn a_plugin_that_dies_says_its_last_words() {
    let (fault, _rig) = fault_of("echo oh no >&2; exit 4", LIMIT).await;
    assert_eq!(fault.to_string(), "it ended with exit status: 4: oh no");
    let (fault, _rig) = fault_of("kill -9 $$", LIMIT).await;
    assert!(
        fault.to_string().starts_with("it ended with signal: 9"),
        "{fault}"
    );
}

#[tokio::test]
async fn a_flood_is_cut_off() {
    let (fault, _rig) = fault_of("cat /dev/zero", LIMIT).await;
    assert_eq!(
        fault.to_string(),
        "it wrote more than 65536 bytes and was killed"
    );
}

fn is_alive(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

async fn poll(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_plugin_that_hangs_is_killed_with_all_that_it_started() {
    let pids = tempfile::tempdir().unwrap();
    let file = pids.path().join("pid");
    let special = format!("sleep 600 & echo $! > {}; wait", file.display());
    let started = Instant::now();
    let (fault, _rig) = fault_of(&special, Duration::from_millis(800)).await;
    assert_eq!(
        fault.to_string(),
        "it did not end within 800ms and was killed"
    );
    assert!(started.elapsed() < LIMIT);
    let child = fs::read_to_string(&file).unwrap();
    poll("the end of the plugin's child", || !is_alive(&child)).await;
}

#[tokio::test]
async fn giving_up_on_a_list_kills_its_plugin_and_leaves_what_del_needs() {
    let rig = Rig::new();
    let file = rig.path("pid");
    rig.plugin(
        "slow",
        &format!(
            "if [ $CNI_COMMAND = ADD ]; then echo $$ > {}; sleep 600; fi",
            file.display()
        ),
    );
    let runner = rig.runner();
    let task = tokio::spawn(async move {
        runner
            .add(&list(&["one", "slow"]), &attachment())
            .await
            .map(drop)
    });
    poll("the plugin's start", || {
        fs::read_to_string(&file).is_ok_and(|it| it.ends_with('\n'))
    })
    .await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let plugin = fs::read_to_string(&file).unwrap();
    poll("the plugin's end", || !is_alive(&plugin)).await;

    assert!(matches!(
        rig.runner().check(&attachment()).await,
        Err(CheckError::NotAdded { .. })
    ));
    rig.runner().del(&attachment()).await.unwrap();
    assert_eq!(rig.calls(), ["ADD one", "ADD slow", "DEL slow", "DEL one"]);
    assert_eq!(rig.inputs()[2]["prevResult"]["by"], "one");
}

#[tokio::test]
async fn a_plugin_that_outlives_its_caller_is_waited_for() {
    let rig = Rig::new();
    rig.runner()
        .add(&list(&["one"]), &attachment())
        .await
        .unwrap();
    // As a plugin whose caller was killed: it has its input open, and the lock with it.
    let input = fs::File::open(rig.path("cache").join("c1@eth0.input")).unwrap();
    input.lock().unwrap();
    let mut orphan = std::process::Command::new("sleep")
        .arg("600")
        .stdin(input)
        .spawn()
        .unwrap();
    let short = Duration::from_millis(50);
    let error = rig.runner_with(short).del(&attachment()).await.unwrap_err();
    let text = chain(&error);
    assert!(
        text.ends_with("an earlier plugin for the same container has not ended within 50ms"),
        "{text}"
    );
    assert_eq!(rig.calls(), ["ADD one"]);
    orphan.kill().unwrap();
    orphan.wait().unwrap();
    rig.runner().del(&attachment()).await.unwrap();
    assert_eq!(rig.calls(), ["ADD one", "DEL one"]);
    assert_eq!(rig.kept(), 0);
}

#[tokio::test]
async fn a_missing_plugin_names_where_it_was_looked_for() {
    let rig = Rig::new();
    let error = rig
        .runner()
        .add(&list(&["one", "absent"]), &attachment())
        .await
        .unwrap_err();
    let text = chain(&error);
    assert!(
        text.contains("plugin absent: ADD of container c1 failed: no such program in "),
        "{text}"
    );
    assert!(
        text.ends_with(&rig.path("bin").display().to_string()),
        "{text}"
    );
    assert_eq!(rig.calls(), ["ADD one", "DEL one"]);
    assert_eq!(rig.kept(), 0);
}

#[tokio::test]
async fn nothing_is_done_that_cannot_be_written_down() {
    let rig = Rig::new();
    fs::write(rig.path("cache"), "in the way").unwrap();
    let error = rig
        .runner()
        .add(&list(&["one"]), &attachment())
        .await
        .unwrap_err();
    assert!(matches!(error, AddError::Cache { .. }), "{error:?}");
    assert!(rig.calls().is_empty());
}

#[tokio::test]
async fn a_check_that_fails_names_its_plugin() {
    let rig = Rig::new();
    rig.plugin(
        "two",
        r#"[ "$CNI_COMMAND" = CHECK ] && echo '{"code": 100, "msg": "link is gone"}' && exit 1"#,
    );
    rig.runner()
        .add(&list(&["one", "two", "three"]), &attachment())
        .await
        .unwrap();
    let text = chain(&rig.runner().check(&attachment()).await.unwrap_err());
    assert_eq!(
        text,
        "container c1 is not in its network as it should be: plugin two: CHECK of container c1 failed: \
         it says \"link is gone\" (code 100)"
    );
    assert_eq!(rig.calls()[3..], ["CHECK one", "CHECK two"]);
}
