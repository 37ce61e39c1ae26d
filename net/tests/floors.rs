//! The drawings in ARCHITECTURE.md and the imports agree: each room imports from floors of its crate below its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const DRAWING: &str = include_str!("../../ARCHITECTURE.md");

/// The number of its floor, from the top, for each room of a crate's drawing.
fn floors(drawn: &str) -> BTreeMap<String, usize> {
    let block =
        DRAWING.split(&format!("<!-- floors of {drawn} -->\n```\n")).nth(1).and_then(|rest| rest.split("```").next());
    let lines = block.expect("the drawing is marked").lines().enumerate();
    let rooms =
        |line: &str| line.split("  ").next().unwrap_or_default().split(' ').map(str::to_owned).collect::<Vec<_>>();
    lines.flat_map(|(floor, line)| rooms(line).into_iter().map(move |room| (room, floor))).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let inside = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    entries.flat_map(inside).collect()
}

fn is_of_tests(path: &Path) -> bool {
    path.components().any(|part| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name))
}

/// The rooms that a source names, besides its tests.
fn imported(source: &str) -> BTreeSet<String> {
    let product = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        product.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect();
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
    let is_room = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("src/lib.rs");
    let all = sources(source).into_iter().filter(|path| is_room(path) && !is_of_tests(path));
    let of_one = |path: PathBuf| {
        let inside = path.strip_prefix(source).unwrap().with_extension("");
        let room = inside.components().next().unwrap().as_os_str().to_str().unwrap().to_owned();
        let mut others = imported(&fs::read_to_string(&path).unwrap());
        others.remove(&room);
        (room, inside, others)
    };
    all.map(of_one).collect()
}

/// The sources of a crate.
fn source_of(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("src")
}

#[test]
fn every_import_points_to_a_floor_below() {
    for drawn in ["cache", "locks", "net"] {
        let floors = floors(drawn);
        let mut seen = BTreeSet::new();
        let mut upward = Vec::new();
        for (room, inside, others) in imports(&source_of(drawn)) {
            let floor = floors.get(&room).unwrap_or_else(|| panic!("{drawn}: {room} is not in the drawing"));
            let is_upward = |other: &&String| floors.get(*other).is_some_and(|below| below <= floor);
            upward.extend(others.iter().filter(is_upward).map(|other| format!("{} imports {other}", inside.display())));
            seen.insert(room);
        }
        assert!(upward.is_empty(), "{drawn}: {upward:#?}");
        assert_eq!(seen, floors.into_keys().collect(), "{drawn}: the rooms of the drawing, and those that exist");
    }
}

#[test]
fn the_rooms_of_the_other_crates_form_no_circle() {
    for folder in ["proto", "python/native", "ruby/native"] {
        let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (room, _, others) in imports(&source_of(folder)) {
            rooms.entry(room).or_default().extend(others);
        }
        assert!(rooms.len() > 1, "{folder}");
        // Takes away what imports none of the others, until nothing or a circle is left.
        while let Some(ground) = rooms.iter().find(|(_, others)| others.iter().all(|other| !rooms.contains_key(other)))
        {
            let ground = ground.0.clone();
            rooms.remove(&ground);
        }
        assert!(rooms.is_empty(), "{folder}: {rooms:?}");
    }
}
