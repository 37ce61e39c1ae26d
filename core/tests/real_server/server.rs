//! A memcached of one's own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pinyon_core::Address;

static STARTED: AtomicUsize = AtomicUsize::new(0);

pub struct Memcached {
    process: Child,
    address: Address,
}

impl Memcached {
    pub fn tcp() -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let address = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, free)));
        Self::start(&["-l", "127.0.0.1", "-p", &free.to_string()], address)
    }

    pub fn unix() -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let path: PathBuf = std::env::temp_dir().join(format!("pinyon-{}-{number}.sock", std::process::id()));
        Self::start(&["-s", path.to_str().unwrap()], Address::Unix(path.clone()))
    }

    fn start(listen: &[&str], address: Address) -> Self {
        let process = Command::new("memcached")
            .args(listen)
            .args(["-u", "root", "-U", "0", "-t", "1", "-m", "256"])
            .spawn()
            .expect("memcached is installed: apt install memcached, or make setup");
        let server = Self { process, address };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !server.answers() {
            assert!(Instant::now() < deadline, "memcached does not listen on {}", server.address);
            std::thread::sleep(Duration::from_millis(5));
        }
        server
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
