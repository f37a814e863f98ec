//! All links of a worker, by index. The index of a link that is gone is given to a later one.

use crate::link::Link;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// Which of a worker's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LinkIx(NonZeroU32);

impl LinkIx {
    /// The first one.
    pub(crate) const FIRST: LinkIx = LinkIx(NonZeroU32::MIN);

    fn of(place: usize) -> LinkIx {
        LinkIx(NonZeroU32::MIN.saturating_add(place as u32))
    }

    /// As a number, from 0 on.
    #[inline]
    pub(crate) fn to_u32(self) -> u32 {
        self.0.get() - 1
    }

    /// The index that [`LinkIx::to_u32`] gave as `number`.
    #[inline]
    pub(crate) fn from_u32(number: u32) -> LinkIx {
        LinkIx::of(number as usize)
    }
}

/// The links of a worker, of all uses.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Vec<Link>,
    /// Indexes of links that are gone.
    vacant: Vec<LinkIx>,
}

impl Links {
    /// Takes `link`, at an index that is free.
    pub(crate) fn add(&mut self, link: Link) -> LinkIx {
        match self.vacant.pop() {
            Some(ix) => {
                self[ix] = link;
                ix
            }
            None => {
                self.links.push(link);
                LinkIx::of(self.links.len() - 1)
            }
        }
    }

    /// The link `ix` is gone: another may have its index.
    pub(crate) fn vacate(&mut self, ix: LinkIx) {
        debug_assert!(!self.is_vacant(ix), "an index is given up once");
        self.vacant.push(ix);
    }

    /// The links `one` and `other` change places.
    pub(crate) fn swap(&mut self, one: LinkIx, other: LinkIx) {
        self.links.swap(one.to_u32() as usize, other.to_u32() as usize);
    }

    /// Whether no link has the index.
    pub(crate) fn is_vacant(&self, ix: LinkIx) -> bool {
        self.vacant.contains(&ix)
    }

    /// All indexes that were ever given.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = LinkIx> + use<> {
        (0..self.links.len()).map(LinkIx::of)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Link> {
        self.links.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Link> {
        self.links.iter_mut()
    }

    pub(crate) fn with_indexes(&self) -> impl Iterator<Item = (LinkIx, &Link)> {
        self.indexes().zip(&self.links)
    }
}

impl<'a> IntoIterator for &'a Links {
    type Item = &'a Link;
    type IntoIter = std::slice::Iter<'a, Link>;

    fn into_iter(self) -> Self::IntoIter {
        self.links.iter()
    }
}

impl<'a> IntoIterator for &'a mut Links {
    type Item = &'a mut Link;
    type IntoIter = std::slice::IterMut<'a, Link>;

    fn into_iter(self) -> Self::IntoIter {
        self.links.iter_mut()
    }
}

impl Index<LinkIx> for Links {
    type Output = Link;

    #[inline]
    fn index(&self, ix: LinkIx) -> &Link {
        &self.links[ix.to_u32() as usize]
    }
}

impl IndexMut<LinkIx> for Links {
    #[inline]
    fn index_mut(&mut self, ix: LinkIx) -> &mut Link {
        &mut self.links[ix.to_u32() as usize]
    }
}
