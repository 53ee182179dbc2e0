use muster_template::{Template, TemplateSet};
use proptest::prelude::*;

use super::*;
use crate::{Mappings, Request, resolve};

const DIGEST_TEXT: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn resolved(template: &str) -> Resolved {
    let limits = Limits::default();
    let read = Template::read_all(Path::new("t"), Format::Yaml, template.as_bytes(), &limits);
    let set = TemplateSet::new(read.expect("valid"), &limits).expect("valid");
    let name = set.iter().next().map(|it| it.name().to_string());
    let request = Request::new(ProviderId::Aws);
    let name = name.expect("there is one");
    resolve(&set, &name, &Mappings::default(), &request).expect("it is there")
}

fn ami(id: &str) -> Pins {
    Pins::new([(Pin::Ami, id.to_owned())]).expect("it is an id")
}

#[test]
fn a_pin_holds_while_what_it_was_found_from_is_the_same() {
    let found = resolved("{name: a, image: x, region: eu-west-1, arch: amd64, cpus: 1}");
    let mut lock = LockFile::default();
    assert_eq!(lock.plan(LockUse::Keep, &found), Ok(Plan::Find));
    let pins = ami("ami-0a116fa7c861dd5f9");
    assert!(lock.pin(pin_for(&found), pins.clone()));
    assert!(!lock.pin(pin_for(&found), pins.clone()));
    assert_eq!(
        lock.plan(LockUse::Keep, &found),
        Ok(Plan::Use(pins.clone()))
    );
    assert_eq!(
        lock.plan(LockUse::Frozen, &found),
        Ok(Plan::Use(pins.clone()))
    );
    assert_eq!(lock.plan(LockUse::Update, &found), Ok(Plan::Find));
    // More processors need no other image.
    let larger = resolved("{name: a, image: x, region: eu-west-1, arch: amd64, cpus: 2}");
    assert_eq!(lock.plan(LockUse::Frozen, &larger), Ok(Plan::Use(pins)));
    assert_eq!(lock.stale([&larger]), []);
}

#[test]
fn a_stale_pin_is_never_used_and_is_reported() {
    let before = resolved("{name: a, image: x, region: eu-west-1}");
    let mut lock = LockFile::default();
    lock.pin(pin_for(&before), ami("ami-0a116fa7c861dd5f9"));
    let key = pin_for(&before).key;
    let after = resolved("{name: a, image: y, region: eu-west-1}");
    assert_eq!(lock.plan(LockUse::Keep, &after), Ok(Plan::Find));
    let refused = lock.plan(LockUse::Frozen, &after);
    assert_eq!(refused, Err(FrozenError::Stale(key.clone())));
    assert_eq!(lock.stale([&after]), [Stale::Changed(key.clone())]);
    assert_eq!(lock.stale([]), [Stale::Unused(key.clone())]);
    let elsewhere = resolved("{name: a, image: x, region: eu-west-2}");
    let refused = lock
        .plan(LockUse::Frozen, &elsewhere)
        .expect_err("another region");
    assert_eq!(
        refused.to_string(),
        "nothing is pinned for template a for aws, in eu-west-2, and the lock file must not change"
    );
    assert!(lock.pin(pin_for(&after), ami("ami-12345678")));
    assert_eq!((lock.len(), lock.stale([&after])), (1, Vec::new()));
    assert!(lock.remove(&key) && !lock.remove(&key) && lock.is_empty());
}

#[test]
fn what_is_pinned_is_used_and_does_not_make_itself_stale() {
    let found = resolved("{name: a, extra: {ami_lookup: {ssm: /x}}}");
    let mut lock = LockFile::default();
    lock.pin(pin_for(&found), ami("ami-12345678"));
    let Ok(Plan::Use(pins)) = lock.plan(LockUse::Frozen, &found) else {
        panic!("it is pinned");
    };
    let pinned = found.pinned(&pins);
    let it = pinned.get("ami").expect("it is set");
    assert_eq!(
        (it.value.as_str(), &it.provenance),
        (Some("ami-12345678"), &Provenance::Lock)
    );
    assert_eq!(lock.plan(LockUse::Frozen, &pinned), Ok(Plan::Use(pins)));
}

#[test]
fn a_pin_of_what_only_this_host_has_holds_where_nothing_may_change() {
    let found = resolved("{name: a, image: app}");
    let mut lock = LockFile::default();
    let local = |digit: &str| {
        let image = format!("app@sha256:{}", digit.repeat(64));
        Pins::new([(Pin::LocalImage, image)]).expect("it is an id")
    };
    assert!(lock.pin(pin_for(&found), local("1")));
    let frozen = lock.plan(LockUse::Frozen, &found);
    assert_eq!(frozen, Ok(Plan::Use(local("1"))));
    // Whoever builds it again wants what he has built.
    assert_eq!(lock.plan(LockUse::Keep, &found), Ok(Plan::Find));
    assert!(lock.pin(pin_for(&found), local("2")), "and that is pinned");
    let text = lock.to_text();
    assert!(text.contains("\n  local_image: \"app@sha256:2"), "{text}");
    let again = LockFile::parse(Path::new("l"), text.as_bytes(), &Limits::default());
    assert_eq!(again.as_ref(), Ok(&lock));
    let pinned = found.pinned(&local("2"));
    let image = pinned.get(IMAGE).and_then(|it| it.value.as_str());
    assert_eq!(
        image,
        Some(format!("app@sha256:{}", "2".repeat(64)).as_str())
    );
}

#[test]
fn what_is_to_be_pinned_is_kept_with_an_order() {
    let found = resolved("{name: a, image: x, region: eu-west-1, arch: amd64}");
    let found_for = pin_for(&found);
    let text = serde_json::to_string(&found_for).expect("it can be written");
    assert_eq!(serde_json::from_str::<PinFor>(&text).ok(), Some(found_for));
    assert!(serde_json::from_str::<PinFor>(&text.replace("sha256:", "md5:")).is_err());
}

#[test]
fn only_what_names_one_thing_for_ever_is_pinned() {
    let image = format!("docker.io/library/ubuntu@{DIGEST_TEXT}");
    let long = format!("sha512:{}", "ab".repeat(64));
    for (pin, value, good) in [
        (Pin::Image, image.as_str(), true),
        (Pin::Digest, DIGEST_TEXT, true),
        (Pin::Ami, "ami-12345678", true),
        (Pin::Image, "ubuntu:24.04", false),
        (Pin::Image, DIGEST_TEXT, false),
        (Pin::Ami, "ami-1", false),
        (Pin::Digest, "sha256:", false),
        (Pin::Digest, long.as_str(), true),
        (Pin::Digest, &long[1..], false),
        (Pin::LocalDigest, DIGEST_TEXT, true),
        (Pin::LocalImage, "app", false),
    ] {
        assert_eq!(
            Pins::new([(pin, value.to_owned())]).is_ok(),
            good,
            "{value}"
        );
    }
    assert_eq!(Pins::new([]), Err(BadPin::Nothing));
}

#[test]
fn the_text_is_sorted_and_has_one_value_on_a_line() {
    let mut lock = LockFile::default();
    assert!(lock.to_text().ends_with("version: 1\npins: []\n"));
    lock.pin(pin_for(&resolved("{name: b}")), ami("ami-12345678"));
    lock.pin(
        pin_for(&resolved("{name: a, arch: arm64, region: eu-west-1}")),
        ami("ami-12345678"),
    );
    let text = lock.to_text();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "version: 1",
            "pins:",
            "- template: \"a\"",
            "  provider: \"aws\"",
            "  arch: \"arm64\"",
            "  region: \"eu-west-1\"",
            "  inputs: \"sha256:3f43d19b679f9b4255ab347a36f46cc6b83f0e483bc07e9f90ff90badeb518bf\"",
            "  ami: \"ami-12345678\"",
            "- template: \"b\"",
            "  provider: \"aws\"",
            "  inputs: \"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\"",
            "  ami: \"ami-12345678\"",
        ]
    );
    assert_eq!(
        LockFile::parse(Path::new("l"), text.as_bytes(), &Limits::default()),
        Ok(lock)
    );
}

#[test]
fn what_is_no_lock_file_is_refused_with_its_place() {
    let parse = |text: &str| {
        let found = LockFile::parse(Path::new("l"), text.as_bytes(), &Limits::default());
        let problems = found.expect_err(text);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        parse("pins: []"),
        ["l:1:1: version: this is not a lock file of version 1"]
    );
    assert_eq!(
        parse("version: 2"),
        ["l:1:1: version: this is not a lock file of version 1"]
    );
    let pin = format!("{{template: a, provider: aws, inputs: '{DIGEST_TEXT}', ami: ami-12345678}}");
    assert_eq!(
        parse(&format!("version: 1\npins:\n- {pin}\n- {pin}")),
        ["l:4:3: pins[1]: is there twice"]
    );
    assert_eq!(
        parse("version: 1\npins:\n- {template: a b, inputs: x, ami: ami-1, regoin: x, arch: 1}"),
        [
            "l:3:3: pins[0]: the required key `provider` is missing",
            "l:3:3: pins[0]: ami is not an image's id: `ami-` and 8 or 17 hexadecimal digits",
            "l:3:14: pins[0].template: a template's name consists of ASCII letters, digits, `-`, `_` and `.`, and begins with a \
             letter or a digit",
            "l:3:27: pins[0].inputs: is not a hash: `sha256:` and 64 hexadecimal digits",
            "l:3:42: pins[0].regoin: unknown key, expected one of template, provider, arch, region, inputs, ami, digest, image, \
             local_digest, local_image; did you mean `region`?",
            "l:3:59: pins[0].arch: expected text, found a number",
        ]
    );
}

#[test]
fn a_file_is_replaced_whole_and_one_that_is_not_there_is_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("muster.lock");
    let limits = Limits::default();
    assert_eq!(
        LockFile::load(&path, &limits).expect("empty"),
        LockFile::default()
    );
    let mut lock = LockFile::default();
    lock.pin(pin_for(&resolved("{name: a}")), ami("ami-12345678"));
    lock.save(&path).expect("it can be written");
    assert_eq!(LockFile::load(&path, &limits).expect("valid"), lock);
    let files = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(files, 1, "nothing is left beside it");
    std::fs::write(&path, "version: 1\npins: 7").expect("written");
    let error = LockFile::load(&path, &limits)
        .expect_err("no list")
        .to_string();
    assert!(
        error.ends_with("muster.lock:2:7: pins: expected a list, found a number"),
        "{error}"
    );
    assert!(lock.save(&folder.path().join("none/x")).is_err());
}

proptest! {
    #[test]
    fn a_lock_file_comes_back_from_its_text(
        entries in proptest::collection::vec(("[a-z0-9]{1,5}", proptest::option::of("[ -~é]{1,8}"), 0_u32..9), 0..6),
    ) {
        let mut lock = LockFile::default();
        for (template, region, id) in entries {
            let key = LockKey {
                template: template.parse().expect("a name"),
                provider: ProviderId::Aws,
                arch: (id % 2 == 0).then_some(Arch::Amd64),
                region,
            };
            let entry = Entry { inputs: Inputs([7; 32]), pins: ami(&format!("ami-{id:08x}")) };
            lock.entries.insert(key, entry);
        }
        let text = lock.to_text();
        let read = LockFile::parse(Path::new("l"), text.as_bytes(), &Limits::default());
        prop_assert_eq!(read.as_ref(), Ok(&lock));
        prop_assert_eq!(read.map(|it| it.to_text()), Ok(text));
    }
}
