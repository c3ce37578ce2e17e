//! The layout of a frame: two little-endian `u32`, a JSON header, a body of raw UTF-8.
//!
//! ```text
//!  0        3        4                8
//!  | header length   | kind | flags  | body length | JSON header | body |
//!  | 24 bits         | 6    | 2 bits | 32 bits     |
//! ```
//! Content lies beside the header, so that it is neither escaped nor parsed twice.

/// Bytes before the header.
pub const HEAD: usize = 8;
/// The version that a worker's `Ready` frame must name.
pub const VERSION: u32 = 1;

const HEADER_BITS: u32 = 0x00ff_ffff;
const CONTENT: u8 = 0x40;
const ASCII: u8 = 0x80;

/// What a frame is. Numbers are the wire's and are never used again for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To the worker: `{id, input}`, the content as body.
    Call,
    /// From the worker: `{id, continue, metadata, error}`, the text as body.
    Result,
    /// From the worker: `{id, level}`, one line as body.
    Log,
    /// From the worker, once, when the plugin is loaded: `{version, node}`.
    Ready,
    /// Either way; the other side answers with the same header.
    Ping,
    /// To the worker: a call is given up. Reserved.
    Cancel,
    /// From the worker: `{id, reason, message, stack}`; id 0 while loading.
    Failure,
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What the frame is.
    pub kind: Kind,
    /// Bytes of the JSON header.
    pub header: usize,
    /// Bytes of the body.
    pub body: usize,
    /// Whether the body is content: an empty text and no text are two things.
    pub content: bool,
    /// Whether every byte of the body is below 128.
    pub ascii: bool,
}

impl Kind {
    fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Call,
            2 => Self::Result,
            3 => Self::Log,
            4 => Self::Ready,
            5 => Self::Ping,
            6 => Self::Cancel,
            7 => Self::Failure,
            _ => return None,
        })
    }

    fn wire(self) -> u8 {
        match self {
            Self::Call => 1,
            Self::Result => 2,
            Self::Log => 3,
            Self::Ready => 4,
            Self::Ping => 5,
            Self::Cancel => 6,
            Self::Failure => 7,
        }
    }
}

impl Head {
    /// The eight bytes of this head; none where a length does not fit its field.
    pub fn encode(&self) -> Option<[u8; HEAD]> {
        let header = u32::try_from(self.header).ok().filter(|n| *n <= HEADER_BITS)?;
        let body = u32::try_from(self.body).ok()?;
        let flags = self.kind.wire() | if self.content { CONTENT } else { 0 } | if self.ascii { ASCII } else { 0 };
        let word = header | u32::from(flags) << 24;
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&word.to_le_bytes());
        bytes[4..].copy_from_slice(&body.to_le_bytes());
        Some(bytes)
    }

    /// Reads a head; none where its kind is unknown.
    pub fn decode(bytes: [u8; HEAD]) -> Option<Self> {
        let [a, b, c, flags, body @ ..] = bytes;
        let header = u32::from_le_bytes([a, b, c, 0]);
        Some(Self {
            kind: Kind::from_wire(flags & !(CONTENT | ASCII))?,
            header: usize::try_from(header).ok()?,
            body: usize::try_from(u32::from_le_bytes(body)).ok()?,
            content: flags & CONTENT != 0,
            ascii: flags & ASCII != 0,
        })
    }

    /// Bytes of header and body together.
    pub fn rest(&self) -> usize {
        self.header.saturating_add(self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_the_wire() {
        for number in 0..64 {
            let Some(kind) = Kind::from_wire(number) else { continue };
            assert_eq!(kind.wire(), number);
            for (content, ascii) in [(false, false), (true, false), (true, true)] {
                let head = Head { kind, header: 0x00fe_dcba, body: 0xfedc_ba98, content, ascii };
                assert_eq!(Head::decode(head.encode().unwrap()), Some(head));
            }
        }
    }

    #[test]
    fn its_layout_is_fixed() {
        let head = Head { kind: Kind::Result, header: 0x0102, body: 3, content: true, ascii: true };
        assert_eq!(head.encode().unwrap(), [2, 1, 0, 0xc2, 3, 0, 0, 0]);
    }

    #[test]
    fn a_header_that_does_not_fit_is_not_cut() {
        let head = Head { kind: Kind::Call, header: 1 << 24, body: 0, content: false, ascii: false };
        assert_eq!(head.encode(), None);
    }

    #[test]
    fn unknown_kinds_are_refused() {
        assert_eq!(Head::decode([0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Head::decode([0, 0, 0, 0x3f, 0, 0, 0, 0]), None);
    }
}
