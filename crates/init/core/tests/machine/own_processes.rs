//! Services with a namespace of processes of their own: what their programs say is heard, and what they are sent comes once.

use muster_lab::poll_until;
use rustix::process::Signal;

use crate::rig::{Rig, TIME};
use crate::upgrade::upgrade;

/// Counts SIGUSR1, says so each time, and says the count once more at SIGUSR2.
const PROGRAM: &str = r#"
use Socket;
my $count = 0;
sub say_status {
    socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die;
    send($socket, shift, 0, pack_sockaddr_un($ENV{NOTIFY_SOCKET})) or die;
}
$SIG{USR1} = sub { $count++; say_status("STATUS=heard $count"); };
$SIG{USR2} = sub { say_status("STATUS=counted $count"); };
say_status("READY=1\nSTATUS=ready");
sleep 1000 while 1;
"#;

fn says(rig: &Rig, text: &str) {
    poll_until(TIME, &format!("the program says {text}"), || {
        rig.property("own.service", "StatusText") == text
    });
}

/// The program is heard as the main process also by a manager that did not start it, and a signal to all processes of the
/// service reaches it once.
#[test]
fn a_program_of_its_own_namespace_is_heard_by_every_manager_and_hears_signals_once() {
    muster_lab::require!(Root, Cgroup2, File("/usr/bin/perl"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program"), PROGRAM).unwrap();
    let unit = "[Service]\nType=notify\nNotifyAccess=main\nPrivatePIDs=yes\n\
                ExecStart=/usr/bin/perl /lab/program\n";
    let rig = Rig::boot(|builder| {
        builder
            .unit("own.service", unit)
            .bind(folder.path(), "/lab")
    });
    rig.ok(&["start", "own.service"]);
    says(&rig, "ready");
    for (number, replace) in [None, Some(false), Some(true)].into_iter().enumerate() {
        match replace {
            None => {}
            Some(true) => upgrade(&rig),
            Some(false) => {
                let core = rig.core().unwrap();
                rig.kill(&core, Signal::KILL);
                rig.wait_for_another_core(&core, "a kill");
            }
        }
        let count = number + 1;
        rig.ok(&["kill", "--signal=USR1", "own.service"]);
        says(&rig, &format!("heard {count}"));
        // It comes through the process outside, behind whatever else that passes on.
        rig.ok(&["kill", "--kill-whom=main", "--signal=USR2", "own.service"]);
        says(&rig, &format!("counted {count}"));
    }
    rig.ok(&["stop", "own.service"]);
    assert_eq!(rig.property("own.service", "Result"), "success");
}
