//! Our generator as other crates' distributions want it. A seed determines all of it; no secret is ever made of it.

use rand::TryRng;
use std::convert::Infallible;
use stdx::Prng;

/// A source of randomness.
#[derive(Clone, Debug)]
pub(crate) struct Random(Prng);

impl Random {
    /// The source that `seed` names.
    pub(crate) fn new(seed: u64) -> Random {
        Random(Prng::new(seed))
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// A number in `0..1`.
    pub(crate) fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.0.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&self.0.next_u64().to_le_bytes()[..piece.len()]);
        }
        Ok(())
    }
}
