//! The floor for the time of an execution: a frame goes from one Rust process to another and back, over a socketpair.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::child::Child;
use crate::load::{Latencies, quantile};

/// The largest frame, in bytes.
const MAX_FRAME: usize = 4 << 20;

/// Sends back each frame that arrives on standard input, until the other end is closed.
pub fn echo() -> Result<()> {
    let mut socket = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut frame = Vec::new();
    while read_frame(&mut socket, &mut frame).is_ok() {
        socket.write_all(&frame)?;
    }
    Ok(())
}

/// An echo in another process.
pub struct Floor {
    socket: UnixStream,
    _echo: Child,
}

impl Floor {
    /// Starts the process that echoes.
    pub fn start() -> Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("echo-frames").stdin(Stdio::from(OwnedFd::from(theirs)));
        Ok(Self { socket, _echo: Child::start("the echo", &mut command)? })
    }

    /// Measures for `time` and returns the median round trip of a frame of `size` bytes, in microseconds.
    pub fn measure(&mut self, size: usize, time: Duration) -> Result<f64> {
        quantile(&self.times(size, time)?, 0.5).context("no echo came back")
    }

    /// Measures for `time` and returns all round trips of a frame of `size` bytes, in microseconds, sorted.
    pub fn times(&mut self, size: usize, time: Duration) -> Result<Latencies> {
        let frame = framed(size)?;
        let (mut answer, mut latencies) = (Vec::new(), Latencies::new());
        let until = Instant::now() + time;
        while Instant::now() < until {
            let began = Instant::now();
            self.socket.write_all(&frame)?;
            read_frame(&mut self.socket, &mut answer)?;
            latencies.push(began.elapsed().as_secs_f64() * 1e6);
            ensure!(answer.len() == frame.len(), "the echo lost bytes");
        }
        latencies.sort_by(f64::total_cmp);
        Ok(latencies)
    }
}

/// Makes a frame: its length in four bytes, and then `size` bytes.
fn framed(size: usize) -> Result<Vec<u8>> {
    let mut frame = u32::try_from(size)?.to_le_bytes().to_vec();
    frame.resize(size + 4, b'x');
    Ok(frame)
}

/// Reads one frame, including its length, into `frame`.
fn read_frame(socket: &mut impl Read, frame: &mut Vec<u8>) -> Result<()> {
    frame.resize(4, 0);
    socket.read_exact(frame)?;
    let length = frame.first_chunk().map_or(0, |length| u32::from_le_bytes(*length)) as usize;
    ensure!(length <= MAX_FRAME, "a frame of {length} bytes");
    frame.resize(length + 4, 0);
    Ok(socket.read_exact(&mut frame[4..])?)
}
