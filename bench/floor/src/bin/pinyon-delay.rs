//! A slow link: forwards every byte in both directions, delayed by a number of milliseconds.
//!
//! `pinyon-delay TARGET MILLISECONDS` listens on a free port of 127.0.0.1, prints its address and forwards each
//! connection to TARGET. It ends when its standard input does. The rate is unlimited: each direction of a connection
//! has one thread that reads, and one that writes what is due.

use std::env;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::exit;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes per read.
const CHUNK: usize = 1 << 18;
/// There are many threads, and they do little.
const STACK: usize = 1 << 17;

/// Bytes, and when to send them. Empty bytes mean the end of the stream.
type Due = (Instant, Vec<u8>);

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [target, milliseconds] = &arguments[..] else { usage() };
    let Ok(milliseconds) = milliseconds.parse() else { usage() };
    let delay = Duration::from_millis(milliseconds);
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?);
    start(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        exit(0)
    })?;
    for near in listener.incoming() {
        if let Err(error) = near.and_then(|near| forward(near, target, delay)) {
            eprintln!("pinyon-delay: {error}");
        }
    }
    Ok(())
}

fn usage() -> ! {
    eprintln!("usage: pinyon-delay TARGET MILLISECONDS");
    exit(2)
}

/// Connects to the target and starts both directions.
fn forward(near: TcpStream, target: &str, delay: Duration) -> io::Result<()> {
    let far = TcpStream::connect(target)?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    direct(near.try_clone()?, far.try_clone()?, delay)?;
    direct(far, near, delay)
}

fn direct(from: TcpStream, to: TcpStream, delay: Duration) -> io::Result<()> {
    let (sender, receiver) = channel();
    start(move || read(from, &sender, delay))?;
    start(move || write(to, &receiver))
}

fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().stack_size(STACK).spawn(work).map(drop)
}

fn read(mut from: TcpStream, sender: &Sender<Due>, delay: Duration) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).unwrap_or(0);
        let due = Instant::now() + delay;
        if sender.send((due, chunk[..count].to_vec())).is_err() || count == 0 {
            return;
        }
    }
}

/// Writes what is due until the stream ends, then passes the end on.
fn write(mut to: TcpStream, receiver: &Receiver<Due>) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if bytes.is_empty() || to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
