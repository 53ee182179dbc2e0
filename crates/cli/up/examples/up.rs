//! Brings a Unit up or down without the command line around it: `up DIR RUN PROGRAMS MUSTER`, `down DIR RUN`.

use std::path::{Path, PathBuf};
use std::time::Duration;

struct Plain;

impl muster_up::Tell for Plain {
    fn step(&mut self, text: &str) {
        println!("{text}");
    }

    fn picture(&mut self, picture: &muster_up::Picture) {
        println!("{picture:?}");
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["up", dir, run, programs, muster] => {
            let settings = muster_up::Settings {
                dir: PathBuf::from(dir),
                run: PathBuf::from(run),
                programs: PathBuf::from(programs),
                muster: PathBuf::from(muster),
                shape: muster_up::Settings::usual_shape(),
                patience: Duration::from_secs(20),
            };
            println!("{:#?}", muster_up::up(&settings, &mut Plain));
        }
        ["down", dir, run] => println!(
            "{:#?}",
            muster_up::down(Path::new(dir), Path::new(run), &mut Plain)
        ),
        _ => println!("up DIR RUN PROGRAMS MUSTER, or down DIR RUN"),
    }
}
