//! What decides the schedules of tests: a seed, or every choice in turn.

/// Decides what happens next.
pub trait Chance {
    /// A number below `most`.
    fn below(&mut self, most: usize) -> usize;
}

pub struct Seed(pub u64);

impl Chance for Seed {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % most as u64) as usize
    }
}

/// All sequences of choices, one after another.
#[derive(Default)]
pub struct Odometer {
    choices: Vec<(usize, usize)>,
    at: usize,
}

impl Chance for Odometer {
    fn below(&mut self, most: usize) -> usize {
        if self.at == self.choices.len() {
            self.choices.push((0, most));
        }
        self.at += 1;
        self.choices[self.at - 1].0
    }
}

impl Odometer {
    /// Turns to the next sequence. Returns false after the last one.
    pub fn turn(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, most)) = self.choices.pop() {
            if choice + 1 < most {
                self.choices.push((choice + 1, most));
                return true;
            }
        }
        false
    }
}
