//! A memcached of one's own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pinyon_core::Address;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Below the ports that the system gives to outgoing connections: none takes a server's port while it is restarted.
const PORTS: u16 = 12_000;
/// So many belong to the process that listens on the first of them, as with the servers of Python's tests.
const OWN_PORTS: u16 = 100;
const PROCESSES: u16 = 100;

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

    /// One that wants a login: the user `app` with `correct-horse`.
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

    /// Ends it, and starts another one at its address.
    pub fn restart(&mut self) {
        self.stop();
        self.process = process(&self.listen);
        self.await_answer();
    }
}

/// A port that nobody listens on, and that other processes of tests leave alone.
fn free_port() -> u16 {
    static FIRST: OnceLock<TcpListener> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = FIRST.get_or_init(reserve).local_addr().unwrap().port();
    let own = std::iter::from_fn(|| Some(first + 1 + NEXT.fetch_add(1, Ordering::Relaxed) % (OWN_PORTS - 1)));
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
    own.take(OWN_PORTS.into()).find(is_free).expect("one of its own ports is free")
}

fn reserve() -> TcpListener {
    let chance = (std::process::id() % u32::from(PROCESSES)) as u16;
    (0..PROCESSES)
        .map(|number| PORTS + (chance + number) % PROCESSES * OWN_PORTS)
        .find_map(|first| TcpListener::bind((Ipv4Addr::LOCALHOST, first)).ok())
        .expect("fewer processes have servers at once")
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
