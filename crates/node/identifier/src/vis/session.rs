//! What one connection to the server has asked and been told. No socket, no clock.

use std::collections::BTreeMap;

use muster_api::domain::SubjectId;
use serde_json::Value;

use crate::config::VisConfig;
use crate::identity::{self, SystemInfo};

use super::message::{self, Answer, Incoming, ReadMessageError, Refusal, texts};

/// What is asked, each once per connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// Asked before the subjects themselves: what changes in between is not missed.
    Follow,
    SystemId,
    UnitModel,
    Subjects,
}

impl Question {
    const ALL: [Self; 4] = [
        Self::Follow,
        Self::SystemId,
        Self::UnitModel,
        Self::Subjects,
    ];

    fn id(self) -> &'static str {
        match self {
            Self::Follow => "1",
            Self::SystemId => "2",
            Self::UnitModel => "3",
            Self::Subjects => "4",
        }
    }

    fn signal(self, config: &VisConfig) -> &str {
        match self {
            Self::Follow | Self::Subjects => &config.subjects_signal,
            Self::SystemId => &config.system_id_signal,
            Self::UnitModel => &config.unit_model_signal,
        }
    }
}

/// What a message has brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The device is known, once per connection.
    System(SystemInfo),
    /// For whom the device works, and how many entries could not be subjects.
    Subjects(Vec<SubjectId>, usize),
}

/// Why a connection is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error("the VIS server refused to tell {signal}")]
    Refused {
        signal: String,
        #[source]
        source: Refusal,
    },
    #[error("the VIS server's value of {signal} cannot be used")]
    Unusable {
        signal: String,
        #[source]
        source: identity::InvalidText,
    },
    #[error("a message of the VIS server is not understood")]
    NotUnderstood(#[source] ReadMessageError),
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Session<'a> {
    config: &'a VisConfig,
    open: BTreeMap<&'static str, Question>,
    subscription: Option<String>,
    system_id: Option<String>,
    model: Option<(String, String)>,
}

impl<'a> Session<'a> {
    pub(super) fn new(config: &'a VisConfig) -> Self {
        Self {
            config,
            open: Question::ALL
                .into_iter()
                .map(|question| (question.id(), question))
                .collect(),
            subscription: None,
            system_id: None,
            model: None,
        }
    }

    /// What to send when the connection is made, in this order.
    pub(super) fn requests(&self) -> Vec<String> {
        let request = |question: Question| {
            let (id, signal) = (question.id(), question.signal(self.config));
            match question {
                Question::Follow => message::subscribe(id, signal),
                _ => message::get(id, signal),
            }
        };
        Question::ALL.into_iter().map(request).collect()
    }

    /// Whether everything asked has been answered.
    pub(super) fn settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Takes a message of the server.
    pub(super) fn receive(&mut self, text: &str) -> Result<Option<News>, SessionError> {
        let signal = |id: &str| match self.open.get(id) {
            Some(question) => Some(question.signal(self.config).to_owned()),
            None => Some(self.config.subjects_signal.clone()),
        };
        match message::read(text, signal).map_err(SessionError::NotUnderstood)? {
            Incoming::Answer { request, result } => {
                let Some(question) = self.open.remove(request.as_str()) else {
                    return Ok(None);
                };
                self.answered(question, result)
            }
            Incoming::Changed {
                subscription,
                result,
            } if self.subscription.as_deref() == Some(subscription.as_str()) => {
                self.subjects(result).map(Some)
            }
            Incoming::Changed { .. } | Incoming::Other => Ok(None),
        }
    }

    fn answered(
        &mut self,
        question: Question,
        result: Result<Answer, Refusal>,
    ) -> Result<Option<News>, SessionError> {
        match (question, result) {
            (Question::Follow, Ok(Answer::Subscribed { subscription })) => {
                self.subscription = Some(subscription);
                Ok(None)
            }
            (Question::SystemId, Ok(Answer::Value(value))) => {
                let id = self.text(question, &value, identity::name)?;
                self.system_id = Some(id);
                Ok(self.system())
            }
            // A server need not know a model.
            (Question::UnitModel, Err(_)) => {
                self.model = Some(Default::default());
                Ok(self.system())
            }
            (Question::UnitModel, Ok(Answer::Value(value))) => {
                let model = self.text(question, &value, identity::model)?;
                self.model = Some(model);
                Ok(self.system())
            }
            (Question::Subjects, Ok(Answer::Value(value))) => self.subjects(Ok(value)).map(Some),
            (question, Err(source)) => Err(self.refused(question, source)),
            // The answer to another action under a request's id.
            (_, Ok(_)) => Err(SessionError::NotUnderstood(ReadMessageError::Incomplete {
                missing: "the action that was asked for",
            })),
        }
    }

    fn text<T>(
        &self,
        question: Question,
        value: &Value,
        parse: impl FnOnce(&str) -> Result<T, identity::InvalidText>,
    ) -> Result<T, SessionError> {
        let (found, _) = texts(value);
        parse(found.first().copied().unwrap_or_default()).map_err(|source| SessionError::Unusable {
            signal: question.signal(self.config).to_owned(),
            source,
        })
    }

    fn subjects(&self, result: Result<Value, Refusal>) -> Result<News, SessionError> {
        let value = result.map_err(|refusal| self.refused(Question::Subjects, refusal))?;
        let (found, others) = texts(&value);
        let (subjects, left_out) = identity::subjects(found);
        Ok(News::Subjects(subjects, left_out + others))
    }

    fn system(&self) -> Option<News> {
        let (system_id, (unit_model, version)) = (self.system_id.clone()?, self.model.clone()?);
        Some(News::System(SystemInfo {
            system_id,
            unit_model,
            version,
        }))
    }

    fn refused(&self, question: Question, source: Refusal) -> SessionError {
        SessionError::Refused {
            signal: question.signal(self.config).to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::IdentifierConfig;

    fn config() -> VisConfig {
        let params = json!({ "visServer": "ws://ivi", "insecure": true });
        match IdentifierConfig::parse("vis", &params).unwrap() {
            IdentifierConfig::Vis(config) => config,
            IdentifierConfig::File(_) => unreachable!("vis was asked for"),
        }
    }

    fn answer(id: &str, value: &Value) -> String {
        json!({ "action": "get", "requestId": id, "value": value }).to_string()
    }

    fn refuse(action: &str, id: &str) -> String {
        json!({ "action": action, "requestId": id, "error": { "number": 404 } }).to_string()
    }

    fn names(subjects: &[SubjectId]) -> Vec<&str> {
        subjects.iter().map(SubjectId::as_str).collect()
    }

    #[test]
    fn the_change_is_followed_before_the_first_look() {
        let config = config();
        let session = Session::new(&config);
        let requests: Vec<Value> = session
            .requests()
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        assert_eq!(requests.len(), 4);
        assert_eq!(requests[0]["action"], "subscribe");
        assert_eq!(requests[0]["path"], config.subjects_signal.as_str());
        assert_eq!(requests[3]["path"], config.subjects_signal.as_str());
    }

    #[test]
    fn answers_in_any_order_make_an_identity() {
        let config = config();
        let mut session = Session::new(&config);
        assert_eq!(session.receive(&answer("3", &json!("m;1"))).unwrap(), None);
        let Some(News::Subjects(subjects, 1)) = session
            .receive(&answer("4", &json!(["b", "a", 5])))
            .unwrap()
        else {
            panic!("no subjects");
        };
        assert_eq!(names(&subjects), ["a", "b"]);
        let system = session
            .receive(&answer("2", &json!({ &config.system_id_signal: "VIN7" })))
            .unwrap();
        let expected = SystemInfo {
            system_id: "VIN7".into(),
            unit_model: "m".into(),
            version: "1".into(),
        };
        assert_eq!(system, Some(News::System(expected)));
        assert!(!session.settled());
        let subscribed = json!({ "action": "subscribe", "requestId": "1", "subscriptionId": "s9" });
        assert_eq!(session.receive(&subscribed.to_string()).unwrap(), None);
        assert!(session.settled());

        let changed = |subscription: &str| {
            json!({ "action": "subscription", "subscriptionId": subscription, "value": ["c"] })
                .to_string()
        };
        assert_eq!(session.receive(&changed("other")).unwrap(), None);
        let Some(News::Subjects(subjects, 0)) = session.receive(&changed("s9")).unwrap() else {
            panic!("no subjects");
        };
        assert_eq!(names(&subjects), ["c"]);
        assert_eq!(
            session.receive(&answer("2", &json!("again"))).unwrap(),
            None,
            "answered already"
        );
    }

    #[test]
    fn a_model_may_be_missing_but_nothing_else() {
        let config = config();
        let mut session = Session::new(&config);
        session.receive(&answer("2", &json!("VIN7"))).unwrap();
        let Some(News::System(system)) = session.receive(&refuse("get", "3")).unwrap() else {
            panic!("no system");
        };
        assert_eq!(
            (system.unit_model.as_str(), system.version.as_str()),
            ("", "")
        );
        for (action, id) in [("subscribe", "1"), ("get", "2"), ("get", "4")] {
            let error = Session::new(&config)
                .receive(&refuse(action, id))
                .unwrap_err();
            assert!(matches!(error, SessionError::Refused { .. }), "{error}");
        }
        let error = Session::new(&config)
            .receive(&answer("2", &json!("")))
            .unwrap_err();
        assert!(matches!(error, SessionError::Unusable { .. }), "{error}");
        let error = Session::new(&config)
            .receive(&answer("1", &json!("x")))
            .unwrap_err();
        assert!(matches!(error, SessionError::NotUnderstood(_)), "{error}");
    }
}
