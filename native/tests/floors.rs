//! The layers of the crate: which module may use which. Cargo enforces this between crates, this test within one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up. A module may use those on lower floors, but none on its own.
const FLOORS: &[&[&str]] = &[
    &["checksum", "counters", "frame", "hash", "preemption_backoff", "random", "tap", "vnet", "wire"],
    &["encap", "fabric", "relay", "segment"],
    &["gro"],
    &["core"],
    &["app", "testing"],
    &["devices"],
    &["worker"],
    &["python"],
    &["ejfat"],
];

/// The root of the crate, which may use every module.
const ROOT: &str = "lib";

struct Source {
    module: String,
    path: PathBuf,
    text: String,
}

/// All source files with their top-level modules: `core/train.rs` belongs to `core`.
fn sources() -> Vec<Source> {
    fn collect(folder: &Path, module: Option<&str>, sources: &mut Vec<Source>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let module = module.unwrap_or(stem).to_owned();
            if path.is_dir() {
                collect(&path, Some(&module), sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                sources.push(Source { module, path, text });
            }
        }
    }
    let mut sources = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut sources);
    sources
}

fn floor(module: &str) -> usize {
    let found = FLOORS.iter().position(|floor| floor.contains(&module));
    found.unwrap_or_else(|| panic!("module {module} is on no floor: add it to FLOORS in {}", file!()))
}

/// The modules that a text mentions as `crate::MODULE`, including comments.
fn named(text: &str) -> BTreeSet<&str> {
    let name = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    text.split("crate::").skip(1).map(|rest| &rest[..name(rest)]).collect()
}

#[test]
fn modules_use_only_those_on_lower_floors() {
    for source in sources().iter().filter(|source| source.module != ROOT) {
        for name in named(&source.text) {
            let path = source.path.display();
            assert!(
                !name.is_empty(),
                "{path}: write `use crate::a; use crate::b;`, one line for each module"
            );
            assert!(
                name == source.module || floor(name) < floor(&source.module),
                "{path} uses crate::{name}, which is not below {}: see FLOORS in {}",
                source.module,
                file!()
            );
        }
    }
}

/// Modules on the top floor are apps, which the datapath knows only as `app::NativeApp`.
#[test]
fn apps_are_named_only_where_the_crate_is_composed() {
    for app in FLOORS[FLOORS.len() - 1] {
        for source in sources().iter().filter(|source| source.module != *app) {
            let lines = source.text.lines().filter(|line| line.to_lowercase().contains(app));
            let lines: Vec<_> = lines.filter(|line| !line.trim_start().starts_with("//!")).collect();
            let allowed: &[String] = match source.module.as_str() {
                ROOT => &[format!("pub mod {app};"), format!("    {app}::python::register(module)")],
                _ => &[],
            };
            assert!(
                lines.iter().all(|line| allowed.iter().any(|it| it == line)),
                "{:?}: {lines:?}",
                source.path
            );
        }
    }
}

#[test]
fn every_module_on_a_floor_is_there() {
    let sources = sources();
    let there: BTreeSet<_> = sources.iter().map(|source| source.module.as_str()).collect();
    let listed: BTreeSet<_> = FLOORS.iter().flat_map(|floor| *floor).copied().collect();
    assert_eq!(listed.difference(&there).collect::<Vec<_>>(), Vec::<&&str>::new());
}
