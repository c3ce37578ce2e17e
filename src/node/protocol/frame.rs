//! The layout of a frame: two little-endian `u32`, a JSON header, and a body of raw UTF-8 or, on connections, raw
//! bytes.
//!
//! ```text
//!  0        3        4                8
//!  | header length   | kind | flags  | body length | JSON header | body |
//!  | 24 bits         | 6    | 2 bits | 32 bits     |
//! ```
//! Content is outside the header, so that it is neither escaped nor parsed twice. `docs/worker-protocol.md` describes
//! what each kind is for and who may send it.

use serde::Serialize;

/// Bytes of a [`Head`], which comes before the JSON header.
pub const HEAD: usize = 8;
/// The version that a worker's `Ready` frame must name.
pub const VERSION: u32 = 1;
/// The maximum number of bytes of the JSON header of a worker's frame.
pub const MAX_HEADER: usize = 1 << 20;

const HEADER_BITS: u32 = 0x00ff_ffff;
const CONTENT: u8 = 0x40;
const ASCII: u8 = 0x80;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal,)*) => {
        /// The kind of a frame. The numbers are part of the protocol and are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FrameKind { $($(#[doc = $doc])+ $name = $number,)* }

        impl FrameKind {
            /// All kinds, by number.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            fn from_wire(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// To the worker: `{id, timeoutMs, input}`, with the content as body.
    Call = 1,
    /// From the worker: `{id, continue, metadata, error}`, with the text as body.
    Result = 2,
    /// From the worker: `{id, level}`, with one line as body.
    Log = 3,
    /// From the worker, once, when the plugin is loaded: `{version, node}`.
    Ready = 4,
    /// To the worker, which sends it back unchanged.
    Ping = 5,
    /// To the worker: the call `{id}` is given up.
    Cancel = 6,
    /// From the worker: `{id, reason, message, summary, stack}`. The id is 0 while the plugin is loaded.
    Failure = 7,
    /// From the worker, during a call: `{id, ask, tool}`, with the arguments as body. The gateway answers each such
    /// request once.
    Ask = 8,
    /// To the worker: `{ask, error}`. The body is the result, or the error if `error` is true.
    Reply = 9,
    /// From the worker, during a call: `{id, progress, total, message}`.
    Progress = 10,
    /// From the worker, on the socket for connections: `{stream, host, port}`.
    Open = 11,
    /// In either direction on a connection: `{stream}`, with bytes as body. An empty body means that no more follow.
    Chunk = 12,
    /// In either direction on a connection: `{stream}`. The receiver may send one more chunk.
    Credit = 13,
    /// In either direction on a connection: `{stream}` has ended, with `{code, message}` if it failed.
    Close = 14,
    /// To the worker, first of all, if its plugin is not middleware: `{name, version, config}` for its `initialize`.
    Initialize = 15,
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// Bytes of the JSON header.
    pub header: usize,
    /// Bytes of the body.
    pub body: usize,
    /// Whether the frame has a body. Distinguishes an empty text from no text.
    pub content: bool,
    /// Whether every byte of the body is below 128.
    pub ascii: bool,
}

/// What was found at the beginning of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A whole frame.
    Whole(Head),
    /// An incomplete frame, which needs this many more bytes.
    Part(usize),
}

/// Why bytes are not a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The kind is unknown.
    Kind,
    /// The header or the body has more than this many bytes.
    TooLarge(usize),
}

impl Start {
    /// Examines the beginning of `bytes`. `max_body` returns how many bytes the body of a frame of this kind may have.
    ///
    /// # Errors
    /// If the bytes are not a frame, or the frame is too large. Both are detected as soon as the head is complete.
    pub fn of(bytes: &[u8], max_body: impl FnOnce(FrameKind) -> usize) -> Result<Self, Malformed> {
        let Some(head) = bytes.first_chunk::<HEAD>() else { return Ok(Self::Part(HEAD - bytes.len())) };
        let head = Head::decode(*head).ok_or(Malformed::Kind)?;
        if head.header > MAX_HEADER {
            return Err(Malformed::TooLarge(MAX_HEADER));
        }
        let max_body = max_body(head.kind);
        if head.body > max_body {
            return Err(Malformed::TooLarge(max_body));
        }
        Ok(match head.length().saturating_sub(bytes.len()) {
            0 => Self::Whole(head),
            missing => Self::Part(missing),
        })
    }
}

impl Head {
    /// Encodes the head. Returns `None` if a length does not fit in its field.
    pub fn encode(&self) -> Option<[u8; HEAD]> {
        let header = u32::try_from(self.header).ok().filter(|n| *n <= HEADER_BITS)?;
        let body = u32::try_from(self.body).ok()?;
        let flags = self.kind as u8 | if self.content { CONTENT } else { 0 } | if self.ascii { ASCII } else { 0 };
        let word = header | u32::from(flags) << 24;
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&word.to_le_bytes());
        bytes[4..].copy_from_slice(&body.to_le_bytes());
        Some(bytes)
    }

    /// Decodes a head. Returns `None` if its kind is unknown.
    pub fn decode(bytes: [u8; HEAD]) -> Option<Self> {
        let [a, b, c, flags, body @ ..] = bytes;
        let header = u32::from_le_bytes([a, b, c, 0]);
        Some(Self {
            kind: FrameKind::from_wire(flags & !(CONTENT | ASCII))?,
            header: usize::try_from(header).ok()?,
            body: usize::try_from(u32::from_le_bytes(body)).ok()?,
            content: flags & CONTENT != 0,
            ascii: flags & ASCII != 0,
        })
    }

    /// The length of the whole frame in bytes.
    pub fn length(&self) -> usize {
        HEAD.saturating_add(self.header).saturating_add(self.body)
    }

    /// Returns the JSON header and the body of the frame at the beginning of `bytes`.
    pub fn parts<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let json = bytes.get(HEAD..HEAD + self.header).unwrap_or_default();
        let body = bytes.get(HEAD + self.header..self.length()).unwrap_or_default();
        (json, body)
    }
}

/// Replaces `out` with the head and the JSON header of a frame. The body must be sent right after them. Returns `None`
/// if the header or the body is too large for a frame.
pub fn begin(out: &mut Vec<u8>, kind: FrameKind, header: &impl Serialize, body: Option<&[u8]>) -> Option<()> {
    out.clear();
    out.resize(HEAD, 0);
    serde_json::to_writer(&mut *out, header).ok()?;
    let (content, ascii) = (body.is_some(), body.is_some_and(<[u8]>::is_ascii));
    let head = Head { kind, header: out.len() - HEAD, body: body.map_or(0, <[u8]>::len), content, ascii };
    out[..HEAD].copy_from_slice(&head.encode()?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Authors of hosts in other languages have only docs/worker-protocol.md to rely on.
    #[test]
    fn every_kind_has_its_section_and_number_in_the_docs() {
        let page = include_str!("../../../docs/worker-protocol.md");
        for kind in FrameKind::ALL {
            let (number, anchor) = (*kind as u8, format!("{kind:?}").to_lowercase());
            assert!(page.contains(&format!("\n## {kind:?}\n")), "no section on {kind:?}");
            assert!(page.contains(&format!("\n| {number} | [{kind:?}](#{anchor}) |")), "not listed: {kind:?}");
        }
    }

    #[test]
    fn a_head_survives_the_wire() {
        for kind in FrameKind::ALL.iter().copied() {
            for (content, ascii) in [(false, false), (true, false), (true, true)] {
                let head = Head { kind, header: 0x00fe_dcba, body: 0xfedc_ba98, content, ascii };
                assert_eq!(Head::decode(head.encode().unwrap()), Some(head));
            }
        }
    }

    #[test]
    fn its_layout_is_fixed() {
        let head = Head { kind: FrameKind::Result, header: 0x0102, body: 3, content: true, ascii: true };
        assert_eq!(head.encode().unwrap(), [2, 1, 0, 0xc2, 3, 0, 0, 0]);
        let mut frame = Vec::new();
        begin(&mut frame, FrameKind::Chunk, &serde_json::json!({"stream": 7}), Some(b"\xff")).unwrap();
        assert_eq!(frame, *b"\x0c\0\0\x4c\x01\0\0\0{\"stream\":7}");
    }

    #[test]
    fn a_header_that_does_not_fit_is_not_cut() {
        let head = Head { kind: FrameKind::Call, header: 1 << 24, body: 0, content: false, ascii: false };
        assert_eq!(head.encode(), None);
        let header = "x".repeat(1 << 24);
        assert_eq!(begin(&mut Vec::new(), FrameKind::Call, &header, None), None);
    }

    #[test]
    fn unknown_kinds_are_refused() {
        for kind in (0..64).filter(|kind| *kind == 0 || usize::from(*kind) > FrameKind::ALL.len()) {
            assert_eq!(Head::decode([0, 0, 0, kind, 0, 0, 0, 0]), None, "{kind}");
            assert_eq!(Start::of(&[0, 0, 0, kind, 0, 0, 0, 0], |_| 0), Err(Malformed::Kind));
        }
    }

    #[test]
    fn a_frame_is_whole_when_its_last_byte_is_there() {
        let mut frame = Vec::new();
        begin(&mut frame, FrameKind::Result, &serde_json::json!({"id": 1}), Some(b"text")).unwrap();
        frame.extend_from_slice(b"text");
        for cut in 0..frame.len() {
            let missing = if cut < HEAD { HEAD - cut } else { frame.len() - cut };
            assert_eq!(Start::of(&frame[..cut], |_| 4), Ok(Start::Part(missing)), "{cut}");
        }
        frame.extend_from_slice(b"next");
        let Ok(Start::Whole(head)) = Start::of(&frame, |_| 4) else { panic!("it is whole") };
        assert_eq!(head.parts(&frame), (&b"{\"id\":1}"[..], &b"text"[..]));
        assert_eq!(head.length(), frame.len() - 4);
    }

    #[test]
    fn what_is_too_large_is_known_by_its_head() {
        let head =
            |header: usize, body: usize| Head { kind: FrameKind::Log, header, body, content: true, ascii: false };
        let start = |header, body| Start::of(&head(header, body).encode().unwrap(), |_| 100);
        assert_eq!(start(MAX_HEADER + 1, 0), Err(Malformed::TooLarge(MAX_HEADER)));
        assert_eq!(start(0, 101), Err(Malformed::TooLarge(100)));
        assert_eq!(start(0, u32::MAX as usize), Err(Malformed::TooLarge(100)));
        assert_eq!(start(MAX_HEADER, 100), Ok(Start::Part(MAX_HEADER + 100)));
    }

    /// Random bytes, and frames with one byte changed, never cause a panic or a request for more bytes than the limits
    /// allow.
    #[test]
    fn nothing_that_is_sent_breaks_the_decoder() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut frame = Vec::new();
        begin(&mut frame, FrameKind::Result, &serde_json::json!({"id": 1, "continue": true}), Some(b"t")).unwrap();
        frame.push(b't');
        for round in 0..100_000 {
            let mut bytes = frame.clone();
            if round % 2 == 0 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            } else {
                bytes = (0..random() % 24).map(|_| random() as u8).collect();
            }
            match Start::of(&bytes, |_| 1000) {
                Ok(Start::Whole(head)) => {
                    let (json, body) = head.parts(&bytes);
                    assert_eq!(HEAD + json.len() + body.len(), head.length());
                    assert!(head.length() <= bytes.len());
                }
                Ok(Start::Part(missing)) => assert!(missing <= HEAD + MAX_HEADER + 1000),
                Err(Malformed::TooLarge(limit)) => assert!(limit == MAX_HEADER || limit == 1000),
                Err(Malformed::Kind) => {}
            }
        }
    }
}
