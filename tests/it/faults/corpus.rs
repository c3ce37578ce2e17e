//! The fuzz targets on their corpus, and on what a few changes make of it: what fuzzing has found stays found, without
//! a nightly toolchain. `make corpus` lets it grow by what comes to something new.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::fixtures::checkout;

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use targets::{MAX_INPUT, TARGETS, Target};

/// Files of a target's corpus, at least and at most.
const FILES: std::ops::RangeInclusive<usize> = 30..=1000;
/// Changed inputs that are tried of each target.
const CHANGED: usize = 3000;
/// The longest input that is kept.
const KEPT: usize = 2048;

#[test]
fn the_corpus_is_replayed() {
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        let came: BTreeSet<_> = corpus.iter().map(|input| target(input)).collect();
        println!("{name}: {} inputs come to {} things", corpus.len(), came.len());
        assert!(FILES.contains(&corpus.len()), "{name} has {} inputs", corpus.len());
        assert!(came.len() > 10, "the corpus of {name} comes to little: {came:?}");
    }
}

#[test]
fn changes_of_the_corpus_do_no_harm() {
    for (name, target) in TARGETS {
        let mut mutator = Mutator { random: 0x5eed, inputs: corpus(name) };
        for _ in 0..CHANGED {
            target(&mutator.changed());
        }
    }
    if let Ok(seconds) = std::env::var("HAWSEPIPE_CORPUS_SECONDS") {
        let each = Duration::from_secs(seconds.parse().unwrap()) / u32::try_from(TARGETS.len()).unwrap();
        TARGETS.iter().for_each(|(name, target)| grow(name, *target, each));
    }
}

fn folder(name: &str) -> PathBuf {
    checkout().join("fuzz/corpus").join(name)
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<_> = fs::read_dir(folder(name)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Writes down what comes to something that nothing in the corpus comes to.
fn grow(name: &str, target: Target, time: Duration) {
    let mut mutator = Mutator { random: u64::from(std::process::id()), inputs: corpus(name) };
    let mut known: BTreeSet<_> = mutator.inputs.iter().map(|input| target(input)).collect();
    let began = Instant::now();
    while began.elapsed() < time && mutator.inputs.len() < *FILES.end() {
        let input = mutator.changed();
        if input.len() <= KEPT && known.insert(target(&input)) {
            let digest: String = Sha256::digest(&input).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            fs::write(folder(name).join(digest), &input).unwrap();
            mutator.inputs.push(input);
        }
    }
    println!("{name}: {} inputs come to {} things", mutator.inputs.len(), known.len());
}

/// Inputs that are nearly those of the corpus. The same seed gives the same.
struct Mutator {
    random: u64,
    inputs: Vec<Vec<u8>>,
}

impl Mutator {
    fn below(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
    }

    fn any(&mut self) -> Vec<u8> {
        let at = self.below(self.inputs.len());
        self.inputs[at].clone()
    }

    fn changed(&mut self) -> Vec<u8> {
        let mut input = self.any();
        for _ in 0..=self.below(4) {
            let (from, to) = (self.below(input.len() + 1), self.below(input.len() + 1));
            let (from, to) = (from.min(to), from.max(to));
            match self.below(6) {
                0 => drop(input.drain(from..to)),
                1 if from < input.len() => input[from] ^= 1 << self.below(8),
                2 if from < input.len() => input[from] = [0, 0xff, b'"', b'(', b'{', b'\\', b'1', b'.'][self.below(8)],
                3 => {
                    let part = input[from..to].to_vec();
                    let times = self.below(8);
                    input.splice(from..from, part.repeat(times));
                }
                4 => {
                    let other = self.any();
                    let (start, end) = (self.below(other.len() + 1), self.below(other.len() + 1));
                    input.splice(from..to, other[start.min(end)..start.max(end)].iter().copied());
                }
                _ => input.insert(from, u8::try_from(self.below(256)).unwrap()),
            }
            input.truncate(MAX_INPUT);
        }
        input
    }
}
