//! The floor that calls are measured beside: bytes that a thread sends back over the kind of socket that workers have.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// As long is measured, and as many times.
const LONGEST: Duration = Duration::from_millis(300);
const MOST: usize = 2000;

/// Milliseconds of echoes of so many bytes.
///
/// # Errors
/// Where the system has no socket or thread to give.
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
        // The other side reads it all before it answers, so neither waits for room.
        ours.write_all(&sent)?;
        ours.read_exact(&mut back)?;
        samples.push(before.elapsed().as_secs_f64() * 1e3);
    }
    drop(ours);
    let _ = echo.join();
    Ok(samples)
}
