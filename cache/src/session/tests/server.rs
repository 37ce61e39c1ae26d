//! A server that answers correctly. Values derive from their keys, so a wrong value is noticed.

use std::collections::BTreeMap;

/// The sizes of the values of keys `k0` to `k9`: empty, small, and larger than the receive buffer.
const SIZES: [usize; 10] = [0, 1, 2, 20, 300, 2048, 16_383, 16_384, 17_000, 70_000];

/// The only value that `key` ever has.
pub fn value_of(key: &str) -> Vec<u8> {
    let number = key.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(3);
    format!("({key})\r\nEN O1\r\n").bytes().cycle().take(SIZES[number]).collect()
}

#[derive(Default)]
pub struct Server {
    meta: bool,
    items: BTreeMap<String, Vec<u8>>,
    counter: u64,
    unread: Vec<u8>,
}

impl Server {
    pub fn new(meta: bool) -> Self {
        Self { meta, ..Self::default() }
    }

    /// Carries out all complete requests, and returns the replies.
    pub fn serve(&mut self, received: &[u8]) -> Vec<u8> {
        self.unread.extend_from_slice(received);
        let mut replies = Vec::new();
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&self.unread[..end]).unwrap().strip_suffix('\r').unwrap().to_owned();
            let words: Vec<&str> = line.split(' ').collect();
            let size: usize = match words[0] {
                "ms" => words[2].parse().unwrap(),
                "set" => words[4].parse().unwrap(),
                _ => {
                    self.unread.drain(..=end);
                    self.carry_out(&words, &[], &mut replies);
                    continue;
                }
            };
            if self.unread.len() < end + 1 + size + 2 {
                break;
            }
            let data = self.unread[end + 1..end + 1 + size].to_vec();
            assert!(self.unread[end + 1 + size..].starts_with(b"\r\n"));
            self.unread.drain(..end + 1 + size + 2);
            self.carry_out(&words, &data, &mut replies);
        }
        replies
    }

    fn carry_out(&mut self, words: &[&str], data: &[u8], replies: &mut Vec<u8>) {
        let key = words.get(1).copied().unwrap_or_default();
        let quiet = words.last() == Some(&"q");
        let opaque = words.iter().find(|word| word.starts_with('O')).map(|word| format!(" {word}")).unwrap_or_default();
        assert_eq!(self.meta, words[0].len() == 2 || matches!(words[0], "get" | "version") && self.meta, "{words:?}");
        match words[0] {
            "mg" => match self.items.get(key) {
                Some(value) => push_value(&format!("VA {} f0{opaque}", value.len()), value, replies),
                None => push_line(&format!("EN{opaque}"), replies),
            },
            "ms" | "set" => {
                assert!(data == value_of(key), "another key's value was stored");
                self.items.insert(key.to_owned(), data.to_vec());
                match self.meta {
                    true if quiet => {}
                    true => push_line(&format!("HD{opaque}"), replies),
                    false => push_line("STORED", replies),
                }
            }
            "md" | "delete" => match (self.items.remove(key), self.meta) {
                (Some(_), true) if quiet => {}
                (Some(_), true) => push_line(&format!("HD{opaque}"), replies),
                (None, true) => push_line(&format!("NF{opaque}"), replies),
                (Some(_), false) => push_line("DELETED", replies),
                (None, false) => push_line("NOT_FOUND", replies),
            },
            "ma" | "incr" => {
                self.counter += 1;
                let number = self.counter.to_string();
                match self.meta {
                    true => push_value(&format!("VA {}{opaque}", number.len()), number.as_bytes(), replies),
                    false => push_line(&number, replies),
                }
            }
            "get" => {
                for key in &words[1..] {
                    if let Some(value) = self.items.get(*key) {
                        push_value(&format!("VALUE {key} 0 {}", value.len()), value, replies);
                    }
                }
                push_line("END", replies);
            }
            "mn" => push_line("MN", replies),
            "version" => push_line("VERSION 1.0.0", replies),
            unknown => panic!("unknown command {unknown}"),
        }
    }
}

fn push_line(line: &str, replies: &mut Vec<u8>) {
    replies.extend_from_slice(line.as_bytes());
    replies.extend_from_slice(b"\r\n");
}

fn push_value(head: &str, value: &[u8], replies: &mut Vec<u8>) {
    push_line(head, replies);
    replies.extend_from_slice(value);
    replies.extend_from_slice(b"\r\n");
}
