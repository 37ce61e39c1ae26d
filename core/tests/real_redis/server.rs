//! A Redis server for one test, in a directory of its own.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pinyon_core::Address;

static STARTED: AtomicUsize = AtomicUsize::new(0);

pub struct Redis {
    process: Child,
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
        let process = Command::new("redis-server")
            .arg(&file)
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed: apt install redis-server, or make setup");
        let server = Self { process, directory };
        let deadline = Instant::now() + Duration::from_secs(10);
        while UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen on {}", socket.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    pub fn address(&self) -> Address {
        Address::Unix(self.directory.join("socket"))
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.process.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "it is not sent");
    }

    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
