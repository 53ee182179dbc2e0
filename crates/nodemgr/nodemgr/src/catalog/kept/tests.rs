use std::os::unix::fs::PermissionsExt as _;

use super::*;

const WRITTEN: &str = "name: small\nimage: debian\n";

fn descriptions(folder: &Path) -> Descriptions {
    std::fs::write(folder.join("templates.yaml"), WRITTEN).unwrap();
    Descriptions {
        templates: vec![folder.join("templates.yaml")],
        mappings: Vec::new(),
        optional: Vec::new(),
        added: folder.join("added.json"),
        lock_file: folder.join("machines.lock"),
        lock: None,
    }
}

fn add(
    descriptions: &Descriptions,
    text: &str,
) -> Result<Vec<(String, Outcome)>, ChangeTemplatesError> {
    let name = Path::new("mine.yaml");
    let added = descriptions.add_templates(name, Format::Yaml, text.as_bytes(), false)?;
    let named = added.into_iter().map(|(name, it)| (name.to_string(), it));
    Ok(named.collect())
}

fn one(name: &str, outcome: Outcome) -> Vec<(String, Outcome)> {
    vec![(name.to_owned(), outcome)]
}

#[test]
fn what_is_added_is_kept_beside_files_and_replaced_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let descriptions = descriptions(folder.path());
    let text = "name: mine\nextends: small\ncpus: 2\nregion: null\nuserData: hunter2\n";
    assert_eq!(
        add(&descriptions, text).unwrap(),
        one("mine", Outcome::Added)
    );
    assert_eq!(
        add(&descriptions, text).unwrap(),
        one("mine", Outcome::Unchanged)
    );
    let catalog = descriptions.load().unwrap();
    assert!(catalog.is_added("mine") && !catalog.is_added("small"));
    let read = Template::read_all(
        Path::new("x"),
        Format::Yaml,
        text.as_bytes(),
        &Limits::default(),
    );
    let read = read.unwrap();
    assert_eq!(catalog.templates().get("mine").unwrap(), &read[0]);
    let mode = std::fs::metadata(&descriptions.added)
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o077, 0, "only its owner reads it");
    let other = "name: mine\ncpus: 4\n";
    assert_eq!(
        add(&descriptions, other).unwrap(),
        one("mine", Outcome::Replaced)
    );
    descriptions
        .remove_template("mine", Vec::new(), false)
        .unwrap();
    let unknown = descriptions.remove_template("mine", Vec::new(), false);
    assert!(matches!(unknown, Err(ChangeTemplatesError::Unknown(_))));
    let plain = descriptions.remove_template(PLAIN, Vec::new(), false);
    assert!(matches!(plain, Err(ChangeTemplatesError::BuiltIn(_))));
}

#[test]
fn what_a_file_has_is_never_shadowed() {
    let folder = tempfile::tempdir().unwrap();
    let descriptions = descriptions(folder.path());
    let refused = add(&descriptions, "name: small\ncpus: 1\n").unwrap_err();
    assert!(
        refused.to_string().contains("templates.yaml:1"),
        "{refused}"
    );
    let refused = descriptions.remove_template("small", Vec::new(), false);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("templates.yaml:1"), "{refused}");
    // A file that comes later with the same name is told, and what was added can be removed all the same.
    add(&descriptions, "name: mine\n").unwrap();
    let later = format!("{WRITTEN}---\nname: mine\n");
    std::fs::write(&descriptions.templates[0], later).unwrap();
    let twice = descriptions.load().unwrap_err().to_string();
    assert!(
        twice.contains("`mine`") && twice.contains("templates.yaml:4"),
        "{twice}"
    );
    descriptions
        .remove_template("mine", Vec::new(), false)
        .unwrap();
    assert!(!descriptions.load().unwrap().is_added("mine"));
}

#[test]
fn mistakes_are_told_as_those_of_files_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let descriptions = descriptions(folder.path());
    let bad = "name: mine\nimag: debian\n---\nname: other\nextends: smal\n";
    let written = folder.path().join("mine.yaml");
    std::fs::write(&written, bad).unwrap();
    let told = add(&descriptions, bad).unwrap_err().to_string();
    assert!(
        told.contains("mine.yaml:2") && told.contains("did you mean `image`"),
        "{told}"
    );
    let by_file = TemplateSet::load(std::slice::from_ref(&written), &Limits::default());
    let by_file = by_file.unwrap_err().to_string();
    let first = |text: &str| text.lines().nth(1).map(ToOwned::to_owned);
    let path = written.display().to_string();
    let by_file = first(&by_file).unwrap().replace(&path, "mine.yaml");
    assert_eq!(first(&told), Some(by_file), "the same words");
    let orphan = add(&descriptions, "name: other\nextends: smal\n").unwrap_err();
    let orphan = orphan.to_string();
    assert!(orphan.contains("did you mean `small`"), "{orphan}");
    let circle = "name: a\nextends: b\n---\nname: b\nextends: a\n";
    assert!(add(&descriptions, circle).is_err());
    assert!(matches!(
        add(&descriptions, "---\n"),
        Err(ChangeTemplatesError::Nothing(_))
    ));
    assert!(!descriptions.added.exists(), "nothing was written");
}

#[test]
fn one_that_somebody_needs_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let descriptions = descriptions(folder.path());
    add(&descriptions, "name: a\n---\nname: b\nextends: a\n").unwrap();
    let refused = descriptions
        .remove_template("a", Vec::new(), false)
        .unwrap_err();
    assert!(refused.to_string().contains("`b` extends it"), "{refused}");
    let by = vec!["the pool builders".to_owned()];
    let refused = descriptions.remove_template("b", by, false).unwrap_err();
    assert!(refused.to_string().contains("pool builders"), "{refused}");
    descriptions
        .remove_template("b", Vec::new(), false)
        .unwrap();
    descriptions
        .remove_template("a", Vec::new(), false)
        .unwrap();
}
