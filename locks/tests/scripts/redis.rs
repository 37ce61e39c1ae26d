//! A Redis server for one test, and a connection to it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pinyon_proto::resp::{encode, Decoded, Limits, Reader, Value};

static STARTED: AtomicUsize = AtomicUsize::new(0);

pub struct Redis {
    process: Child,
    path: PathBuf,
}

impl Redis {
    pub fn start() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pinyon-locks-{}-{number}.sock", std::process::id()));
        let process = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", path.to_str().unwrap(), "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed: apt install redis-server");
        let redis = Self { process, path };
        let deadline = Instant::now() + Duration::from_secs(60);
        while UnixStream::connect(&redis.path).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen on {}", redis.path.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        redis
    }

    pub fn monitor(&self) -> Monitor {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut monitor = Monitor { lines: BufReader::new(stream) };
        assert_eq!(monitor.lines.by_ref().lines().next().unwrap().unwrap(), "+OK");
        monitor
    }

    pub fn connect(&self) -> Connection {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let reader = Reader::new(Limits::default());
        let mut connection = Connection { stream, reader, pushes: VecDeque::new() };
        connection.run(&[b"HELLO", b"3"]);
        connection
    }
}

/// All that a server does.
pub struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// The lines until one that contains these words.
    pub fn until(&mut self, end: &str) -> Vec<String> {
        let lines = (&mut self.lines).lines().map(|line| line.expect("Redis answers"));
        lines.take_while(|line| !line.contains(end)).collect()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Uses RESP3, so pushes arrive between replies.
pub struct Connection {
    stream: UnixStream,
    reader: Reader,
    pub pushes: VecDeque<Vec<Value>>,
}

impl Connection {
    pub fn run(&mut self, command: &[&[u8]]) -> Value {
        self.run_all(&[command.to_vec()]).remove(0)
    }

    /// Sends the commands together. Afterwards, everything that they published to this connection is among the pushes.
    pub fn run_all(&mut self, commands: &[Vec<&[u8]>]) -> Vec<Value> {
        let mut request = Vec::new();
        commands.iter().for_each(|command| encode(command, &mut request));
        encode(&[b"PING", b"all is here"], &mut request);
        self.stream.write_all(&request).unwrap();
        let end = Value::Bytes(b"all is here"[..].into());
        let mut replies = Vec::new();
        let mut received = vec![0; 1 << 16];
        while replies.last() != Some(&end) {
            let length = self.stream.read(&mut received).expect("Redis answers");
            assert!(length > 0, "Redis has closed the connection");
            let mut rest = &received[..length];
            while let (taken, Some(decoded)) = self.reader.read(rest).unwrap() {
                rest = &rest[taken..];
                match decoded {
                    Decoded::Reply(reply) => replies.push(reply),
                    Decoded::Push(push) => self.pushes.push_back(push),
                }
                if rest.is_empty() {
                    break;
                }
            }
        }
        replies.pop();
        replies
    }
}
