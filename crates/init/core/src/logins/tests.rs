//! Records, as the C library would read them.

use super::*;

const NOW: i64 = 1_700_000_000_000_007;

/// A machine that has both files.
fn machine() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for path in [UTMP, WTMP] {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, b"").unwrap();
    }
    root
}

fn login(id: &str, mode: UtmpMode, pid: u32) -> Login<'_> {
    Login {
        id,
        mode,
        terminal: Some("/dev/tty7"),
        user: "somebody",
        pid,
    }
}

/// Kind, pid, identifier, line and user of each record.
fn records(root: &Path, path: &str) -> Vec<(u16, u32, String, String, String)> {
    let bytes = std::fs::read(root.join(path)).unwrap();
    assert_eq!(bytes.len() % SIZE, 0);
    let text = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.trim_end_matches('\0').to_owned()
    };
    let read = |bytes: &[u8]| {
        let record = Record(bytes.try_into().unwrap());
        let pid = u32::from_ne_bytes(bytes[PID..PID + 4].try_into().unwrap());
        let (id, line, user) = (&bytes[ID], &bytes[LINE], &bytes[USER]);
        (record.kind(), pid, text(id), text(line), text(user))
    };
    bytes.chunks(SIZE).map(read).collect()
}

fn row(kind: Kind, pid: u32, id: &str, user: &str) -> (u16, u32, String, String, String) {
    let (id, user) = (id.to_owned(), user.to_owned());
    (kind as u16, pid, id, "tty7".to_owned(), user)
}

#[test]
fn a_record_is_as_large_as_the_c_librarys() {
    assert_eq!(SIZE, size_of::<libc::utmpx>());
    assert_eq!(LINE.start, std::mem::offset_of!(libc::utmpx, ut_line));
    assert_eq!(ID.start, std::mem::offset_of!(libc::utmpx, ut_id));
    assert_eq!(USER.start, std::mem::offset_of!(libc::utmpx, ut_user));
    assert_eq!(TERMINATION, std::mem::offset_of!(libc::utmpx, ut_exit));
    assert_eq!(SESSION, std::mem::offset_of!(libc::utmpx, ut_session));
    assert_eq!(SECONDS, std::mem::offset_of!(libc::utmpx, ut_tv));
}

#[test]
fn what_is_so_now_is_there_once_and_what_was_is_there_too() {
    let root = machine();
    let root = root.path();
    begin(root, &login("tty7", UtmpMode::User, 70), NOW).unwrap();
    begin(root, &login("8", UtmpMode::Init, 80), NOW).unwrap();
    let current = [
        row(Kind::User, 70, "tty7", "somebody"),
        row(Kind::Init, 80, "8", ""),
    ];
    assert_eq!(records(root, UTMP), current);
    end(root, "tty7", 70, ExitStatus::Code(3), NOW).unwrap();
    assert_eq!(records(root, UTMP)[0], row(Kind::Dead, 70, "tty7", ""));
    begin(root, &login("long-tty7", UtmpMode::Login, 71), NOW).unwrap();
    let current = [
        row(Kind::Login, 71, "tty7", ""),
        row(Kind::Init, 80, "8", ""),
    ];
    assert_eq!(records(root, UTMP), current);
    let kinds: Vec<u16> = records(root, WTMP).iter().map(|row| row.0).collect();
    assert_eq!(kinds, [5, 6, 7, 5, 8, 5, 6]);
    let bytes = std::fs::read(root.join(WTMP)).unwrap();
    let seconds = &bytes[SECONDS..SECONDS + 4];
    assert_eq!(seconds, 1_700_000_000u32.to_ne_bytes());
    let dead = &bytes[4 * SIZE..5 * SIZE];
    assert_eq!(dead[TERMINATION..TERMINATION + 4], [0, 0, 3, 0]);
}

#[test]
fn what_the_program_or_the_next_one_has_written_stays() {
    let root = machine();
    let root = root.path();
    begin(root, &login("a", UtmpMode::User, 7), NOW).unwrap();
    begin(root, &login("a", UtmpMode::Init, 7), NOW).unwrap();
    assert_eq!(records(root, UTMP), [row(Kind::User, 7, "a", "somebody")]);
    begin(root, &login("a", UtmpMode::Init, 8), NOW).unwrap();
    end(root, "a", 7, ExitStatus::Signal(15), NOW).unwrap();
    assert_eq!(records(root, UTMP), [row(Kind::Init, 8, "a", "")]);
}

#[test]
fn what_was_cut_off_is_written_over_and_nothing_is_written_where_nobody_wants_it() {
    let root = machine();
    std::fs::write(root.path().join(UTMP), [5; 100]).unwrap();
    begin(root.path(), &login("a", UtmpMode::Init, 7), NOW).unwrap();
    assert_eq!(records(root.path(), UTMP), [row(Kind::Init, 7, "a", "")]);
    let empty = tempfile::tempdir().unwrap();
    begin(empty.path(), &login("a", UtmpMode::Init, 7), NOW).unwrap();
    end(empty.path(), "a", 7, ExitStatus::Code(0), NOW).unwrap();
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}
