//! What a program finds in its environment. Pure.

use muster_api::domain::EnvVar;
use muster_runtime::InstanceSpec;

const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// `NAME=value`, each name once. Of several that set the same name, the last one counts: image, resources, controller,
/// operator, and then who the instance is, which nobody else may say.
#[must_use]
pub fn variables(instance: &InstanceSpec) -> Vec<String> {
    let mut all = Variables(vec![("PATH".to_owned(), SEARCH_PATH.to_owned())]);
    let resources = instance.resources.iter().flat_map(|resource| &resource.env);
    let image = instance.image_config.env.iter();
    let said = image.chain(resources).chain(&instance.info.env_vars);
    for variable in said.chain(&instance.env_override) {
        all.set_variable(variable);
    }
    let ident = &instance.info.instance;
    all.set("AOS_ITEM_ID", ident.item_id.to_string());
    all.set("AOS_SUBJECT_ID", ident.subject_id.to_string());
    all.set("AOS_INSTANCE_INDEX", ident.instance.to_string());
    all.set("AOS_INSTANCE_ID", ident.instance_id().to_string());
    match &instance.secret {
        Some(secret) => all.set("AOS_SECRET", secret.0.to_string()),
        None => all.0.retain(|(name, _)| name != "AOS_SECRET"),
    }
    all.0
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

struct Variables(Vec<(String, String)>);

impl Variables {
    fn set_variable(&mut self, variable: &EnvVar) {
        self.set(variable.name().as_str(), variable.value().to_owned());
    }

    fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }
}
