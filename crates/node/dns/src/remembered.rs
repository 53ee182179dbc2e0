//! What the controller's servers said last, for the time when they say nothing. Pure.
//!
//! Addresses of instances outlive the controller, and so should their names.

use std::collections::{BTreeMap, VecDeque};

use crate::extension;
use crate::message::{self, Code, Query};
use crate::name::Name;
use crate::upstream::restore;

const MAX_ANSWERS: usize = 256;
const LONGEST: usize = 512;

/// A name, and the kind and class that are asked for.
type Key = (Name, [u8; 4]);

/// Answers, each under the question that it is for.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    answers: BTreeMap<Key, Vec<u8>>,
    /// The longest known is forgotten first.
    order: VecDeque<Key>,
}

fn key(query: &Query<'_>) -> Option<Key> {
    let kind = query.question().last_chunk::<4>()?;
    Some((query.name.clone(), *kind))
}

impl Remembered {
    /// A server of the controller has answered. Only what it knows itself is remembered; what it denies is forgotten.
    pub(crate) fn note(&mut self, query: &Query<'_>, answer: &[u8]) {
        let Some(key) = key(query) else {
            return;
        };
        let lasts = message::is_authoritative(answer)
            && message::code(answer) == Code::NoError as u8
            && !message::is_truncated(answer);
        let mut answer = answer.to_vec();
        extension::strip(&mut answer);
        if !lasts || answer.len() > LONGEST {
            if self.answers.remove(&key).is_some() {
                self.order.retain(|it| *it != key);
            }
            return;
        }
        if self.answers.insert(key.clone(), answer).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > MAX_ANSWERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }

    /// What was said to this question.
    pub(crate) fn recall(&self, query: &Query<'_>) -> Option<Vec<u8>> {
        let answer = self.answers.get(&key(query)?)?;
        Some(restore(answer.clone(), query))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::message::{Record, Transport};

    fn packet(name: &str, id: u8) -> Vec<u8> {
        let mut packet = vec![id, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        packet.extend(name.parse::<Name>().unwrap().wire());
        packet.extend([0, 1, 0, 1]);
        packet
    }

    fn answered(remembered: &mut Remembered, name: &str, code: Code) -> Vec<u8> {
        let packet = packet(name, 1);
        let query = Query::parse(&packet).unwrap();
        let address = Record::Address(IpAddr::from([172, 17, 0, 2]));
        let answer = query.answer(code, &[address], Transport::Udp, 5);
        remembered.note(&query, &answer);
        answer
    }

    fn recalled(remembered: &Remembered, name: &str) -> Option<Vec<u8>> {
        let packet = packet(name, 9);
        remembered.recall(&Query::parse(&packet).unwrap())
    }

    #[test]
    fn the_last_word_counts_under_the_askers_own_id() {
        let mut remembered = Remembered::default();
        let answer = answered(&mut remembered, "web", Code::NoError);
        let again = recalled(&remembered, "WEB").unwrap();
        assert_eq!((again[0], again.len()), (9, answer.len()));
        assert!(again.ends_with(&[172, 17, 0, 2]));
        assert_eq!(recalled(&remembered, "other"), None);
        answered(&mut remembered, "web", Code::NoSuchName);
        assert_eq!(recalled(&remembered, "web"), None, "it was denied since");
    }

    #[test]
    fn no_more_than_the_newest_are_kept() {
        let mut remembered = Remembered::default();
        for round in 0..2 {
            for number in 0..MAX_ANSWERS + 10 {
                answered(
                    &mut remembered,
                    &format!("h{number}-{round}"),
                    Code::NoError,
                );
            }
        }
        assert_eq!(remembered.answers.len(), MAX_ANSWERS);
        assert_eq!(remembered.order.len(), MAX_ANSWERS);
        assert!(recalled(&remembered, "h265-1").is_some());
        assert!(recalled(&remembered, "h9-1").is_none());
    }
}
