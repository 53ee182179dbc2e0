//! Parameters as EC2's Query API takes them: flat, numbered, each a text.

use std::fmt;

/// The parameters of one request, in the order in which they were given.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Adds a parameter.
    pub fn push(&mut self, name: impl Into<String>, value: impl fmt::Display) {
        self.0.push((name.into(), value.to_string()));
    }

    /// Adds one that may be missing.
    pub fn push_some(&mut self, name: impl Into<String>, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.push(name, value);
        }
    }

    /// Adds a list, numbered from one.
    pub fn push_list(&mut self, name: &str, values: impl IntoIterator<Item = impl fmt::Display>) {
        for (nth, value) in (1..).zip(values) {
            self.push(format!("{name}.{nth}"), value);
        }
    }

    /// Every parameter.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// As the body of a request.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(self.iter());
        text.finish()
    }
}

/// Without user data, which holds keys.
impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.iter().map(|(name, value)| match name {
            _ if name.ends_with("UserData") => (name, "(secret)"),
            _ => (name, value),
        });
        f.debug_map().entries(shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_and_encoded_and_secrets_are_not_shown() {
        let mut query = Query::default();
        query.push("Action", "RunInstances");
        query.push_list("InstanceId", ["i-1", "i-2"]);
        query.push_some("Hibernate", None::<bool>);
        query.push("LaunchTemplateData.UserData", "a&b=c d");
        let expected = "Action=RunInstances&InstanceId.1=i-1&InstanceId.2=i-2\
                        &LaunchTemplateData.UserData=a%26b%3Dc+d";
        assert_eq!(query.encode(), expected);
        assert!(!format!("{query:?}").contains("a&b"));
    }
}
