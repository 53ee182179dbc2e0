//! How a manager is ended.

use crate::rig::Site;

#[test]
fn a_manager_is_ended_and_its_machines_stay() {
    let mut site = Site::new();
    let machine = site.provision(&[]);
    let run = site.run(&["manager", "--stop"]).ok();
    assert!(run.stderr.contains("has ended"), "{run:?}");
    // It is gone, and none is started to be ended.
    site.run(&["manager", "--stop"])
        .refused(5, &["no node manager answers"]);
    // Nothing holds its database any more.
    site.start();
    assert_eq!(site.state(&machine), "running");
}
