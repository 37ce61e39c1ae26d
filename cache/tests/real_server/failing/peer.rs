//! A server on a socket that follows the test's orders.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const LATE: Duration = Duration::from_secs(2);

/// How a server treats a request.
#[derive(Clone, Copy)]
pub enum Act {
    /// Sends this, with the request's opaque in place of `*`. A quiet command gets nothing.
    Say(&'static str),
    /// The same after [`LATE`].
    SayLate(&'static str),
    Close,
    /// Sends this and closes the connection.
    Break(&'static str),
    Silent,
}

/// Listens until the test is over. Each act applies to the next request on any connection, and the last one to all
/// further requests.
#[derive(Clone)]
pub struct Peer {
    pub address: String,
    acts: Arc<Mutex<Vec<Act>>>,
    requests: Arc<Mutex<Vec<String>>>,
    refuses: Arc<AtomicBool>,
}

impl Peer {
    pub fn new(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let acts = Arc::new(Mutex::new(acts.iter().rev().copied().collect()));
        let peer = Self { address, acts, requests: Arc::default(), refuses: Arc::default() };
        let accepting = peer.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let peer = accepting.clone();
                std::thread::spawn(move || peer.serve(connection));
            }
        });
        peer
    }

    /// The requests since the last call, except for the version.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    /// Does this from now on.
    pub fn act(&self, act: Act) {
        *self.acts.lock().unwrap() = vec![act];
    }

    /// Closes every new connection from now on, before any request.
    pub fn refuse(&self) {
        self.refuses.store(true, Ordering::Relaxed);
    }

    fn next_act(&self) -> Act {
        let mut acts = self.acts.lock().unwrap();
        match acts.len() {
            1 => acts[0],
            _ => acts.pop().expect("an act"),
        }
    }

    fn serve(&self, connection: TcpStream) {
        let (mut replies, mut lines) = (connection.try_clone().unwrap(), BufReader::new(&connection).lines());
        while let Some(Ok(line)) = lines.next() {
            if line == "version" {
                if self.refuses.load(Ordering::Relaxed) {
                    let _ = connection.shutdown(std::net::Shutdown::Both);
                    return;
                }
                let _ = replies.write_all(b"VERSION 1.6.18\r\n");
                continue;
            }
            if line == "mn" {
                let _ = replies.write_all(b"MN\r\n");
                continue;
            }
            if line.starts_with("ms ") || line.starts_with("add ") {
                lines.next();
            }
            let opaque = line.split(' ').find_map(|word| word.strip_prefix('O')).unwrap_or_default().to_owned();
            self.requests.lock().unwrap().push(line.split(' ').take(2).collect::<Vec<_>>().join(" "));
            let (text, ends) = match self.next_act() {
                Act::Say(_) if line.ends_with(" q") => continue,
                Act::Say(text) => (text, false),
                Act::SayLate(text) => {
                    std::thread::sleep(LATE);
                    (text, false)
                }
                Act::Close => ("", true),
                Act::Break(text) => (text, true),
                Act::Silent => continue,
            };
            let _ = replies.write_all(text.replace('*', &opaque).as_bytes());
            if ends {
                let _ = connection.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}
