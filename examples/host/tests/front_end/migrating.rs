//! The expected behavior of two pools as one, for every way to carry out operations. The old pool has another dialect.

use pinyon_cache::migration::Progress;

use crate::cache::text;
use pinyon_host::cache::Calls;
use pinyon_host::migrating::Migrating;

pub fn play(both: &mut Migrating) {
    one_key(both);
    many_keys(both);
}

fn one_key(both: &mut Migrating) {
    both.old.set("key", &text("value"), 1000).unwrap();
    assert_eq!(both.get("key").unwrap(), Some(text("value")));
    let (moved, ttl) = both.new.get_with_ttl("key").unwrap().unwrap();
    assert!(moved == text("value") && (900..=1000).contains(&ttl.unwrap()), "it is moved with its ttl");
    assert_eq!(both.get("key").unwrap(), Some(text("value")));
    assert_eq!(both.get("nothing").unwrap(), None);
    assert_eq!(both.progress(), Progress { new: 1, old: 1, moved: 1, refused: 0, missing: 1 });

    assert!(both.set("key", &text("newer"), 0).unwrap());
    assert_eq!(both.old.get("key").unwrap(), None, "nobody moves it again");
    both.old.set("touched", &text("value"), 1000).unwrap();
    assert!(both.touch("touched", 5000).unwrap() && !both.touch("nothing", 5000).unwrap());
    assert!(both.new.get_with_ttl("touched").unwrap().unwrap().1 > Some(4000));
    both.old.set("key", &text("forgotten"), 0).unwrap();
    assert!(both.delete("key").unwrap() && !both.delete("key").unwrap());
    assert_eq!((both.old.get("key").unwrap(), both.new.get("key").unwrap()), (None, None));
}

fn many_keys(both: &mut Migrating) {
    let names: Vec<String> = (0..40).map(|number| format!("many:{number}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).chain(["nothing"]).collect();
    let items: Vec<_> = names.iter().map(|name| (name.as_str(), text(name))).collect();
    both.old.set_many(&items[1..], 0).unwrap();
    both.new.set_many(&items[..1], 0).unwrap();
    let expected: Vec<_> = names.iter().map(|name| Some(text(name))).chain([None]).collect();
    for known in [1, 17, 33, 40] {
        assert_eq!(both.new.get_many(&keys, false).unwrap().0.len(), known, "some are moved each time");
        assert_eq!(both.get_many(&keys).unwrap(), expected);
    }
    assert_eq!(both.delete_many(&keys[..10]).unwrap(), 10);
    assert_eq!(both.get_many(&keys[9..12]).unwrap(), [None, Some(text("many:10")), Some(text("many:11"))]);
}
