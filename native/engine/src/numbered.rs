//! Elements by number. Numbers are never given again, so what still names an element that is gone can reach no other one.

use std::ops::{Index, IndexMut};

/// What stands in for elements that are gone: what comes there is lost.
pub trait Gone {
    fn gone() -> Self;
}

/// Elements by number, from 0; those that are gone take no more than their place.
#[derive(Debug)]
pub struct Numbered<T> {
    elements: Vec<Option<Box<T>>>,
    gone: Box<T>,
}

impl<T: Gone> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { elements: Vec::new(), gone: Box::new(T::gone()) }
    }
}

impl<T> Numbered<T> {
    pub fn push(&mut self, element: T) {
        self.elements.push(Some(Box::new(element)));
    }

    /// Let go of an element for good.
    pub fn forget(&mut self, number: u32) {
        self.elements[number as usize] = None;
    }

    pub fn has(&self, number: u32) -> bool {
        self.elements.get(number as usize).is_some_and(Option::is_some)
    }

    /// The next number, which is that of elements so far, too.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Those that are there, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.elements.iter().flatten().map(|element| &**element)
    }
}

impl<T> Index<usize> for Numbered<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        match self.elements.get(number) {
            Some(Some(element)) => element,
            _ => &self.gone,
        }
    }
}

impl<T> IndexMut<usize> for Numbered<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        match self.elements.get_mut(number) {
            Some(Some(element)) => element,
            _ => &mut self.gone,
        }
    }
}
