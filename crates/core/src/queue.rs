//! A queue that mostly holds one thing or nothing, and then no memory beside itself.

use std::collections::VecDeque;

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    front: Option<T>,
    /// What comes after the front; empty where there is none.
    #[expect(clippy::box_collection, reason = "mostly there is none: a quarter of the memory")]
    rest: Option<Box<VecDeque<T>>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { front: None, rest: None }
    }
}

impl<T> Queue<T> {
    /// Appends one.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        if self.front.is_none() {
            self.front = Some(item);
        } else {
            self.rest.get_or_insert_default().push_back(item);
        }
    }

    /// Puts one before all others.
    pub fn push_front(&mut self, item: T) {
        if let Some(second) = self.front.replace(item) {
            self.rest.get_or_insert_default().push_front(second);
        }
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        std::mem::replace(&mut self.front, next)
    }

    /// The oldest.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.front.as_ref()
    }

    /// The oldest, to be changed.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.front.as_mut()
    }

    /// The only one there is, and no room for more.
    #[inline]
    pub fn only(&self) -> Option<&T> {
        if self.rest.is_none() { self.front.as_ref() } else { None }
    }

    /// Whether there is none, and no room for more than one.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.front.is_none() && self.rest.is_none()
    }

    /// The newest.
    pub fn back(&self) -> Option<&T> {
        self.rest.as_ref().and_then(|rest| rest.back()).or(self.front.as_ref())
    }

    /// The newest, to be changed.
    pub fn back_mut(&mut self) -> Option<&mut T> {
        let newest = self.rest.as_mut().and_then(|rest| rest.back_mut());
        newest.or(self.front.as_mut())
    }

    /// All, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.front.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    /// All, oldest first, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.front.iter_mut().chain(self.rest.iter_mut().flat_map(|rest| rest.iter_mut()))
    }

    /// How many.
    pub fn len(&self) -> usize {
        usize::from(self.front.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Gives back memory that is not in use. It is kept until then, because queues that were
    /// long once are soon long again.
    pub fn shrink(&mut self) {
        if self.rest.as_ref().is_some_and(|rest| rest.is_empty()) {
            self.rest = None;
        }
    }

    /// Bytes of memory beside the struct itself and what its items hold.
    pub fn heap_bytes(&self) -> usize {
        self.rest
            .as_ref()
            .map_or(0, |rest| size_of::<VecDeque<T>>() + rest.capacity() * size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_first_comes_out_first() {
        let mut queue = Queue::default();
        for round in 0..3 {
            (1..4).for_each(|item| queue.push_back(item));
            queue.push_front(0);
            assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
            assert_eq!((queue.front(), queue.back(), queue.len()), (Some(&0), Some(&3), 4));
            (0..4).for_each(|item| assert_eq!(queue.pop_front(), Some(item), "round {round}"));
            assert!(queue.is_empty() && queue.back().is_none());
            queue.shrink();
            assert_eq!(queue.heap_bytes(), 0);
        }
    }
}
