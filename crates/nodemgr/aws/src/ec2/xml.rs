//! XML as EC2 writes it: elements and text, no more, and only so much of it.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::Event;

/// Elements inside each other, at most. EC2 has about ten.
const DEEPEST: usize = 32;
/// Elements of one answer, at most. An instance has about a hundred, and a page five hundred instances; images come without pages.
const MOST: usize = 500_000;

/// An element of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    text: String,
    children: Vec<Element>,
}

/// Why an answer cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadXmlError {
    /// It is not XML.
    #[error("it is not XML")]
    Syntax(#[source] quick_xml::Error),
    /// Something that EC2 never writes.
    #[error("it has {0}")]
    Unexpected(&'static str),
    /// More than can be meant.
    #[error("it has more than {limit} {what}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much there may be.
        limit: usize,
    },
}

impl Element {
    /// Reads a document: its outermost element.
    ///
    /// # Errors
    /// When it is not well-formed, has a document type or entities of its own, or is larger than any answer.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadXmlError> {
        Self::parse_at_most(bytes, MOST)
    }

    fn parse_at_most(bytes: &[u8], most: usize) -> Result<Self, ReadXmlError> {
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|_| ReadXmlError::Unexpected("bytes that are not UTF-8"))?;
        let mut reader = Reader::from_str(text);
        // What is open, from the outermost; the first is no element but holds the outermost one.
        let mut open = vec![Self::default()];
        let mut count = 0;
        loop {
            match reader.read_event().map_err(ReadXmlError::Syntax)? {
                Event::Start(tag) => {
                    count = counted(count, most)?;
                    if open.len() > DEEPEST {
                        return Err(ReadXmlError::TooMuch {
                            what: "elements inside each other",
                            limit: DEEPEST,
                        });
                    }
                    open.push(Self::named(tag.local_name().as_ref()));
                }
                Event::Empty(tag) => {
                    count = counted(count, most)?;
                    let element = Self::named(tag.local_name().as_ref());
                    innermost(&mut open)?.children.push(element);
                }
                Event::End(_) => {
                    let closed = open.pop().unwrap_or_default();
                    innermost(&mut open)?.children.push(closed);
                }
                Event::Text(part) => innermost(&mut open)?.text.push_str(&part),
                Event::CData(part) => innermost(&mut open)?.text.push_str(&part),
                Event::GeneralRef(entity) => {
                    let into = &mut innermost(&mut open)?.text;
                    if let Some(letter) = entity.resolve_char_ref().map_err(ReadXmlError::Syntax)? {
                        into.push(letter);
                        continue;
                    }
                    let known = resolve_xml_entity(&entity);
                    into.push_str(known.ok_or(ReadXmlError::Unexpected("an unknown entity"))?);
                }
                Event::DocType(_) => return Err(ReadXmlError::Unexpected("a document type")),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::Eof => break,
            }
        }
        let [document] = open.as_mut_slice() else {
            return Err(ReadXmlError::Unexpected("an element without an end"));
        };
        match document.children.len() {
            1 => Ok(document.children.remove(0)),
            _ => Err(ReadXmlError::Unexpected("not one outermost element")),
        }
    }

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Its name, without a namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its own text, without the space around it.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.trim()
    }

    /// The first element of a name in it.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first element of a name in it, where there is any.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let text = self.child(name)?.text();
        (!text.is_empty()).then_some(text)
    }

    /// The items of a list in it; none where there is no such list.
    pub fn items(&self, list: &str) -> impl Iterator<Item = &Self> {
        let items = self.child(list).map_or(&[][..], |list| &list.children);
        items.iter().filter(|child| child.name == "item")
    }
}

fn counted(count: usize, most: usize) -> Result<usize, ReadXmlError> {
    match count < most {
        true => Ok(count + 1),
        false => Err(ReadXmlError::TooMuch {
            what: "elements",
            limit: most,
        }),
    }
}

fn innermost(open: &mut [Element]) -> Result<&mut Element, ReadXmlError> {
    let none = ReadXmlError::Unexpected("an end without a beginning");
    open.last_mut().ok_or(none)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_lists_entities_and_namespaces_are_read() {
        let text = r#"<?xml version="1.0" encoding="UTF-8"?>
            <Answer xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
              <name> a &lt;b&gt; &#x41;&amp; </name><empty/>
              <set><item><id>1</id></item><item><id>2</id></item><other/></set>
            </Answer>"#;
        let answer = Element::parse(text.as_bytes()).unwrap();
        assert_eq!(answer.name(), "Answer");
        assert_eq!(answer.value("name"), Some("a <b> A&"));
        assert_eq!(answer.value("empty"), None);
        assert_eq!(answer.items("nothing").count(), 0);
        let ids: Vec<_> = answer
            .items("set")
            .filter_map(|it| it.value("id"))
            .collect();
        assert_eq!(ids, ["1", "2"]);
    }

    #[test]
    fn what_ec2_never_writes_is_refused() {
        for (text, why) in [
            ("", "not one outermost"),
            ("<a>", "without an end"),
            ("<a/><b/>", "not one outermost"),
            ("<a></b>", "not XML"),
            ("</a>", "not XML"),
            ("<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", "document type"),
            ("<a>&x;</a>", "unknown entity"),
            ("<a>&#xD800;</a>", "not XML"),
        ] {
            let error = Element::parse(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let deep = format!("{}{}", "<a>".repeat(40), "</a>".repeat(40));
        let error = Element::parse(deep.as_bytes()).unwrap_err();
        assert!(matches!(
            error,
            ReadXmlError::TooMuch { limit: DEEPEST, .. }
        ));
        let long = format!("<a>{}</a>", "<b/>".repeat(9));
        assert!(Element::parse_at_most(long.as_bytes(), 10).is_ok());
        let error = Element::parse_at_most(long.as_bytes(), 9).unwrap_err();
        assert!(matches!(error, ReadXmlError::TooMuch { limit: 9, .. }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Element::parse(&bytes);
        }

        #[test]
        fn nothing_like_xml_makes_it_panic(text in "[<>/&;#a-c \\[\\]!\"=?-]{0,80}") {
            let _ = Element::parse(text.as_bytes());
        }
    }
}
