//! Operators who do not wait: everything that `muster up` and `muster down` are interrupted by.

use muster_lab::program::{Process, Stream};
use rustix::process::Signal;

use crate::all_active;
use crate::rig::{Site, TIME};

/// What `up` tells, in order; it can be stopped after each.
const STEPS: [&str; 5] = [
    "making the certificate authority",
    "starting node main",
    "starting node second",
    "provisioning",
    "waiting for the Unit",
];

fn wait(process: &mut Process) -> (Option<i32>, String) {
    let status = process.wait(2 * TIME).expect("it ends");
    let said = process.text(Stream::Stdout) + &process.text(Stream::Stderr);
    (status.code(), said)
}

#[test]
fn an_up_that_is_killed_after_any_step_is_finished_by_the_next() {
    require_unit!();
    let site = Site::boot();
    let before = site.picture();
    for step in STEPS {
        let mut up = site.begin_up(&[]);
        up.wait_for_line(step, TIME).expect(step);
        site.kill_muster();
        up.wait(TIME).expect("it ends");
    }
    site.up(&[]);
    assert!(all_active(&site.instances()), "{:#?}", site.instances());
    // And `down`, which is in the middle of it when it dies.
    let mut down = site.begin(&["muster", "down"]);
    down.wait_for_line("stopping everything", TIME)
        .expect("it begins");
    site.kill_muster();
    down.wait(TIME).expect("it ends");
    site.down();
    site.assert_as(&before);
    // Each step once more, and this time `down` is what comes next.
    for step in STEPS {
        let mut up = site.begin_up(&[]);
        up.wait_for_line(step, TIME).expect(step);
        site.kill_muster();
        up.wait(TIME).expect("it ends");
        site.down();
        site.assert_as(&before);
    }
}

#[test]
fn two_at_once_and_one_that_is_interrupted_say_what_to_do() {
    require_unit!();
    let site = Site::boot();
    let before = site.picture();
    let mut up = site.begin_up(&[]);
    up.wait_for_line(STEPS[1], TIME).expect("it begins");
    for verb in ["up", "down"] {
        let refused = site.muster(&[verb]);
        assert_eq!(refused.status.code(), Some(3), "{}", refused.stderr);
        assert!(refused.stderr.contains("try again"), "{}", refused.stderr);
    }
    up.wait_for_line(STEPS[3], TIME).expect("it goes on");
    site.signal_muster(Signal::INT);
    let (code, said) = wait(&mut up);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("`muster up` goes on from here"), "{said}");

    // Both at once: one of them takes all away, the other one says so or finds nothing.
    let mut downs = [0, 1].map(|_| site.begin(&["muster", "down"]));
    let ends = downs.each_mut().map(wait);
    for (code, said) in &ends {
        assert!(matches!(code, Some(0 | 3)), "{said}");
    }
    assert!(
        ends.iter().any(|(_, said)| said.contains("is gone")),
        "{ends:?}"
    );
    site.assert_as(&before);
}

#[test]
fn ports_that_others_have_are_left_to_them() {
    require_unit!(Tool("python3"));
    let site = Site::boot();
    // The identity manager's, the controller's and the web service's usual ones, at all addresses.
    let listen = "import socket, time\n\
                  held = [socket.create_server(('0.0.0.0', port)) for port in (8090, 8093, 8080)]\n\
                  print('listening', flush=True)\n\
                  time.sleep(600)\n";
    let mut others = site.begin(&["python3", "-c", listen]);
    others.wait_for_line("listening", TIME).expect("it listens");
    let before = site.picture();
    site.up(&["--timeout", "50s"]);
    assert!(all_active(&site.instances()), "{:#?}", site.instances());
    site.down();
    site.assert_as(&before);
}
