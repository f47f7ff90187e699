//! What is fuzzed, and what has to hold. Shared by `tests/fuzz.rs`, which runs on stable with inputs from a seed, and by
//! `fuzz/fuzz_targets`, where libFuzzer looks for inputs.
//!
//! A target panics where a promise breaks. Whatever the input, none of the library's code may.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use peerlimit::{
    Secrets,
    bucket::Timestamp,
    crdt::DigestKey,
    gossip::{
        StreamCommand, StreamId,
        wire::{ClusterId, DeltaFrame, DeltaWriter, Frame, MAX_DATAGRAM, Sealed, SyncMessage, Tag, read_swim_header},
    },
};

use super::pair::{Node, QUOTA, at, pair};

/// Every decoder of what comes from the network.
pub fn decoders(bytes: &[u8]) {
    if let Ok(frame) = Frame::decode(bytes, ClusterId::new(&DigestKey::PUBLIC, "")) {
        bodies(frame.body);
        if frame.tag == Tag::Sealed {
            let _header = Sealed::decode(&frame);
        }
    }
    bodies(bytes);
}

/// What decodes, encodes again to what says the same.
fn bodies(body: &[u8]) {
    let _header = read_swim_header(body);
    if let Ok(message) = SyncMessage::decode(body) {
        assert_eq!(SyncMessage::decode(&message.encode()), Ok(message));
    }
    if let Ok(frame) = DeltaFrame::decode(body) {
        let mut writer = DeltaWriter::default();
        frame.deltas.iter().for_each(|delta| writer.push(delta, frame.age));
        let again: Vec<_> = writer
            .finish()
            .iter()
            .flat_map(|body| {
                assert!(body.len() < MAX_DATAGRAM, "a body of {} bytes", body.len());
                DeltaFrame::decode(body).map(|frame| frame.deltas).unwrap_or_default()
            })
            .collect();
        assert_eq!(again, frame.deltas);
    }
}

/// Secrets as an operator may write them. No error shows what they are.
pub fn secrets(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = Secrets::parse(&text) {
        let said = format!("{error} {error:?}");
        // As long as a secret is, and without the spaces that a message has.
        let like_a_secret = |word: &&str| word.len() >= 40;
        assert!(text.split_whitespace().filter(like_a_secret).all(|word| !said.contains(word)), "{said}");
    }
}

/// A node in the middle of its life, and real traffic to change.
pub struct Engine {
    node: Node,
    real: Vec<bytes::Bytes>,
    now: u64,
    streams: Vec<StreamId>,
    transmits: VecDeque<SocketAddr>,
}

impl Default for Engine {
    fn default() -> Self {
        let (node, real, now) = pair();
        Self { node, real, now, streams: Vec::new(), transmits: VecDeque::new() }
    }
}

impl Engine {
    /// Takes `program` as a list of inputs, and checks after each that nothing has broken.
    pub fn run(mut self, mut program: &[u8]) {
        while let [operation, rest @ ..] = program {
            program = rest;
            self.step(*operation, &mut program);
            self.drain();
            self.check();
        }
    }

    fn step(&mut self, operation: u8, program: &mut &[u8]) {
        let now = at(self.now);
        let engine = &mut self.node.engine;
        match operation % 8 {
            0 => {
                self.now += u64::from(number(program));
                engine.handle_timeout(at(self.now));
            }
            1 => engine.handle_datagram(now, bytes(program)),
            2 | 3 => {
                // Real traffic, as it was or with some bytes changed.
                let mut datagram = self.real[usize::from(number(program)) % self.real.len()].to_vec();
                for change in bytes(program).chunks_exact(3) {
                    let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % datagram.len();
                    datagram[place] ^= change[2];
                }
                engine.handle_datagram(now, &datagram);
            }
            4 => self.streams.extend(engine.accept_stream(now)),
            5 | 6 => {
                let Some(id) = self.stream(number(program)) else { return };
                match operation % 3 {
                    0 => self.node.engine.handle_stream_closed(now, id),
                    1 => self.node.engine.handle_stream_writable(now, id),
                    _ => {
                        let sender = self.real[0].get(9..17).unwrap_or_default();
                        // The header of a frame of anti-entropy, then whatever.
                        let mut frame = self.real[0][..9].to_vec();
                        frame.extend_from_slice(sender);
                        frame.push(Tag::Sync as u8);
                        frame.extend_from_slice(bytes(program));
                        self.node.engine.handle_stream_frame(now, id, &frame);
                    }
                }
            }
            _ => {
                let [a, b] = number(program).to_le_bytes();
                engine.handle_found(now, &[SocketAddr::from(([127, 0, a, b], 7_946))]);
            }
        }
    }

    fn stream(&self, number: u16) -> Option<StreamId> {
        (!self.streams.is_empty()).then(|| self.streams[usize::from(number) % self.streams.len()])
    }

    fn drain(&mut self) {
        self.transmits.extend(std::iter::from_fn(|| self.node.engine.poll_transmit()).map(|transmit| transmit.to));
        while let Some(command) = self.node.engine.poll_stream() {
            if let StreamCommand::Open(id, _) | StreamCommand::Send(id, _) = command {
                self.streams.push(id);
            }
        }
        while self.node.engine.poll_event().is_some() {}
    }

    fn check(&mut self) {
        let stats = self.node.engine.stats();
        assert!(stats.cells <= 1 << 16, "{} cells", stats.cells);
        assert!(stats.runs <= 4_096 && stats.peers <= 4_096, "{} runs, {} peers", stats.runs, stats.peers);
        // One input causes a round of news to each member, or some answers.
        assert!(self.transmits.len() <= 1_000 * (2 + stats.peers as usize), "{} datagrams", self.transmits.len());
        self.transmits.clear();
        let floor = 2 * QUOTA.refill_time() + Duration::from_millis(1);
        for key in 0_u64..20 {
            let digest = self.node.scope.hasher().digest(&key.to_le_bytes());
            let decision = self.node.table.peek(&self.node.scope.rule(), digest, 1, at(self.now));
            assert!(decision.reset_after <= floor, "key {key} is silent for {:?}", decision.reset_after);
        }
        assert!(self.node.engine.poll_timeout() > Timestamp::ZERO, "a timer that is always due");
        if self.streams.len() > 256 {
            self.streams.drain(..128);
        }
    }
}

/// Two bytes of a program.
fn number(program: &mut &[u8]) -> u16 {
    let (number, rest) = match **program {
        [low, high, ref rest @ ..] => (u16::from_le_bytes([low, high]), rest),
        _ => (0, &[][..]),
    };
    *program = rest;
    number
}

/// Up to 255 bytes of a program.
fn bytes<'a>(program: &mut &'a [u8]) -> &'a [u8] {
    let [length, rest @ ..] = *program else { return &[] };
    let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
    *program = rest;
    bytes
}
