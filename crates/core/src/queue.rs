//! A queue that usually contains at most one item, and then uses no heap memory.

use std::collections::VecDeque;

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    front: Option<T>,
    /// The items after the front; `None` if there is no memory for them.
    rest: Option<Box<Rest<T>>>,
}

/// The items after the front; few queues have more than one.
#[derive(Clone, Debug)]
struct Rest<T> {
    second: Option<T>,
    /// The items after the second; empty if there is no second.
    more: VecDeque<T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { front: None, rest: None }
    }
}

impl<T> Default for Rest<T> {
    fn default() -> Self {
        Self { second: None, more: VecDeque::new() }
    }
}

impl<T> Rest<T> {
    fn push_back(&mut self, item: T) {
        if self.second.is_none() {
            self.second = Some(item);
        } else {
            self.more.push_back(item);
        }
    }

    fn push_front(&mut self, item: T) {
        if let Some(third) = self.second.replace(item) {
            self.more.push_front(third);
        }
    }

    fn pop_front(&mut self) -> Option<T> {
        let next = self.more.pop_front();
        std::mem::replace(&mut self.second, next)
    }
}

impl<T> Queue<T> {
    /// Appends an item.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        if self.front.is_none() {
            self.front = Some(item);
        } else {
            self.rest.get_or_insert_default().push_back(item);
        }
    }

    /// Inserts an item at the front.
    pub fn push_front(&mut self, item: T) {
        if let Some(second) = self.front.replace(item) {
            self.rest.get_or_insert_default().push_front(second);
        }
    }

    /// Removes and returns the oldest item.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        std::mem::replace(&mut self.front, next)
    }

    /// Returns the oldest item.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.front.as_ref()
    }

    /// Returns the oldest item for modification.
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.front.as_mut()
    }

    /// Returns the item if it is the only one and no heap memory is in use.
    #[inline]
    pub fn only(&self) -> Option<&T> {
        if self.rest.is_none() { self.front.as_ref() } else { None }
    }

    /// Returns whether the queue is empty and uses no heap memory.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.front.is_none() && self.rest.is_none()
    }

    /// Returns the newest item.
    pub fn back(&self) -> Option<&T> {
        let newest = self.rest.as_ref().and_then(|rest| rest.more.back().or(rest.second.as_ref()));
        newest.or(self.front.as_ref())
    }

    /// Returns the newest item for modification.
    pub fn back_mut(&mut self) -> Option<&mut T> {
        let newest =
            self.rest.as_mut().and_then(|rest| rest.more.back_mut().or(rest.second.as_mut()));
        newest.or(self.front.as_mut())
    }

    /// Returns all items, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let (second, more) = match self.rest.as_deref() {
            Some(Rest { second, more }) => (second.as_ref(), more.iter()),
            None => Default::default(),
        };
        self.front.iter().chain(second).chain(more)
    }

    /// Returns all items for modification, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let (second, more) = match self.rest.as_deref_mut() {
            Some(Rest { second, more }) => (second.as_mut(), more.iter_mut()),
            None => Default::default(),
        };
        self.front.iter_mut().chain(second).chain(more)
    }

    /// Calls `change` with each item, oldest first.
    #[inline]
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut T)) {
        if let Some(front) = &mut self.front {
            change(front);
        }
        if let Some(Rest { second, more }) = self.rest.as_deref_mut() {
            second.iter_mut().chain(more).for_each(change);
        }
    }

    /// Returns the oldest item that `is` so, for modification.
    #[inline]
    pub fn find_mut(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        if self.front.as_ref().is_some_and(&is) {
            return self.front.as_mut();
        }
        let rest = self.rest.as_deref_mut()?;
        if rest.second.as_ref().is_some_and(&is) {
            return rest.second.as_mut();
        }
        rest.more.iter_mut().find(|item| is(item))
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        let behind = |rest: &Rest<T>| usize::from(rest.second.is_some()) + rest.more.len();
        usize::from(self.front.is_some()) + self.rest.as_deref().map_or(0, behind)
    }

    /// Returns whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// Removes all items and frees the memory.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Frees heap memory that is not in use. Until then it is kept, because a queue that was long
    /// is often long again.
    pub fn shrink(&mut self) {
        if self.rest.as_ref().is_some_and(|rest| rest.second.is_none()) {
            self.rest = None;
        }
    }

    /// Returns the bytes of heap memory in use, without what the items themselves hold.
    pub fn heap_bytes(&self) -> usize {
        self.rest
            .as_ref()
            .map_or(0, |rest| size_of::<Rest<T>>() + rest.more.capacity() * size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_those_looked_for_is_found() {
        let mut queue = Queue::default();
        assert_eq!(queue.find_mut(|_| true), None);
        (0..5).for_each(|item| queue.push_back(item));
        let found = [0, 1, 3, 9].map(|least| queue.find_mut(|&item| item >= least).copied());
        assert_eq!(found, [Some(0), Some(1), Some(3), None]);
        queue.for_each_mut(|item| *item *= 2);
        assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
    }

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
