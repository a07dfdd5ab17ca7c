//! Embeds the scenario files, so that an installed program carries the suite that it was built with. Owns only the list of files; must never read into them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut text = String::new();
    for (name, dir) in [("BUILT_IN", "scenarios"), ("CALIBRATION", "calibration")] {
        let root = root.join(dir);
        let mut files = Vec::new();
        collect(&root, &mut files);
        files.sort();
        writeln!(text, "/// Path below `{dir}` and text of every file there.\nconst {name}: &[(&str, &str)] = &[")
            .expect("a string takes every text");
        for file in files {
            let short = file.strip_prefix(&root).expect("it was found below the root").to_string_lossy().replace('\\', "/");
            writeln!(text, "    ({short:?}, include_str!({:?})),", file.display().to_string())
                .expect("a string takes every text");
        }
        text.push_str("];\n");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("library.rs");
    std::fs::write(out, text).expect("the output directory is writable");
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in std::fs::read_dir(dir).expect("the scenario directory is there") {
        let path = entry.expect("the scenario directory is readable").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}
