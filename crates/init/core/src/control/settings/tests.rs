use proptest::prelude::*;

use super::*;

fn name(unit: &str) -> UnitName {
    UnitName::new(unit).unwrap()
}

fn text(unit: &str, settings: &[(&str, &str)]) -> Result<String, Fault> {
    let settings: Vec<(String, String)> = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    unit_text(&name(unit), &settings)
}

#[test]
fn settings_find_their_section() {
    let written = text(
        "a.service",
        &[
            ("Description", "x"),
            ("ExecStart", "/bin/true"),
            ("Service.Type", "exec"),
            ("Unit.After", "b.service"),
        ],
    );
    let lines: Vec<String> = written
        .unwrap()
        .lines()
        .skip(2)
        .map(str::to_owned)
        .collect();
    assert_eq!(
        lines,
        [
            "[Unit]",
            "Description=x",
            "",
            "[Service]",
            "ExecStart=/bin/true",
            "Type=exec",
            "",
            "[Unit]",
            "After=b.service",
        ]
    );
}

#[test]
fn what_a_unit_does_not_have_is_refused() {
    for setting in [
        ("Timer.OnCalendar", "daily"),
        ("Nonsense", "1"),
        ("Service.Nonsense", "1"),
        ("Bogus.Type", "exec"),
    ] {
        assert!(text("a.service", &[setting]).is_err(), "{setting:?}");
    }
    assert!(text("a.timer", &[("Timer.OnCalendar", "daily")]).is_ok());
}

#[test]
fn a_file_is_written_as_a_whole_and_for_nobody_else_to_write() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/c.conf");
    for text in ["first", "second, and longer", "x"] {
        write_whole(&path, text).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    for path in [path.as_path(), path.parent().unwrap()] {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "{}: {mode:o}", path.display());
    }
    assert_eq!(
        std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1
    );
}

proptest! {
    /// No value can bring in another setting, another section or a line of its own.
    #[test]
    fn a_value_stays_a_value(value in "[ -~\n\r\\\\\\[\\]=#;]{0,40}") {
        if let Ok(written) = text("a.service", &[("Description", &value), ("Type", "exec")]) {
            let mut found = muster_unit_file::diagnostic::Diagnostics::default();
            let file = name("a.service").as_shared().clone();
            let parsed = muster_unit_file::syntax::parse(written.as_bytes(), &file, &mut found);
            let entries: Vec<(&str, &str)> =
                parsed.entries.iter().map(|entry| (&*entry.section, &*entry.key)).collect();
            prop_assert_eq!(entries, [("Unit", "Description"), ("Service", "Type")]);
            prop_assert_eq!(&*parsed.entries[0].value, value.trim());
        }
    }
}
