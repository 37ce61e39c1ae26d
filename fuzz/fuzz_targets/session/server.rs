//! An honest server. It has every key from the start, and values derive from their keys.

use std::collections::VecDeque;

/// The number of keys.
pub const KEYS: usize = 6;

/// The sizes of their values. Some are received straight into the host's memory.
const SIZES: [usize; KEYS] = [24, 24, 24, 300, 20_000, 20_000];

pub fn name_of(number: usize) -> String {
    format!("k{number}")
}

/// Bytes that noise is unlikely to contain.
pub fn value_of(number: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(number as u64 + 1);
    let bytes = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    bytes.take(SIZES[number]).collect()
}

pub struct Server {
    meta: bool,
    unread: Vec<u8>,
    /// The replies in order, separately. A get of many keys has one reply.
    pub replies: VecDeque<Vec<u8>>,
}

impl Server {
    pub fn new(meta: bool) -> Self {
        Self { meta, unread: Vec::new(), replies: VecDeque::new() }
    }

    /// Begins a new connection.
    pub fn forget(&mut self) {
        self.unread.clear();
        self.replies.clear();
    }

    pub fn serve(&mut self, sent: &[u8]) {
        self.unread.extend_from_slice(sent);
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8(self.unread[..end - 1].to_vec()).unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            let data = match words[0] {
                "ms" => words[2].parse::<usize>().unwrap() + 2,
                "set" => words[4].parse::<usize>().unwrap() + 2,
                _ => 0,
            };
            if self.unread.len() < end + 1 + data {
                return;
            }
            self.unread.drain(..end + 1 + data);
            let reply = self.answer(&words);
            if !reply.is_empty() {
                self.replies.push_back(reply);
            }
        }
    }

    fn answer(&self, words: &[&str]) -> Vec<u8> {
        let opaque = words.iter().skip(2).find(|word| word.starts_with('O')).copied().unwrap_or_default();
        let number = |word: &str| word[1..].parse::<usize>().unwrap();
        let quiet = words.last() == Some(&"q");
        match words[0] {
            "mg" if words.contains(&"v") => {
                let value = value_of(number(words[1]));
                [format!("VA {} f0 {opaque}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()
            }
            "ms" | "md" if quiet => Vec::new(),
            "ma" if quiet => Vec::new(),
            "mg" | "ms" | "md" => format!("HD {opaque}\r\n").into_bytes(),
            "ma" => format!("VA 1 {opaque}\r\n5\r\n").into_bytes(),
            "me" => format!("ME {} size=1\r\n", words[1]).into_bytes(),
            "mn" => b"MN\r\n".to_vec(),
            "get" => {
                let mut reply = Vec::new();
                for word in &words[1..] {
                    let value = value_of(number(word));
                    reply.extend_from_slice(format!("VALUE {word} 0 {}\r\n", value.len()).as_bytes());
                    reply.extend_from_slice(&value);
                    reply.extend_from_slice(b"\r\n");
                }
                reply.extend_from_slice(b"END\r\n");
                reply
            }
            "set" => b"STORED\r\n".to_vec(),
            "delete" => b"DELETED\r\n".to_vec(),
            "incr" => b"5\r\n".to_vec(),
            "touch" => b"TOUCHED\r\n".to_vec(),
            "version" => b"VERSION 1.5.22\r\n".to_vec(),
            unknown => panic!("unknown command {unknown}, meta {}", self.meta),
        }
    }
}
