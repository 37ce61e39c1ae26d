//! Commands for every server.

use super::stage::{fleet, key_of, letter, Stage, META};
use crate::operations::{statistics, version, Everywhere, Operation, ServerCommand, ServerLines};
use pinyon_net::error::Kind;

fn named(lines: ServerLines) -> Vec<(String, Vec<String>)> {
    lines.into_iter().map(|(server, lines)| (letter(&server).to_owned(), lines)).collect()
}

#[test]
fn every_server_is_asked_the_gutter_too_and_those_that_are_down() {
    let fleet = fleet("a,b", &["g"]);
    let key = key_of(&fleet, "a", 0);
    let choice = fleet.choose(key.as_bytes(), false, std::time::Instant::now()).unwrap();
    fleet.failed(choice, &pinyon_net::Error::unanswered(&fleet.servers()[choice.server].name));
    let mut stage = Stage::with(fleet, META, Everywhere::new(ServerCommand::Version));
    assert_eq!(stage.begin(), ["a: version", "b: version", "g: version"]);
    for server in ["b", "g", "a"] {
        assert!(stage.answer(server, "VERSION 1.6.18").is_empty());
    }
    let lines = named(stage.operation.finish().unwrap());
    assert_eq!(lines.iter().map(|(server, _)| &**server).collect::<Vec<_>>(), ["a", "b", "g"]);
    assert!(lines.iter().all(|(_, lines)| version(lines) == "1.6.18"));
    assert_eq!(version(&[]), "");
}

#[test]
fn statistics_are_names_and_values() {
    let mut stage = Stage::new("a", META, Everywhere::new(ServerCommand::stats("slabs").unwrap()));
    assert_eq!(stage.begin(), ["a: stats slabs"]);
    stage.answer("a", "STAT 1:chunk_size 96|STAT version 1.6 or so|STAT empty|END");
    let lines = named(stage.operation.finish().unwrap()).remove(0).1;
    let expected = [("1:chunk_size", "96"), ("version", "1.6 or so"), ("empty", "")];
    assert_eq!(statistics(&lines).collect::<Vec<_>>(), expected);
    let refused = ServerCommand::stats("a\r\nflush_all").unwrap_err();
    assert!(refused.message.contains("only letters, digits, spaces and underscores"), "{refused}");
}

#[test]
fn the_first_failure_is_raised_and_nothing_is_tried_again() {
    let mut stage = Stage::new("a,b", META, Everywhere::new(ServerCommand::FlushAll { delay: 5 }));
    assert_eq!(stage.operation.name(), "flush_all");
    assert_eq!(stage.begin(), ["a: flush_all 5", "b: flush_all 5"]);
    assert!(stage.close("b").is_empty());
    assert!(stage.answer("a", "OK").is_empty());
    let error = stage.operation.finish().unwrap_err();
    assert_eq!((error.kind, letter(&error.server), error.command), (Kind::Closed, "b", "flush_all"));
}

#[test]
fn an_outage_is_raised_whatever_the_clients_policy_is() {
    let mut stage = Stage::new("a", META, Everywhere::new(ServerCommand::Version));
    stage.unreachable.push(("a", Kind::Connect));
    assert!(stage.begin().is_empty());
    assert_eq!(stage.operation.finish().unwrap_err().kind, Kind::Connect);
}

#[test]
fn a_server_that_left_is_asked_nothing_and_no_failure() {
    let mut stage = Stage::new("a,b", META, Everywhere::new(ServerCommand::Version));
    stage.begin();
    assert!(stage.withdraw("a").is_empty());
    stage.answer("b", "VERSION 1.6.18");
    let lines = named(stage.operation.finish().unwrap());
    assert_eq!(lines, [("a".to_owned(), vec![]), ("b".to_owned(), vec!["VERSION 1.6.18".to_owned()])]);
}
