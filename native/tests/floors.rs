//! The floors of the crate: which module may name which. Cargo holds crates apart; within one, this does.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up. A module may name those of the floors below its own, and none beside it.
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

/// The root names every module, to compose them; it is named by none.
const ROOT: &str = "lib";

struct Source {
    module: String,
    path: PathBuf,
    text: String,
}

/// All sources, each under the name of its module at the top: `core/train.rs` belongs to `core`.
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
    found.unwrap_or_else(|| panic!("module {module} stands on no floor: add it to FLOORS in {}", file!()))
}

/// The modules that a text names as `crate::MODULE`, comments included.
fn named(text: &str) -> BTreeSet<&str> {
    let name = |rest: &str| rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    text.split("crate::").skip(1).map(|rest| &rest[..name(rest)]).collect()
}

#[test]
fn modules_name_those_of_lower_floors_alone() {
    for source in sources().iter().filter(|source| source.module != ROOT) {
        for name in named(&source.text) {
            let path = source.path.display();
            assert!(!name.is_empty(), "{path}: write `use crate::a; use crate::b;`, one module each");
            assert!(
                name == source.module || floor(name) < floor(&source.module),
                "{path} names crate::{name}, which is not below {}: see FLOORS in {}",
                source.module,
                file!()
            );
        }
    }
}

/// What stands on the highest floor is an application: the datapath knows `app::NativeApp` alone.
#[test]
fn applications_are_named_where_the_crate_is_composed_and_nowhere_else() {
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
