//! The node's id, from the text of its file.

use muster_api::domain::{InvalidValue, NodeId};

/// Why a text is not a node id.
#[derive(Debug, thiserror::Error)]
pub enum NodeIdProblem {
    /// Nothing is in the file, or systemd's mark that the first boot has not happened.
    #[error("it holds no id yet; write one with `systemd-machine-id-setup`, or a name of your own")]
    Empty,
    /// Thirty-two zeros, which is what an image has that was prepared for copying.
    #[error(
        "it holds only zeros; write an id with `systemd-machine-id-setup`, or a name of your own"
    )]
    Zeros,
    /// An id that cannot stand in a certificate's SPIFFE name.
    #[error("the id holds {character:?}; a node id is made of A-Z a-z 0-9 . - _")]
    Character {
        /// The first such character.
        character: char,
    },
    /// An id that breaks another rule.
    #[error("the id cannot be used")]
    Invalid(#[source] InvalidValue),
}

/// Reads the id: the first line, without the space around it.
pub(crate) fn parse(text: &str) -> Result<NodeId, NodeIdProblem> {
    let id = text.trim_start().lines().next().unwrap_or_default().trim();
    if id.is_empty() || id == "uninitialized" {
        return Err(NodeIdProblem::Empty);
    }
    if id.bytes().all(|byte| byte == b'0') {
        return Err(NodeIdProblem::Zeros);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if let Some(character) = id.chars().find(|c| !fits(*c)) {
        return Err(NodeIdProblem::Character { character });
    }
    NodeId::new(id).map_err(NodeIdProblem::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_ids_and_names_are_taken() {
        for (text, id) in [
            (
                "3d1219c7c4c5404aaa1f6d2a48adfda4\n",
                "3d1219c7c4c5404aaa1f6d2a48adfda4",
            ),
            ("\n  node-1.lab_2 \nrest\n", "node-1.lab_2"),
        ] {
            assert_eq!(parse(text).unwrap().as_str(), id);
        }
    }

    #[test]
    fn what_is_no_id_says_how_to_make_one() {
        for text in ["", " \n", "uninitialized\n"] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, NodeIdProblem::Empty), "{text:?}: {error}");
            assert!(error.to_string().contains("systemd-machine-id-setup"));
        }
        assert!(matches!(parse(&"0".repeat(32)), Err(NodeIdProblem::Zeros)));
        for (text, bad) in [("a/b", '/'), ("node 1", ' '), ("nöde", 'ö'), ("a\0", '\0')] {
            match parse(text) {
                Err(NodeIdProblem::Character { character }) => assert_eq!(character, bad),
                other => panic!("{text:?}: {other:?}"),
            }
        }
        assert!(matches!(parse(".."), Err(NodeIdProblem::Invalid(_))));
        assert!(matches!(
            parse(&"x".repeat(500)),
            Err(NodeIdProblem::Invalid(_))
        ));
    }
}
