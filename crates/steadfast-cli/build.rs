//! Collects the pages of the error codes, so that `steadfast explain` needs no files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")?)
        .join("../../docs/errors")
        .canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    let mut code = String::from("pub(super) const PAGES: &[(&str, &str)] = &[\n");
    for page in pages {
        let name = page
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        writeln!(code, "    ({name:?}, include_str!({page:?})),").map_err(io::Error::other)?;
    }
    code.push_str("];\n");
    fs::write(Path::new(&variable("OUT_DIR")?).join("pages.rs"), code)
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}
