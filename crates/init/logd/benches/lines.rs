//! Short lines a second, journald and logd side by side: the same text through the same client
//! (`systemd-cat`), each daemon alone in namespaces of its own, until `journalctl --sync` returns.

use std::path::Path;
use std::process::{Command, ExitCode};

const LINES: usize = 500_000;
const JOURNALD: &str = "/lib/systemd/systemd-journald";
/// What must be reached on one core.
const WANTED: f64 = 100_000.0;

/// Prints wall seconds, CPU seconds of the daemon, the entries in its files, and its memory in KiB.
const SCENE: &str = r#"
set -eu
daemon=$1 text=$2 logd=$3
mount -t tmpfs none /run
mount -t tmpfs none /var/log
mount --bind /dev/null /dev/kmsg
mkdir -p /run/systemd/journal /run/systemd/journald.conf.d /run/muster
cat > /run/systemd/journald.conf.d/all.conf <<END
[Journal]
Storage=volatile
RateLimitIntervalSec=0
RuntimeMaxUse=4G
RuntimeKeepFree=0
RuntimeMaxFileSize=128M
ReadKMsg=no
END
cd /run/systemd/journal
if [ "$daemon" = journald ]; then
    /lib/systemd/systemd-journald > /dev/null 2>&1 &
else
    "$logd" --config /run/systemd/journald.conf.d/all.conf --syslog dev-log --native socket \
        --stdout stdout --varlink io.systemd.journal &
fi
pid=$!
until [ -S stdout ] && [ -S io.systemd.journal ]; do sleep 0.01; done
start=$EPOCHREALTIME
systemd-cat -t bench cat "$text"
journalctl --sync
end=$EPOCHREALTIME
read -r -a stat < <(sed 's/.*) //' /proc/$pid/stat)
ticks=$((stat[11] + stat[12]))
entries=$(journalctl -D /run/log/journal -t bench -o cat -q --no-pager | wc -l)
memory=$(awk '/VmRSS/{print $2}' /proc/$pid/status)
awk -v s="$start" -v e="$end" -v t="$ticks" -v n="$entries" -v m="$memory" \
    'BEGIN { printf "%.3f %.3f %d %d\n", e - s, t / 100, n, m }'
"#;

struct Figures {
    wall: f64,
    cpu: f64,
    entries: usize,
    memory_kib: usize,
}

fn play(daemon: &str, text: &Path) -> Option<Figures> {
    let output = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args([
            "--propagation",
            "private",
            "timeout",
            "300",
            "bash",
            "-c",
            SCENE,
            "scene",
        ])
        .arg(daemon)
        .arg(text)
        .arg(env!("CARGO_BIN_EXE_muster-logd"))
        .output()
        .ok()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = printed.split_whitespace();
    let mut number = || words.next()?.parse::<f64>().ok();
    let (wall, cpu) = (number()?, number()?);
    let mut count = || words.next()?.parse::<usize>().ok();
    Some(Figures {
        wall,
        cpu,
        entries: count()?,
        memory_kib: count()?,
    })
}

fn main() -> ExitCode {
    if !rustix::process::getuid().is_root() || !Path::new(JOURNALD).exists() {
        println!("lines: needs root and {JOURNALD}");
        return ExitCode::SUCCESS;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    let lines: String = (0..LINES)
        .map(|number| format!("this is a short line, number {number}\n"))
        .collect();
    std::fs::write(&text, lines).expect("written");
    println!("{LINES} short lines by systemd-cat until journalctl --sync returns");
    println!("| | lines/s | lines per CPU second | lost | memory |");
    println!("|---|---|---|---|---|");
    let mut is_met = true;
    for daemon in ["journald", "logd"] {
        let Some(figures) = play(daemon, &text) else {
            println!("| {daemon} | did not finish | | | |");
            return ExitCode::FAILURE;
        };
        let count = LINES as f64;
        let per_cpu = count / figures.cpu.max(0.01);
        println!(
            "| {daemon} | {:.0} | {per_cpu:.0} | {} | {} KiB |",
            count / figures.wall,
            LINES - figures.entries.min(LINES),
            figures.memory_kib
        );
        is_met = per_cpu >= WANTED && figures.entries == LINES;
    }
    println!("wanted of logd: {WANTED:.0} lines a second on one core, none lost");
    if is_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
