//! A small deterministic generator: the same seed gives every target the same names, offsets and sizes.

/// SplitMix64 (Steele, Lea, Flood 2014): one addition and a mix, good enough to choose offsets and sizes.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator of its own for `stream` (a thread, say) under `seed`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed);
        let base = rng.next();
        let mut rng = Self(base ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        rng.next();
        rng
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 when the bound is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high half of a 128-bit product; its bias is below bound / 2^64.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `buf` with bytes that do not compress.
    pub(crate) fn fill(&mut self, buf: &mut [u8]) {
        for chunk in buf.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            for (to, from) in chunk.iter_mut().zip(bytes) {
                *to = from;
            }
        }
    }

    /// Puts `items` into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }

    /// A gamma-distributed number with this shape and mean (Marsaglia and Tsang 2000).
    pub(crate) fn gamma(&mut self, shape: f64, mean: f64) -> f64 {
        let scale = mean / shape;
        // Below 1 the method works on shape + 1 and the result is scaled back.
        let boost = if shape < 1.0 { self.unit().max(f64::MIN_POSITIVE).powf(1.0 / shape) } else { 1.0 };
        let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            let u = self.unit().max(f64::MIN_POSITIVE);
            if v > 0.0 && u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return boost * d * v * scale;
            }
        }
    }

    /// A number of the standard normal distribution (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().max(f64::MIN_POSITIVE).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_streams_differ() {
        let draw = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            (0..8).map(|_| rng.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut rng = Rng::new(7, 0);
        let mut seen = [0u32; 10];
        for _ in 0..1000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 0), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn gamma_has_its_mean_and_spread() {
        for shape in [0.5, 1.5, 4.0] {
            let mut rng = Rng::new(3, 0);
            let draws: Vec<f64> = (0..50_000).map(|_| rng.gamma(shape, 16384.0)).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
            assert!((mean / 16384.0 - 1.0).abs() < 0.03, "shape {shape}: mean {mean}");
            let expected = 16384.0 * 16384.0 / shape;
            assert!((variance / expected - 1.0).abs() < 0.1, "shape {shape}: variance {variance}, not {expected}");
        }
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(1, 0).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
