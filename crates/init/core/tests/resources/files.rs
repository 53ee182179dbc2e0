//! A restriction of file systems outlives the manager that made it. Few kernels take such programs, so this runs in a guest
//! whose kernel does; it has no tools but busybox.

use std::path::Path;
use std::time::Duration;

use muster_lab::guest::Guest;
use muster_lab::machine::{Binaries, Build};
use muster_lab::muster;

/// The guest translates every instruction.
const TIME: Duration = Duration::from_secs(120);
const UNITS: [(&str, &str); 3] = [
    (
        "default.target",
        "[Unit]\nWants=basic.target driver.service\nAfter=basic.target\n",
    ),
    // What its input lies on is open to whoever sets it up, and to nobody else.
    (
        "kept.service",
        "[Service]\nRestrictFileSystems=tmpfs\nStandardInput=file:/ram/file\n\
         ExecStart=/bin/sh -c 'while read word </run/ask; do sh /lab/look main; done'\n\
         ExecReload=/bin/sh /lab/look reload\nExecStopPost=/bin/sh /lab/look post\n",
    ),
    (
        "driver.service",
        "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nStandardOutput=tty\nStandardError=tty\n\
         TTYPath=/dev/console\nEnvironment=PATH=/usr/lib/muster:/bin\nExecStart=/bin/sh /lab/drive\n",
    ),
];
/// Notes which of three files can be opened: on a tmpfs, on a ramfs, of the kernel's.
const LOOK: &str = "for file in /lab/look /ram/file /proc/self/status; do
    if (: <$file) 2>/dev/null; then echo -n 'yes '; else echo -n 'no '; fi
done >/run/.seen-$1
mv /run/.seen-$1 /run/seen-$1
";
const DRIVE: &str = r#"
until_true() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { echo "in vain: $*"; exit 1; }
        sleep 0.1
    done
}
another() { new=$(pidof muster-core) && [ "$new" != "$old" ] && sctl is-active -q basic.target; }
check() {
    rm -f /run/seen-*
    echo >/run/ask
    until_true [ -e /run/seen-main ]
    sctl reload kept.service || sctl status kept.service
    unapplied=$(sctl status kept.service | grep -c 'Not applied')
    echo "check: $1: $(cat /run/seen-main)/ $(cat /run/seen-reload)/ $unapplied"
}
mkdir /ram
mount -t ramfs ramfs /ram
echo content >/ram/file
sh /lab/look outside
echo "check: outside: $(cat /run/seen-outside)"
mkfifo /run/ask
sctl start kept.service
check start
old=$(pidof muster-core)
kill -9 "$old"
until_true another
check kill
old=$(pidof muster-core)
cp /usr/lib/muster/muster-core /usr/lib/muster/new
mv /usr/lib/muster/new /usr/lib/muster/muster-core
sctl daemon-reexec
until_true another
check upgrade
sctl stop kept.service
left=no
[ ! -d /sys/fs/cgroup/system.slice/kept.service ] || left=yes
echo "check: stop: $(cat /run/seen-post)/ $left"
sctl poweroff --no-block
"#;

#[test]
fn a_restriction_of_file_systems_outlives_the_manager_and_its_upgrade() {
    muster_lab::require!(Root, Tool("qemu-system-x86_64"), File("/bin/busybox"));
    if !Guest::qemu().can_boot() {
        return;
    }
    let programs = muster::programs(Build::Test, &["muster-core/fault-points"]).unwrap();
    let mut running = guest(&programs).boot().unwrap();
    for (moment, expected) in [
        ("outside", "yes yes yes"),
        ("start", "yes no no / yes no no / 0"),
        ("kill", "yes no no / yes no no / 0"),
        ("upgrade", "yes no no / yes no no / 0"),
        ("stop", "yes no no / no"),
    ] {
        let begin = format!("check: {moment}: ");
        let line = running.wait_for_line(&begin, TIME);
        let line = line.unwrap_or_else(|error| panic!("{error}: {:#?}", running.console()));
        let said = line.split(&begin).nth(1).unwrap_or_default().trim_end();
        assert_eq!(said, expected, "{moment}: {:#?}", running.console());
    }
}

fn guest(programs: &Binaries) -> Guest {
    let mut guest = muster::qemu_guest(programs)
        .file("/lab/look", LOOK, 0o644)
        .file("/lab/drive", DRIVE, 0o644)
        .file(
            "/etc/machine-id",
            "0123456789abcdef0123456789abcdef\n",
            0o444,
        );
    for (name, text) in UNITS {
        guest = guest.file(Path::new("/etc/systemd/system").join(name), text, 0o644);
    }
    guest
}
