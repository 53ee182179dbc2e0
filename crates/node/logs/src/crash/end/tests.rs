use super::*;

const UNIT: &str = "muster-native-33299ef5-ca7c-369d-aa0f-ddf797046b3b-1.service";

fn word(run: &'static str, message: &'static str) -> Fields {
    Fields::of(&[("UNIT", UNIT), ("INVOCATION_ID", run), ("MESSAGE", message)])
}

/// Takes words from the oldest to the newest, as they were said.
fn ends(words: &[Fields], limit: usize) -> Vec<End> {
    let mut ends = Ends::new(limit);
    for (time, fields) in words.iter().enumerate().rev() {
        if !ends.take(u64::try_from(time).expect("small"), fields) {
            break;
        }
    }
    ends.failed()
}

fn reasons(words: &[Fields]) -> Vec<String> {
    ends(words, 10).iter().map(End::reason).collect()
}

#[test]
fn systemds_words_tell_an_end() {
    let words = [
        word("one", "Started it."),
        Fields::of(&[
            ("UNIT", UNIT),
            ("INVOCATION_ID", "one"),
            (
                "MESSAGE",
                "x: Main process exited, code=exited, status=3/NOTIMPLEMENTED",
            ),
            ("EXIT_CODE", "exited"),
            ("EXIT_STATUS", "3"),
        ]),
        Fields::of(&[
            ("UNIT", UNIT),
            ("INVOCATION_ID", "one"),
            ("MESSAGE", "x: Failed with result 'exit-code'."),
            ("UNIT_RESULT", "exit-code"),
        ]),
        word("one", "x: Scheduled restart job, restart counter is at 1."),
        word("two", "x: Main process exited, code=dumped, status=11/SEGV"),
        word("two", "x: Failed with result 'core-dump'."),
    ];
    assert_eq!(
        reasons(&words),
        [
            "exit status 3/NOTIMPLEMENTED; result exit-code",
            "killed by signal 11/SEGV, core dumped; result core-dump",
        ]
    );
    let newest = ends(&words, 1);
    assert_eq!(newest.len(), 1);
    assert_eq!(newest[0].invocation.as_deref(), Some("two"));
    assert_eq!(newest[0].realtime, 5);
}

#[test]
fn musters_words_tell_an_end() {
    let words = [
        word("one", "The kernel killed a process of it for memory."),
        word("one", "Main process exited, code=killed, status=9."),
        word("one", "a.service failed with result 'oom-kill'."),
    ];
    assert_eq!(
        reasons(&words),
        ["killed by signal 9; out of memory; result oom-kill"]
    );
}

#[test]
fn an_end_on_request_is_no_failure() {
    let words = [
        word("one", "x: Main process exited, code=killed, status=15/TERM"),
        word(
            "two",
            "x: Main process exited, code=exited, status=0/SUCCESS",
        ),
        word(
            "three",
            "x: Control process exited, code=exited, status=1/FAILURE",
        ),
        word("four", "x: Deactivated successfully."),
    ];
    assert_eq!(reasons(&words), Vec::<String>::new());
}

#[test]
fn a_core_belongs_to_the_nearest_end_of_its_unit() {
    let core = Fields::of(&[
        ("COREDUMP_UNIT", UNIT),
        ("COREDUMP_EXE", "/usr/bin/prog"),
        ("COREDUMP_PID", "77"),
        ("COREDUMP_SIGNAL", "11"),
        ("COREDUMP_FILENAME", "/var/lib/core\n"),
        ("MESSAGE", "Process 77 (prog) of user 0 dumped core."),
    ]);
    let words = [
        word(
            "one",
            "x: Main process exited, code=exited, status=1/FAILURE",
        ),
        word("two", "x: Main process exited, code=dumped, status=11/SEGV"),
        core,
    ];
    assert_eq!(
        reasons(&words),
        [
            "exit status 1/FAILURE",
            "killed by signal 11/SEGV, core dumped; core of /usr/bin/prog process 77 signal 11 in /var/lib/core_",
        ]
    );
}

#[test]
fn runs_without_an_id_are_told_apart_by_their_ends() {
    let word = |message| Fields::of(&[("UNIT", UNIT), ("MESSAGE", message)]);
    let words = [
        word("x: Main process exited, code=exited, status=1/FAILURE"),
        word("x: Failed with result 'exit-code'."),
        word("x: Main process exited, code=exited, status=2/INVALIDARGUMENT"),
        word("x: Failed with result 'exit-code'."),
    ];
    assert_eq!(
        reasons(&words),
        [
            "exit status 1/FAILURE; result exit-code",
            "exit status 2/INVALIDARGUMENT; result exit-code",
        ]
    );
}
