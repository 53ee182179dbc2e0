//! The demo's images, made of its two programs.

use std::fs;
use std::path::Path;

use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};

use crate::error::{FileError, UpError};
use crate::layout::Layout;
use crate::record::Record;
use crate::settings::Shape;

/// An image of the demo.
struct Recipe {
    item: &'static str,
    program: &'static str,
    version: &'static str,
    item_config: &'static str,
    ports: &'static [&'static str],
}

pub(crate) const WEB: &str = "muster-demo-web";
pub(crate) const WORKER: &str = "muster-demo-worker";
const WEB_CONFIG: &str = include_str!("../../../../examples/demo/web.json");
const WORKER_CONFIG: &str = include_str!("../../../../examples/demo/worker.json");
/// What shall run, until somebody changes it.
const DESIRED: &str = include_str!("../../../../examples/demo/desired.yaml");
/// The same for one user, whose web service listens at this word of the file.
const DESIRED_ONE_USER: &str = include_str!("../../../../examples/demo/desired-one-user.yaml");
const PORT: &str = "PORT";

const RECIPES: [Recipe; 3] = [
    Recipe {
        item: "web",
        program: WEB,
        version: "1.0.0",
        item_config: WEB_CONFIG,
        ports: &["8080"],
    },
    Recipe {
        item: "web",
        program: WEB,
        version: "2.0.0",
        item_config: WEB_CONFIG,
        ports: &["8080"],
    },
    Recipe {
        item: "worker",
        program: WORKER,
        version: "1.0.0",
        item_config: WORKER_CONFIG,
        ports: &[],
    },
];

impl Recipe {
    fn order(&self, programs: &Path, output: &Path) -> BuildOrder {
        BuildOrder {
            content: Content::Binary {
                program: programs.join(self.program),
                path: None,
            },
            run: RunSettings {
                env: vec![format!("VERSION={}", self.version)],
                exposed_ports: self.ports.iter().map(|&it| it.to_owned()).collect(),
                ..RunSettings::default()
            },
            item_config: Some(self.item_config.as_bytes().to_vec()),
            platform: Platform::of_this_program(),
            format: LayerFormat::TarGzip,
            name: Some(self.version.to_owned()),
            output: output.to_owned(),
            as_archive: true,
        }
    }
}

/// What shall run at first.
pub(crate) fn first_desired(record: &Record) -> String {
    match record.shape() {
        Shape::TwoNodes => DESIRED.to_owned(),
        Shape::OneUser => DESIRED_ONE_USER.replace(PORT, &record.ports.web.to_string()),
    }
}

/// Makes those that are missing, and the file that says what shall run.
pub(crate) fn make(layout: &Layout, record: &Record, programs: &Path) -> Result<(), UpError> {
    let folder = layout.images();
    fs::create_dir_all(&folder).map_err(FileError::of("make", &folder))?;
    for recipe in &RECIPES {
        let path = folder.join(format!("{}-{}.tar", recipe.item, recipe.version));
        if path.exists() {
            continue;
        }
        // Made beside and renamed, so that one that is there is whole.
        let beside = folder.join(format!("{}-{}.new", recipe.item, recipe.version));
        let _ = fs::remove_file(&beside);
        build(&recipe.order(programs, &beside)).map_err(|source| UpError::Image {
            item: recipe.item,
            source: Box::new(source),
        })?;
        fs::rename(&beside, &path).map_err(FileError::of("make", &path))?;
    }
    let desired = layout.desired();
    if !desired.exists() {
        // Whole or not at all: it is for people to change, so nobody writes it again.
        muster_durable::write(&desired, first_desired(record).as_bytes(), 0o644)
            .map_err(FileError::of("write", &desired))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use muster_config::{Format, Limits};
    use muster_desired::DesiredStatus;

    use super::*;
    use crate::record::{Before, USUAL_PORTS};

    #[test]
    fn what_shall_run_at_first_can_be_read() {
        for (subnet, instances) in [(Some(7), 3), (None, 2)] {
            let mut ports = USUAL_PORTS;
            ports.web = 41_234;
            let record = Record {
                subnet,
                ports,
                before: Before::default(),
            };
            let text = first_desired(&record);
            assert_eq!(
                text.matches("127.0.0.1:41234").count(),
                2 * usize::from(subnet.is_none())
            );
            assert!(!text.contains(PORT), "{text}");
            let read = DesiredStatus::read("f", Format::Yaml, text.as_bytes(), Limits::default());
            let wanted = read
                .unwrap()
                .instances()
                .values()
                .map(|it| it.count)
                .sum::<u64>();
            assert_eq!(wanted, instances);
        }
    }
}
