//! A small memcached in memory, for sessions and operations that read, store, clear, and ask for leases.

use std::collections::HashMap;

#[derive(Default)]
pub struct Memcached {
    pub items: HashMap<String, Item>,
    tokens: u64,
    /// How many commands it has carried out, without no-ops.
    pub commands: usize,
}

#[derive(Clone, Default)]
pub struct Item {
    pub bytes: Vec<u8>,
    pub client_flags: u32,
    cas: u64,
    is_stale: bool,
    is_won: bool,
    is_placeholder: bool,
}

impl Memcached {
    /// Carries out complete requests, and returns the replies.
    pub fn serve(&mut self, mut received: &[u8]) -> Vec<u8> {
        let mut replies = Vec::new();
        while let Some(end) = received.windows(2).position(|two| two == b"\r\n") {
            let line = std::str::from_utf8(&received[..end]).unwrap().to_owned();
            received = &received[end + 2..];
            let words: Vec<&str> = line.split(' ').collect();
            let size = match words[0] {
                "ms" => words[2].parse().unwrap(),
                "set" | "add" | "cas" => words[4].parse().unwrap(),
                _ => 0,
            };
            let data = &received[..size];
            if size > 0 || matches!(words[0], "ms" | "set" | "add" | "cas") {
                received = &received[size + 2..];
            }
            self.commands += match words[0] {
                "get" => words.len() - 1,
                "mn" => 0,
                _ => 1,
            };
            self.carry_out(&words, data, &mut replies);
        }
        assert!(received.is_empty(), "{received:?}");
        replies
    }

    fn carry_out(&mut self, words: &[&str], data: &[u8], replies: &mut Vec<u8>) {
        let key = words.get(1).copied().unwrap_or_default();
        let flag = |letter: char| words.iter().skip(2).find_map(|word| word.strip_prefix(letter));
        let opaque = flag('O').map(|opaque| format!(" O{opaque}")).unwrap_or_default();
        let is_quiet = words.last() == Some(&"q");
        let line = |line: String| format!("{line}\r\n").into_bytes();
        let reply = match words[0] {
            "mn" => line("MN".into()),
            "get" => {
                let mut all = Vec::new();
                for key in &words[1..] {
                    if let Some(Item { bytes, client_flags, .. }) = self.items.get(*key) {
                        all.extend(format!("VALUE {key} {client_flags} {}\r\n", bytes.len()).into_bytes());
                        all.extend([&bytes[..], b"\r\n"].concat());
                    }
                }
                [all, b"END\r\n".to_vec()].concat()
            }
            "mg" => self.read(key, words, &opaque),
            "flush_all" => {
                self.items.clear();
                line("OK".into())
            }
            "ms" => {
                let client_flags = flag('F').map_or(0, |flags| flags.parse().unwrap());
                self.put(key, client_flags, data);
                line(format!("HD{opaque}"))
            }
            "add" | "cas" => {
                let there = self.items.get(key).map(|item| item.cas);
                let stores = match words[0] {
                    "add" => there.is_none(),
                    _ => there == words[5].parse().ok(),
                };
                if stores {
                    self.put(key, words[2].parse().unwrap(), data);
                }
                line(match (stores, words[0], there) {
                    (true, ..) => "STORED".into(),
                    (false, "cas", None) => "NOT_FOUND".into(),
                    (false, "cas", _) => "EXISTS".into(),
                    (false, ..) => "NOT_STORED".into(),
                })
            }
            "md" => {
                self.tokens += 1;
                let compared = flag('C').map(|cas| cas.parse::<u64>().unwrap());
                match self.items.get_mut(key) {
                    None => line(format!("NF{opaque}")),
                    Some(item) if compared.is_some_and(|cas| cas != item.cas) => line(format!("EX{opaque}")),
                    Some(item) if words.contains(&"I") => {
                        (item.is_stale, item.is_won, item.cas) = (true, false, self.tokens);
                        line(format!("HD{opaque}"))
                    }
                    Some(_) => {
                        self.items.remove(key);
                        line(format!("HD{opaque}"))
                    }
                }
            }
            unknown => panic!("unknown command {unknown} of {words:?}"),
        };
        if !is_quiet || words[0] == "mg" {
            replies.extend(reply);
        }
    }

    fn put(&mut self, key: &str, client_flags: u32, data: &[u8]) {
        self.tokens += 1;
        let item = Item { bytes: data.to_vec(), client_flags, cas: self.tokens, ..Item::default() };
        self.items.insert(key.to_owned(), item);
    }

    fn read(&mut self, key: &str, words: &[&str], opaque: &str) -> Vec<u8> {
        let vivifies = words.iter().skip(2).any(|word| word.starts_with('N'));
        if !self.items.contains_key(key) {
            if !vivifies {
                return format!("EN{opaque}\r\n").into_bytes();
            }
            self.put(key, 0, b"");
            self.items.get_mut(key).unwrap().is_placeholder = true;
        }
        let item = self.items.get_mut(key).unwrap();
        if words.len() > 2 && !words.contains(&"v") {
            return format!("HD{opaque}\r\n").into_bytes();
        }
        let mut marks = String::new();
        let needs_one = item.is_stale || item.is_placeholder;
        if item.is_stale {
            marks += " X";
        }
        if needs_one && (vivifies || item.is_placeholder) {
            marks += if item.is_won { " Z" } else { " W" };
            item.is_won = true;
        }
        let facts = words.iter().skip(2).filter_map(|word| match *word {
            "f" => Some(format!(" f{}", item.client_flags)),
            "c" => Some(format!(" c{}", item.cas)),
            "t" => Some(" t-1".into()),
            _ => None,
        });
        let facts: String = facts.collect();
        let head = format!("VA {}{facts}{opaque}{marks}\r\n", item.bytes.len());
        [head.as_bytes(), &item.bytes, b"\r\n"].concat()
    }
}
