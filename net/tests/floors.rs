//! Drawings and imports agree: each room of a crate imports from floors below its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const MAP: &str = include_str!("../../ARCHITECTURE.md");
const OF_C: &str = include_str!("../../capi/src/lib.rs");

/// The number of its floor, from the top, for each room of a crate's drawing.
fn floors(page: &str, drawn: &str) -> BTreeMap<String, usize> {
    let block =
        page.split(&format!("<!-- floors of {drawn} -->\n```text\n")).nth(1).and_then(|rest| rest.split("```").next());
    let lines = block.expect("the drawing is marked").lines().enumerate();
    let rooms =
        |line: &str| line.split("  ").next().unwrap_or_default().split(' ').map(str::to_owned).collect::<Vec<_>>();
    lines.flat_map(|(floor, line)| rooms(line).into_iter().map(move |room| (room, floor))).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let inside = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    entries.flat_map(inside).filter(|path| path.extension().is_some_and(|kind| kind == "rs")).collect()
}

fn is_of_tests(path: &Path) -> bool {
    path.components().any(|part| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name))
}

/// The code of a source, without its tests and comments.
fn code(source: &str) -> String {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    product.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// The rooms that a source names, besides its tests.
fn imported(source: &str) -> BTreeSet<String> {
    let code = code(source);
    let name =
        |text: &str| text.trim_start().chars().take_while(|char| char.is_ascii_lowercase() || *char == '_').collect();
    let mut rooms = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        match after.strip_prefix('{') {
            Some(group) => rooms.extend(group.split('}').next().unwrap_or_default().split(',').map(name)),
            None => drop(rooms.insert(name(after))),
        }
    }
    rooms
}

/// The room of a source, and what else of its crate it imports; for all sources of a crate.
fn imports(source: &Path) -> Vec<(String, PathBuf, BTreeSet<String>)> {
    let all = sources(source).into_iter().filter(|path| !is_of_tests(path) && !path.ends_with("src/lib.rs"));
    let of_one = |path: PathBuf| {
        let inside = path.strip_prefix(source).unwrap().with_extension("");
        let room = inside.components().next().unwrap().as_os_str().to_str().unwrap().to_owned();
        let mut others = imported(&fs::read_to_string(&path).unwrap());
        others.remove(&room);
        (room, inside, others)
    };
    all.map(of_one).collect()
}

#[test]
fn every_import_points_to_a_floor_below() {
    let of_c = OF_C.replace("//! ", "");
    for (page, folder) in [(MAP, "cache"), (MAP, "locks"), (MAP, "net"), (&*of_c, "capi")] {
        let floors = floors(page, folder);
        let mut seen = BTreeSet::new();
        let mut upward = Vec::new();
        for (room, inside, others) in imports(&source_of(folder)) {
            let floor = floors.get(&room).unwrap_or_else(|| panic!("{folder}: {room} is not in the drawing"));
            let is_upward = |other: &&String| floors.get(*other).is_some_and(|below| below <= floor);
            upward.extend(others.iter().filter(is_upward).map(|other| format!("{} imports {other}", inside.display())));
            seen.insert(room);
        }
        assert!(upward.is_empty(), "{folder}: {upward:#?}");
        assert_eq!(seen, floors.into_keys().collect(), "{folder}: the rooms of the drawing, and those that exist");
    }
}

fn source_of(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("src")
}

/// Takes away what imports none of the others, until nothing or a circle is left.
fn circle(mut all: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    while let Some(ground) = all.iter().find(|(_, others)| others.iter().all(|other| !all.contains_key(other))) {
        let ground = ground.0.clone();
        all.remove(&ground);
    }
    all
}

#[test]
fn the_rooms_of_the_other_crates_form_no_circle() {
    for folder in ["proto", "python/native", "ruby/native"] {
        let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (room, _, others) in imports(&source_of(folder)) {
            rooms.entry(room).or_default().extend(others);
        }
        assert!(rooms.len() > 1, "{folder}");
        let circle = circle(rooms);
        assert!(circle.is_empty(), "{folder}: {circle:?}");
    }
}

/// The paths of a `use` tree, or one path, that begins here.
fn paths(text: &str) -> Vec<String> {
    let end = text.find(|char: char| !char.is_ascii_alphanumeric() && !"_:".contains(char)).unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    let Some(group) = rest.strip_prefix('{').filter(|_| path.is_empty() || path.ends_with("::")) else {
        return vec![path.to_owned()];
    };
    let (mut depth, mut members, mut from) = (0, Vec::new(), 0);
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                members.push(group[from..at].trim());
                from = at + 1;
                if char == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    members.into_iter().flat_map(paths).map(|member| format!("{path}{member}")).collect()
}

/// The modules that a module's code names, as far as they are files of the crate.
fn files_named(code: &str, module: &str, files: &BTreeSet<String>) -> BTreeSet<String> {
    let above = module.rsplit_once("::").map_or("crate", |(above, _)| above);
    let roots =
        [("crate::", "crate"), ("super::", above), ("self::", module), ("\nuse ", module), ("\npub use ", module)];
    let mut named = BTreeSet::new();
    for (root, stands_for) in roots {
        for path in code.split(root).skip(1).flat_map(paths) {
            let mut path = format!("{stands_for}::{path}");
            while !files.contains(&path) {
                let Some((shorter, _)) = path.rsplit_once("::") else { break };
                path = shorter.to_owned();
            }
            named.insert(path);
        }
    }
    named.remove(module);
    named
}

/// The files of a crate, and those that each names.
fn files(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let source = source_of(folder);
    let all = sources(&source).into_iter().filter(|path| !is_of_tests(path) && !path.ends_with("src/lib.rs"));
    let module = |path: &Path| {
        let inside = path.strip_prefix(&source).unwrap().with_extension("");
        let parts = inside.iter().map(|part| part.to_str().unwrap()).filter(|part| *part != "mod");
        ["crate"].into_iter().chain(parts).collect::<Vec<_>>().join("::")
    };
    let sources: BTreeMap<String, String> =
        all.map(|path| (module(&path), code(&fs::read_to_string(&path).unwrap()))).collect();
    let files: BTreeSet<String> = sources.keys().cloned().collect();
    sources.iter().map(|(module, code)| (module.clone(), files_named(code, module, &files))).collect()
}

#[test]
fn the_files_of_these_crates_form_no_circle() {
    for (folder, module, other) in
        [("capi", "crate::making::step", "crate::making"), ("python/native", "crate::client::running", "crate::client")]
    {
        let imports = files(folder);
        assert!(imports[module].contains(other), "{imports:?}");
        let circle = circle(imports);
        assert!(circle.is_empty(), "{folder}: {circle:#?}");
    }
}
