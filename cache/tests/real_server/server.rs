//! A memcached server for one test.

#[path = "../../../net/tests/ports/mod.rs"]
mod ports;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pinyon_net::Address;

use ports::free_port;

const ATTEMPTS: usize = 10;
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

    /// Takes another port if something took the first one meanwhile.
    fn tcp_with(options: &[&str]) -> Self {
        let attempt = || {
            let free = free_port();
            let address = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, free)));
            let port = free.to_string();
            Self::start(&[&["-l", "127.0.0.1", "-p", &port], options].concat(), address)
        };
        (0..ATTEMPTS).find_map(|_| attempt()).expect("memcached finds a port to listen on")
    }

    pub fn unix() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf = std::env::temp_dir().join(format!("pinyon-{}-{number}.sock", std::process::id()));
        Self::start(&["-s", path.to_str().unwrap()], Address::Unix(path.clone())).expect("memcached listens")
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

    /// Returns none if the server ended at once.
    fn start(listen: &[&str], address: Address) -> Option<Self> {
        let listen: Vec<_> = listen.iter().map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { process: process(&listen), listen, address };
        server.comes_up().then_some(server)
    }

    /// Waits until it answers, or has ended.
    fn comes_up(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.answers() {
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "memcached does not listen on {}", self.address);
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Asks, as another program may listen on the port and answer nothing. One that wants a login refuses the command.
    fn answers(&self) -> bool {
        match &self.address {
            Address::Tcp(address) => TcpStream::connect(address).is_ok_and(is_answered),
            Address::Unix(path) => UnixStream::connect(path).is_ok_and(is_answered),
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
        assert!(self.comes_up(), "memcached does not listen again on {}", self.address);
    }
}

fn is_answered(mut stream: impl Read + Write) -> bool {
    stream.write_all(b"version\r\n").is_ok() && stream.read(&mut [0; 64]).is_ok_and(|length| length > 0)
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
