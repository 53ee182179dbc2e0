//! The parameters of a request, read back.

use std::collections::BTreeMap;

/// Parameters by their flat names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Params(pub(super) BTreeMap<String, String>);

impl Params {
    pub(super) fn parse(body: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(body);
        Self(
            pairs
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.get(name) == Some(value)
    }

    /// `name.1`, `name.2` and so on.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        let all = (1..).map(|nth| self.get(&format!("{name}.{nth}")));
        all.map_while(|value| value).collect()
    }

    /// The prefixes `name.1`, `name.2` and so on that have a field.
    pub(super) fn prefixes(&self, name: &str, field: &str) -> Vec<String> {
        let all = (1..).map(|nth| format!("{name}.{nth}"));
        all.take_while(|prefix| self.get(&format!("{prefix}.{field}")).is_some())
            .collect()
    }

    /// The tags for one kind of resource.
    pub(super) fn tags(&self, prefix: &str, resource: &str) -> BTreeMap<String, String> {
        let specifications = self.prefixes(&format!("{prefix}TagSpecification"), "ResourceType");
        let ours = specifications
            .into_iter()
            .filter(|one| self.is(&format!("{one}.ResourceType"), resource));
        ours.flat_map(|one| self.prefixes(&format!("{one}.Tag"), "Key"))
            .map(|tag| {
                let part = |field| self.get(&format!("{tag}.{field}")).unwrap_or_default();
                (part("Key").to_owned(), part("Value").to_owned())
            })
            .collect()
    }

    /// The filters: names and the values that will do, without what escapes.
    pub(super) fn filters(&self) -> Vec<(String, Vec<String>)> {
        let filters = self.prefixes("Filter", "Name").into_iter().map(|filter| {
            let name = self.get(&format!("{filter}.Name")).unwrap_or_default();
            let values = self.list(&format!("{filter}.Value"));
            let values = values.into_iter().map(|value| value.replace('\\', ""));
            (name.to_owned(), values.collect())
        });
        filters.collect()
    }

    /// What makes two requests the same: everything but the token.
    pub(super) fn without_token(&self) -> Self {
        let mut same = self.clone();
        same.0.remove("ClientToken");
        same
    }
}
