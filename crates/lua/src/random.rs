//! `math.random` and `math.randomseed`, as Redis has them: the sequence is the same after every start, and all scripts draw from it.

/// The generator drand48 of C, as Redis carries it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

/// The state of drand48 that was never seeded.
impl Default for Random {
    fn default() -> Random {
        Random(0x1234_abcd_330e)
    }
}

impl Random {
    pub(crate) fn new(seed: i32) -> Random {
        Random((u64::from(seed as u32) << 16) | 0x330e)
    }

    /// At least 0 and less than 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        let number = (self.0 >> 17) as i64 % i64::from(i32::MAX);
        number as f64 / f64::from(i32::MAX)
    }
}
