use proptest::prelude::*;
use serde_json::json;

use super::*;

const TEXT: &str = "\
# An example.
#
# With two paragraphs.
interface io.example-site.Thing

# How it is.
type State (up, down, not_known)

type Row (
  # Its name.
  name: string,
  state: State,
  parts: []Row,
  limits: [string]?int,
  extra: ?object,
  inner: (a: bool, b: float)
)

# Lists them.
method List(state: ?State) -> (rows: []Row)

method Ping() -> ()

error Missing (name: string)
";

#[test]
fn a_description_is_printed_as_it_was_read() {
    let interface = Interface::parse(TEXT).unwrap();
    assert_eq!(interface.to_string(), TEXT);
    assert_eq!(interface.methods().count(), 2);
}

#[test]
fn spaces_and_comments_may_stand_anywhere() {
    let text =
        "interface a.b#x\ntype  T(a:int,# later\n\n b : ? [ ] string)error E method M()->(x:any)";
    let interface = Interface::parse(text).unwrap();
    let printed = interface.to_string();
    assert_eq!(Interface::parse(&printed).unwrap(), interface, "{printed}");
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, line, words) in [
        ("", 1, "`interface`"),
        ("interface thing", 1, "the name of an interface"),
        ("interface a.-b", 1, "the name of an interface"),
        ("interface a.b\ntype t (a: int)", 2, "capital"),
        ("interface a.b\n\ntype T (a: int, b)", 3, "some fields"),
        ("interface a.b\ntype T (a: int, a: int)", 2, "twice"),
        ("interface a.b\ntype T (a: ??int)", 2, "twice"),
        ("interface a.b\ntype T (a: U)", 2, "U"),
        (
            "interface a.b\nerror E ()\ntype E (a: int)",
            3,
            "described twice",
        ),
        (
            "interface a.b\nmethod M(a, b) -> ()",
            2,
            "fields with types",
        ),
        ("interface a.b\nmethod M() (a: int)", 2, "`->`"),
        ("interface a.b\ntype T (a_: int)", 2, "field"),
        ("interface a.b\ntype T (a: int", 2, "`,` or `)`"),
        ("interface a.b\ntype T {", 2, "character"),
    ] {
        let error = Interface::parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.what.contains(words), "{text}: {error}");
    }
}

#[test]
fn types_that_nest_without_end_are_refused() {
    for inner in ["[]", "(a: ", "?[]"] {
        let text = format!("interface a.b\ntype T (a: {}", inner.repeat(100_000));
        assert!(Interface::parse(&text).unwrap_err().what.contains("deep"));
    }
}

#[test]
fn values_are_held_against_types() {
    let interface = Interface::parse(TEXT).unwrap();
    let row = json!({
        "name": "x", "state": "up", "limits": {"a": 1, "b": null},
        "parts": [{"name": "y", "state": "down", "parts": [], "limits": {}, "inner": {"a": true, "b": 1}}],
        "extra": {"any": [1]}, "inner": {"a": false, "b": 0.5},
    });
    interface.check_type("Row", &row).unwrap();
    interface
        .check_reply("List", &json!({"rows": [row]}))
        .unwrap();
    interface.check_call("List", &json!({})).unwrap();
    interface
        .check_error("Missing", &json!({"name": "x"}))
        .unwrap();
    let wrong = |path: &[&str], value: serde_json::Value| {
        let mut changed = row.clone();
        let place = path
            .iter()
            .fold(&mut changed, |at, key| match key.parse::<usize>() {
                Ok(index) => &mut at[index],
                Err(_) => &mut at[*key],
            });
        *place = value;
        interface
            .check_type("Row", &changed)
            .unwrap_err()
            .path
            .to_string()
    };
    assert_eq!(wrong(&["name"], json!(1)), "Row.name");
    assert_eq!(wrong(&["name"], json!(null)), "Row.name");
    assert_eq!(wrong(&["state"], json!("sideways")), "Row.state");
    assert_eq!(
        wrong(&["parts", "0", "inner", "a"], json!("x")),
        "Row.parts[0].inner.a"
    );
    assert_eq!(wrong(&["limits", "a"], json!(1.5)), "Row.limits[a]");
    assert_eq!(wrong(&["stranger"], json!(1)), "Row.stranger");
    assert!(interface.check_call("Lost", &json!({})).is_err());
}

fn word(first: &'static str) -> impl Strategy<Value = Box<str>> {
    (first, "[a-z0-9]{0,4}").prop_map(|(first, rest)| format!("{first}{rest}").into())
}

fn docs() -> impl Strategy<Value = Vec<Box<str>>> {
    let line = "[!-~]{0,3}( [!-~]{1,3})?".prop_map(|line| line.trim_end().into());
    prop::collection::vec(line, 0..2)
}

fn described() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        Just(Type::Bool),
        Just(Type::Int),
        Just(Type::Float),
        Just(Type::String),
        Just(Type::Object),
        Just(Type::Any),
        Just(Type::Named("Known".into())),
        prop::collection::btree_set(word("[a-z]"), 1..3)
            .prop_map(|w| Type::Enum(w.into_iter().collect())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|t| Type::Array(Box::new(t))),
            inner.clone().prop_map(|t| Type::Map(Box::new(t))),
            inner.clone().prop_map(|t| match t {
                Type::Optional(_) => t,
                t => Type::Optional(Box::new(t)),
            }),
            fields_of(inner).prop_map(Type::Struct),
        ]
    })
}

fn fields_of(of: impl Strategy<Value = Type>) -> impl Strategy<Value = Vec<Field>> {
    prop::collection::btree_map(word("[a-z]"), (docs(), of), 0..4).prop_map(|fields| {
        let field = |(name, (docs, of))| Field { docs, name, of };
        fields.into_iter().map(field).collect()
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(
        docs_before in docs(),
        members in prop::collection::btree_map(word("[A-J]"), (docs(), fields_of(described()), fields_of(described()), 0..3), 0..5),
    ) {
        let known = Member {
            docs: Vec::new(),
            name: "Known".into(),
            kind: MemberKind::Type(Type::Enum(vec!["x".into()])),
        };
        let members = members.into_iter().map(|(name, (docs, a, b, kind))| Member {
            docs,
            name,
            kind: match kind {
                0 => MemberKind::Type(Type::Struct(a)),
                1 => MemberKind::Error(a),
                _ => MemberKind::Method { input: a, output: b },
            },
        });
        let interface = Interface {
            docs: docs_before,
            name: "io.example.Made".into(),
            members: members.chain([known]).collect(),
        };
        let text = interface.to_string();
        prop_assert_eq!(Interface::parse(&text), Ok(interface), "{}", text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "(interface a.b)?[ \n#a-zA-Z():,?.\\[\\]>-]{0,60}") {
        let _ = Interface::parse(&text);
    }
}
