//! Which image a name means.

use bollard::Docker;
use bollard::models::ImageInspect;

use crate::engine::EngineError;
use crate::failure::Failure;

/// The image that a name means now, for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exact {
    /// What the engine makes containers of.
    pub(crate) reference: String,
    /// The ordered name with a checksum, which can be ordered in its place.
    pub(crate) pin: String,
    /// The checksum is an id of this engine's: no registry is known to have the image.
    pub(crate) local: bool,
}

/// What an engine has of a name. A checksum may also be the id of an image that came from no registry.
pub(crate) async fn find(docker: &Docker, ordered: &str) -> Result<Option<Exact>, Failure> {
    let by_id = ordered.split_once('@').map(|(_, digest)| digest);
    for name in std::iter::once(ordered).chain(by_id) {
        match docker.inspect_image(name).await {
            Ok(found) => return Ok(exact(ordered, &found)),
            Err(error) => match EngineError::new("inspect the image", error) {
                error if error.status() == Some(404) => {}
                error => return Err(Failure::of_order(error)),
            },
        }
    }
    Ok(None)
}

/// Names the image that was found: by the checksum under which a registry has it, or else by its id.
fn exact(ordered: &str, found: &ImageInspect) -> Option<Exact> {
    let id = found.id.as_deref()?;
    let (name, wanted) = split(ordered);
    let digests = found.repo_digests.iter().flatten();
    let mut same = digests.filter_map(|it| {
        let (theirs, digest) = it.split_once('@')?;
        (familiar(theirs) == familiar(name)).then_some(digest)
    });
    // Newer engines give what was built here such a checksum too, but know where it is from.
    let identity = found.identity.as_ref();
    let is_built = identity.is_some_and(|it| it.pull.iter().flatten().next().is_none());
    let digest = match same.clone().find(|it| *it == wanted) {
        Some(digest) => Some(digest),
        None => same.next(),
    };
    Some(match digest.filter(|_| !is_built) {
        Some(digest) => {
            let pin = format!("{name}@{digest}");
            Exact {
                reference: pin.clone(),
                pin,
                local: false,
            }
        }
        None => Exact {
            reference: id.to_owned(),
            pin: format!("{name}@{id}"),
            local: true,
        },
    })
}

/// A name without what Docker adds where it is left out.
fn familiar(name: &str) -> &str {
    let name = name.strip_prefix("index.").unwrap_or(name);
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    name.strip_prefix("library/").unwrap_or(name)
}

/// What is before and behind the tag, or the checksum. Without either it is the newest: Docker would fetch all there are.
pub(crate) fn split(image: &str) -> (&str, &str) {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to a port.
    let path = named.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match named[path..].find(':') {
        Some(colon) => (&named[..path + colon], &named[path + colon + 1..]),
        None => (named, "latest"),
    };
    (name, digest.unwrap_or(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_from_its_tag() {
        assert_eq!(split("ubuntu"), ("ubuntu", "latest"));
        assert_eq!(split("ubuntu:24.04"), ("ubuntu", "24.04"));
        assert_eq!(split("host:5000/a/b"), ("host:5000/a/b", "latest"));
        assert_eq!(split("host:5000/a/b:c"), ("host:5000/a/b", "c"));
        assert_eq!(split("host:5000/a@sha256:00"), ("host:5000/a", "sha256:00"));
        assert_eq!(split("a:1@sha256:00"), ("a", "sha256:00"));
    }

    #[test]
    fn an_image_is_named_by_what_its_registry_calls_it_or_by_its_id() {
        let found = |digests: &[&str]| ImageInspect {
            id: Some("sha256:id".to_owned()),
            repo_digests: Some(digests.iter().map(|it| (*it).to_owned()).collect()),
            ..ImageInspect::default()
        };
        let both = found(&["other@sha256:22", "debian@sha256:11", "debian@sha256:33"]);
        for (ordered, pin) in [
            ("debian:12", "debian@sha256:11"),
            ("debian@sha256:33", "debian@sha256:33"),
            ("debian:12@sha256:33", "debian@sha256:33"),
            (
                "docker.io/library/debian",
                "docker.io/library/debian@sha256:11",
            ),
            ("other:1", "other@sha256:22"),
        ] {
            let exact = exact(ordered, &both).unwrap();
            assert_eq!((exact.pin.as_str(), exact.local), (pin, false), "{ordered}");
            assert_eq!(exact.reference, pin);
        }
        // A name that was given here to what a registry calls otherwise.
        for ordered in ["mine:1", "mine@sha256:id", "host:5000/mine"] {
            let exact = exact(ordered, &both).unwrap();
            let name = split(ordered).0;
            assert_eq!(exact.pin, format!("{name}@sha256:id"));
            assert!(exact.local && exact.reference == "sha256:id");
        }
        assert!(exact("app", &found(&[])).unwrap().local);
        let built = ImageInspect {
            identity: Some(bollard::models::Identity::default()),
            ..found(&["app@sha256:id"])
        };
        assert!(exact("app", &built).unwrap().local);
    }
}
