//! A memcached server for one test.

#[path = "../ports/mod.rs"]
mod ports;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pinyon_core::Address;

use ports::free_port;

static STARTED: AtomicUsize = AtomicUsize::new(0);

pub struct Memcached {
    process: Child,
    listen: Vec<String>,
    address: Address,
}

impl Memcached {
    pub fn tcp() -> Self {
        Self::tcp_with(&[])
    }

    fn tcp_with(options: &[&str]) -> Self {
        let free = free_port();
        let address = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, free)));
        let port = free.to_string();
        Self::start(&[&["-l", "127.0.0.1", "-p", &port], options].concat(), address)
    }

    pub fn unix() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf = std::env::temp_dir().join(format!("pinyon-{}-{number}.sock", std::process::id()));
        Self::start(&["-s", path.to_str().unwrap()], Address::Unix(path.clone()))
    }

    /// A server with a login: the user `app` with `correct-horse`.
    pub fn guarded() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let users = std::env::temp_dir().join(format!("pinyon-{}-{number}.users", std::process::id()));
        std::fs::write(&users, "app:correct-horse\n").unwrap();
        let server = Self::tcp_with(&["-Y", users.to_str().unwrap()]);
        std::fs::remove_file(users).unwrap();
        server
    }

    fn start(listen: &[&str], address: Address) -> Self {
        let listen: Vec<_> = listen.iter().map(|argument| (*argument).to_owned()).collect();
        let server = Self { process: process(&listen), listen, address };
        server.await_answer();
        server
    }

    fn await_answer(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.answers() {
            assert!(Instant::now() < deadline, "memcached does not listen on {}", self.address);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn answers(&self) -> bool {
        match &self.address {
            Address::Tcp(address) => TcpStream::connect(address).is_ok(),
            Address::Unix(path) => UnixStream::connect(path).is_ok(),
        }
    }

    pub fn address(&self) -> Address {
        self.address.clone()
    }

    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops it, and starts another one at its address.
    pub fn restart(&mut self) {
        self.stop();
        self.process = process(&self.listen);
        self.await_answer();
    }
}

fn process(listen: &[String]) -> Child {
    let mut command = Command::new("memcached");
    command.args(listen).args(["-u", "root", "-U", "0", "-t", "1", "-m", "256"]);
    command.spawn().expect("memcached is installed: apt install memcached, or make setup")
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}
