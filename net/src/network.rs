//! Sockets: the core's system calls on connections, behind traits that tests replace.

use std::cell::Cell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    connect, recv, recvmsg, send, sendmsg, sockopt, AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketType,
};

use crate::address::Address;

/// Opens streams.
pub trait Network {
    type Stream: Stream;

    /// Begins to connect without waiting.
    fn open(&self, address: &Address) -> io::Result<Self::Stream>;
}

/// A connection that is established or in progress. Its calls never wait: they return `WouldBlock` instead.
pub trait Stream {
    /// Whether it is connected now. Returns the error if connecting failed.
    fn connected(&mut self) -> io::Result<bool>;

    /// Sends the pieces in order, as far as there is room. Returns the number of bytes.
    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Fills the buffers in order with what has arrived. Returns the number of bytes, 0 at the end of the stream.
    fn receive(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
}

/// The operating system's network.
#[derive(Clone, Copy, Debug, Default)]
pub struct System {
    pub keepalive: Keepalive,
}

/// When the system asks the peer of a silent TCP connection whether it is still there. Firewalls and load balancers forget
/// connections that are silent for some minutes (Azure after 4, AWS after 350 s), and tell neither side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// The silence after which it asks first. `None`: it never asks.
    pub idle: Option<Duration>,
    /// The time between two questions, while none is answered.
    pub interval: Duration,
    /// How many questions remain unanswered before the connection counts as lost.
    pub probes: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self { idle: Some(Duration::from_secs(60)), interval: Duration::from_secs(15), probes: 4 }
    }
}

impl Keepalive {
    /// The longest times that Linux takes, in seconds.
    pub const LONGEST: u64 = 32_767;
    /// The most questions that Linux takes.
    pub(crate) const MOST_PROBES: u32 = 127;

    fn set(&self, fd: &OwnedFd) -> rustix::io::Result<()> {
        let Some(idle) = self.idle else { return sockopt::set_socket_keepalive(fd, false) };
        sockopt::set_socket_keepalive(fd, true)?;
        sockopt::set_tcp_keepidle(fd, whole_seconds(idle))?;
        sockopt::set_tcp_keepintvl(fd, whole_seconds(self.interval))?;
        sockopt::set_tcp_keepcnt(fd, self.probes)
    }
}

/// The system takes whole seconds, at least one.
fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs_f64().ceil().max(1.0) as u64)
}

/// A send to a peer that has closed must fail without raising a signal.
#[cfg(not(target_vendor = "apple"))]
const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
/// Here, an option of the socket prevents the signal.
#[cfg(target_vendor = "apple")]
const NO_SIGNAL: SendFlags = SendFlags::empty();

#[cfg(not(target_vendor = "apple"))]
fn new_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    use rustix::net::{socket_with, SocketFlags};

    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

#[cfg(target_vendor = "apple")]
fn new_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let fd = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    sockopt::set_socket_nosigpipe(&fd, true)?;
    Ok(fd)
}

/// A TCP or Unix socket.
#[derive(Debug)]
pub struct Socket {
    fd: Arc<OwnedFd>,
    connecting: bool,
    /// Whether [`Self::receive_waiting`] may be called.
    waits: Cell<bool>,
}

impl Network for System {
    type Stream = Socket;

    fn open(&self, address: &Address) -> io::Result<Socket> {
        let family = match address {
            Address::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
            Address::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
            Address::Unix(_) => AddressFamily::UNIX,
        };
        let fd = new_socket(family)?;
        let begun = match address {
            Address::Tcp(address) => {
                sockopt::set_tcp_nodelay(&fd, true)?;
                self.keepalive.set(&fd)?;
                connect(&fd, address)
            }
            Address::Unix(path) => connect(&fd, &SocketAddrUnix::new(path)?),
        };
        let fd = Arc::new(fd);
        match begun {
            Ok(()) => Ok(Socket { fd, connecting: false, waits: Cell::new(false) }),
            Err(Errno::INPROGRESS) => Ok(Socket { fd, connecting: true, waits: Cell::new(false) }),
            Err(error) => Err(error.into()),
        }
    }
}

impl Stream for Socket {
    fn connected(&mut self) -> io::Result<bool> {
        if !self.connecting {
            return Ok(true);
        }
        sockopt::socket_error(&self.fd)??;
        self.connecting = rustix::net::getpeername(&self.fd).is_err();
        Ok(!self.connecting)
    }

    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | NO_SIGNAL;
        match pieces {
            [piece] => Ok(send(&self.fd, piece, flags)?),
            _ => Ok(sendmsg(&self.fd, pieces, &mut SendAncillaryBuffer::default(), flags)?),
        }
    }

    fn receive(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.receive_with(buffers, RecvFlags::DONTWAIT)
    }
}

impl Socket {
    /// Lets [`Self::receive_waiting`] wait, for at most `timeout` each time. Decided once.
    #[inline]
    pub fn let_wait(&self, timeout: impl FnOnce() -> Duration) -> io::Result<()> {
        match self.waits.get() {
            true => Ok(()),
            false => self.begin_to_wait(timeout()),
        }
    }

    #[cold]
    fn begin_to_wait(&self, timeout: Duration) -> io::Result<()> {
        sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Recv, Some(timeout))?;
        rustix::io::ioctl_fionbio(&self.fd, false)?;
        self.waits.set(true);
        Ok(())
    }

    /// Like [`Stream::receive`], but waits for bytes. `WouldBlock` means that the socket's timeout has passed,
    /// `Interrupted` that a signal came.
    pub fn receive_waiting(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.receive_with(buffers, RecvFlags::empty())
    }

    /// The descriptor, for a thread that waits on it while others use the connection and may close it.
    pub fn descriptor(&self) -> Arc<OwnedFd> {
        self.fd.clone()
    }

    /// Whether the connection is open and silent, as an idle one must be.
    pub fn is_at_rest(&self) -> bool {
        let mut byte = [0u8];
        recv(&self.fd, &mut byte, RecvFlags::DONTWAIT | RecvFlags::PEEK) == Err(Errno::AGAIN)
    }

    #[inline]
    fn receive_with(&mut self, buffers: &mut [IoSliceMut<'_>], flags: RecvFlags) -> io::Result<usize> {
        match buffers {
            [buffer] => Ok(recv(&self.fd, &mut **buffer, flags)?.0),
            _ => Ok(recvmsg(&self.fd, buffers, &mut RecvAncillaryBuffer::default(), flags)?.bytes),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn connected(keepalive: Keepalive) -> Socket {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        System { keepalive }.open(&Address::Tcp(listener.local_addr().unwrap())).unwrap()
    }

    #[test]
    fn the_system_asks_whether_a_silent_connection_is_there_before_a_firewall_forgets_it() {
        let socket = connected(Keepalive::default());
        assert!(sockopt::socket_keepalive(&socket.fd).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket.fd).unwrap(), Duration::from_secs(60));
        assert_eq!(sockopt::tcp_keepintvl(&socket.fd).unwrap(), Duration::from_secs(15));
        assert_eq!(sockopt::tcp_keepcnt(&socket.fd).unwrap(), 4);
    }

    #[test]
    fn fractions_of_a_second_are_rounded_up_and_no_keepalive_is_none() {
        let idle = Some(Duration::from_millis(200));
        let socket = connected(Keepalive { idle, ..Keepalive::default() });
        assert_eq!(sockopt::tcp_keepidle(&socket.fd).unwrap(), Duration::from_secs(1));
        let socket = connected(Keepalive { idle: None, ..Keepalive::default() });
        assert!(!sockopt::socket_keepalive(&socket.fd).unwrap());
    }
}
