//! A Redis server for one test, in a directory of its own.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pinyon_net::{Address, Endpoint};
use pinyon_proto::resp::{Decoded, Reader, Value};

static STARTED: AtomicUsize = AtomicUsize::new(0);

pub struct Redis {
    process: Option<Child>,
    arguments: Vec<String>,
    directory: PathBuf,
}

impl Redis {
    /// Starts it with these additional lines of configuration.
    pub fn start(configuration: &str) -> Self {
        Self::start_as(&[], configuration)
    }

    /// Starts a Sentinel with this configuration.
    pub fn sentinel(configuration: &str) -> Self {
        Self::start_as(&["--sentinel"], configuration)
    }

    fn start_as(arguments: &[&str], configuration: &str) -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("pinyon-redis-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("redis.conf");
        let socket = directory.join("socket");
        let own = format!("port 0\nunixsocket {}\ndir {}\n", socket.display(), directory.display());
        let own = if arguments.is_empty() { own + "save \"\"\n" } else { own };
        std::fs::write(&file, own + configuration).unwrap();
        let arguments =
            std::iter::once(file.display().to_string()).chain(arguments.iter().map(|word| word.to_string()));
        let mut server = Self { process: None, arguments: arguments.collect(), directory };
        server.run();
        server
    }

    /// Starts it, again after [`Self::stop`], without its data.
    pub fn run(&mut self) {
        let process = Command::new("redis-server").args(&self.arguments).stdout(Stdio::null()).spawn();
        self.process = Some(process.expect("redis-server is installed: apt install redis-server, or make setup"));
        let socket = self.directory.join("socket");
        let deadline = Instant::now() + Duration::from_secs(60);
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen on {}", socket.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn address(&self) -> Address {
        Address::Unix(self.directory.join("socket"))
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.directory.join("socket"))
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args(["-s", signal, &self.process.as_ref().expect("it runs").id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "it is not sent");
    }

    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// How many functions or scripts were called.
    pub fn calls(&self) -> u64 {
        let Value::Bytes(text) = self.ask(&["INFO", "commandstats"]) else { panic!("no statistics") };
        let text = String::from_utf8(text.into()).unwrap();
        let count = |line: &str| {
            let counts = line.strip_prefix("cmdstat_fcall:").or(line.strip_prefix("cmdstat_evalsha:"))?;
            counts.strip_prefix("calls=")?.split(',').next()?.parse::<u64>().ok()
        };
        text.lines().filter_map(count).sum()
    }

    /// Kills it and starts it again, without its data.
    pub fn restart(&mut self) {
        self.stop();
        self.run();
    }

    /// Sends one command on a connection of its own.
    pub fn ask(&self, command: &[&str]) -> Value {
        let mut stream = UnixStream::connect(self.directory.join("socket")).expect("it listens");
        let mut text = format!("*{}\r\n", command.len());
        command.iter().for_each(|word| text.push_str(&format!("${}\r\n{word}\r\n", word.len())));
        stream.write_all(text.as_bytes()).unwrap();
        let (mut reader, mut received, mut buffer) = (Reader::default(), Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "it answers");
            received.extend_from_slice(&buffer[..count]);
            let (consumed, reply) = reader.read(&received).unwrap();
            received.drain(..consumed);
            if let Some(Decoded::Reply(value)) = reply {
                return value;
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
