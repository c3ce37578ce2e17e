//! The size of values as JSON.

use std::io;

use serde::Serialize;

/// Counts the bytes that are written.
struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the number of bytes of a value as JSON, without writing it anywhere. A value that cannot be JSON has none.
pub fn json_size(value: &impl Serialize) -> u64 {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).map_or(0, |()| counter.0)
}

#[cfg(test)]
mod tests {
    use super::json_size;

    #[test]
    fn the_size_is_that_of_the_text() {
        let value = serde_json::json!({"a\n": ["\u{1}é", 1.5, null], "b": {}});
        assert_eq!(json_size(&value), value.to_string().len() as u64);
    }
}
