//! Puts the checksum of the sources into the module, so that opavnic notices one that was built of others.

use std::path::{Path, PathBuf};

fn main() {
    let native = Path::new("..");
    let mut sources = Vec::new();
    collect(native, &mut sources);
    // by name from native/ on, with slashes, as opavnic/datapath/source_files.py sorts them
    let mut named: Vec<(String, PathBuf)> = sources.into_iter().map(|path| (name_of(&path), path)).collect();
    named.sort();
    let mut crc = !0u32;
    for (name, path) in &named {
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read(path).expect("a source file can be read");
        for byte in name.bytes().chain(text) {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
            }
        }
    }
    println!("cargo::rustc-env=OPAVNIC_SOURCES={}", !crc);
}

/// Finds native/CRATE/src/**/*.rs.
fn collect(native: &Path, found: &mut Vec<PathBuf>) {
    for entry in entries(native) {
        let src = entry.join("src");
        if src.is_dir() && entry.file_name().is_none_or(|name| name != "fuzz" && name != "target") {
            println!("cargo::rerun-if-changed={}", src.display());
            walk(&src, found);
        }
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in entries(folder) {
        if entry.is_dir() {
            walk(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).expect("a folder of sources can be read");
    listed.map(|entry| entry.expect("an entry can be read").path()).collect()
}

fn name_of(path: &Path) -> String {
    path.strip_prefix("..").unwrap_or(path).to_string_lossy().replace('\\', "/")
}
