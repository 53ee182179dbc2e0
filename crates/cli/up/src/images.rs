//! The demo's images, made of its two programs.

use std::fs;
use std::path::Path;

use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};

use crate::error::{FileError, UpError};
use crate::layout::Layout;

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
pub(crate) const DESIRED: &str = include_str!("../../../../examples/demo/desired.yaml");

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

/// Makes those that are missing, and the file that says what shall run.
pub(crate) fn make(layout: &Layout, programs: &Path) -> Result<(), UpError> {
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
        fs::write(&desired, DESIRED).map_err(FileError::of("write", &desired))?;
    }
    Ok(())
}
