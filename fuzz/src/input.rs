//! Reads choices from fuzzed bytes. Where they end, every choice is the first one.

/// What is left of the bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// One of `options`, of which there is at least one.
    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, options: [T; N]) -> T {
        options[usize::from(self.byte()) % N]
    }

    /// Up to 255 bytes, their number first.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}
