//! Measures a lower bound (the floor) for the duration of calls: a thread echoes bytes over the kind of socket that
//! workers use.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The measurement ends after this time or after this number of echoes, whichever is first.
const LONGEST: Duration = Duration::from_millis(300);
const MOST: usize = 2000;

/// Makes echoes of `bytes` bytes, and returns the duration of each in milliseconds.
///
/// # Errors
/// If the system cannot create a socket or a thread.
pub fn echoes(bytes: usize) -> io::Result<Vec<f64>> {
    let (mut ours, mut theirs) = UnixStream::pair()?;
    let echo = std::thread::Builder::new().name("echo".to_owned()).spawn(move || {
        let mut buffer = vec![0; bytes];
        while theirs.read_exact(&mut buffer).is_ok() && theirs.write_all(&buffer).is_ok() {}
    })?;
    let (sent, mut back) = (vec![b'x'; bytes], vec![0; bytes]);
    let (started, mut samples) = (Instant::now(), Vec::new());
    while samples.len() < MOST && started.elapsed() < LONGEST {
        let before = Instant::now();
        // The echo thread reads everything before it answers, so the two sides never block each other.
        ours.write_all(&sent)?;
        ours.read_exact(&mut back)?;
        samples.push(before.elapsed().as_secs_f64() * 1e3);
    }
    drop(ours);
    let _ = echo.join();
    Ok(samples)
}
