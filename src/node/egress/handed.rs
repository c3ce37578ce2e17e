//! Passes the egress socket to a worker. A process can be started with only three descriptors, so the socket is passed
//! as standard input, and the descriptor for the actual standard input is then sent over the socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// The descriptor on which a worker finds the socket. `egress.cjs` has the same number.
const SOCKET: i32 = 4;
/// The environment variable that tells the launcher that a socket is passed as its standard input. It cannot collide
/// with a plugin's variables, because the launcher receives those with a prefix.
const MARK: &str = "HAWSEPIPE_HANDED";

/// Prepares `command` (the launcher) so that the worker has a new socket as descriptor 4, and `stdin` as its standard
/// input. Returns the gateway's end of the socket.
///
/// # Errors
/// If the socket cannot be created or `stdin` cannot be sent over it.
pub fn hand_over(command: &mut Command, stdin: OwnedFd) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let handed = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&handed)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    sendmsg(&ours, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
    command.stdin(OwnedFd::from(theirs)).env(MARK, "1");
    Ok(ours)
}

/// Called by the launcher: moves the socket to descriptor 4, and makes the descriptor received over it the standard
/// input. Does nothing if no socket was passed.
///
/// # Errors
/// If no descriptor arrives, or descriptor 4 is in use.
pub fn take_over() -> io::Result<()> {
    if std::env::var_os(MARK).is_none() {
        return Ok(());
    }
    let stdin = receive()?;
    let socket = fcntl_dupfd_cloexec(io::stdin().as_fd(), SOCKET)?;
    if socket.as_raw_fd() != SOCKET {
        return Err(io::Error::other("descriptor 4 is taken"));
    }
    rustix::stdio::dup2_stdin(stdin)?;
    fcntl_setfd(&socket, FdFlags::empty())?;
    // Dropping `socket` would close the descriptor, which must stay open across exec.
    let _ = socket.into_raw_fd();
    Ok(())
}

fn receive() -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(io::stdin().as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::empty())?;
    let mut descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    descriptors.next().ok_or_else(|| io::Error::other("no descriptor was handed over"))
}
