//! Byte queues whose memory is borrowed from a pool: a connection with nothing to send owns no buffer.

/// Spare buffers of one worker. Returned buffers are kept for the next taker, up to a bound. Big ones are freed, so that one
/// large value does not stay in memory without end.
#[derive(Debug)]
pub struct BufferPool {
    spare: Vec<Vec<u8>>,
    /// The most spare buffers that are kept.
    spare_max: usize,
    /// Buffers that grew beyond this many bytes are not kept.
    kept_bytes_max: usize,
    /// See [`BufferPool::piece_bytes_max`].
    piece_bytes_max: usize,
}

impl BufferPool {
    /// A pool that keeps at most `spare_max` buffers of at most `kept_bytes_max` bytes each.
    pub fn new(spare_max: usize, kept_bytes_max: usize) -> BufferPool {
        BufferPool { spare: Vec::new(), spare_max, kept_bytes_max, piece_bytes_max: kept_bytes_max }
    }

    /// The same pool, for queues whose pieces have at most `bytes` bytes.
    #[must_use]
    pub fn with_pieces_of(self, bytes: usize) -> BufferPool {
        BufferPool { piece_bytes_max: bytes, ..self }
    }

    /// A queue with several buffers begins another one instead of growing one beyond this number of bytes.
    #[inline]
    pub fn piece_bytes_max(&self) -> usize {
        self.piece_bytes_max
    }

    /// An empty buffer, used before if there is one.
    pub fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Returns `buffer` to the pool; its contents are dropped.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0
            || buffer.capacity() > self.kept_bytes_max
            || self.spare.len() >= self.spare_max
        {
            return;
        }
        buffer.clear();
        self.spare.push(buffer);
    }
}

/// Appends `bytes` to `buffer`, whose capacity is as [`make_room`] says.
#[inline]
pub fn append(buffer: &mut Vec<u8>, bytes: &[u8]) {
    make_room(buffer, bytes.len());
    buffer.extend_from_slice(bytes);
}

/// Makes room for `len` more bytes in `buffer`, whose capacity is a power of two from [`BUFFER_BYTES_MIN`] on. An allocator
/// keeps each size apart from the others: with any size allowed, much of its memory would lie idle between them.
#[inline]
pub fn make_room(buffer: &mut Vec<u8>, len: usize) {
    let needed = buffer.len() + len;
    if needed > buffer.capacity() {
        grow(buffer, needed);
    }
}

#[cold]
fn grow(buffer: &mut Vec<u8>, needed: usize) {
    buffer.reserve_exact(needed.next_power_of_two().max(BUFFER_BYTES_MIN) - buffer.len());
}

/// The smallest buffer that [`make_room`] makes.
pub const BUFFER_BYTES_MIN: usize = 512;

/// Bytes that leave in the order in which they came.
///
/// `front` counts the consumed bytes. Consuming is free; the space before `front` is reclaimed when the queue runs
/// empty or when it is more than half of the buffer.
#[derive(Debug, Default)]
pub struct ByteQueue {
    buffer: Vec<u8>,
    front: usize,
}

impl ByteQueue {
    /// Number of waiting bytes.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.front
    }

    /// Whether none do.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the queue holds.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// All waiting bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer[self.front..]
    }

    /// The buffer to append to. Callers must only append: the waiting bytes must not change.
    pub fn tail(&mut self, pool: &mut BufferPool) -> &mut Vec<u8> {
        if self.buffer.capacity() == 0 {
            self.buffer = pool.take();
        }
        &mut self.buffer
    }

    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &[u8], pool: &mut BufferPool) {
        append(self.tail(pool), bytes);
    }

    /// Appends the first `len` of `bytes`, or all of them if they are fewer. Where `N` is small, this is less than a copy of
    /// `len` bytes: one of a known length needs no call.
    #[inline(always)]
    pub fn push_start<const N: usize>(&mut self, bytes: &[u8; N], len: usize, pool: &mut BufferPool) {
        let buffer = self.tail(pool);
        let end = buffer.len() + len;
        append(buffer, bytes);
        buffer.truncate(end);
    }

    /// Drops the first `count` bytes, which must be there. An emptied queue gives its buffer back to `pool`.
    pub fn consume(&mut self, count: usize, pool: &mut BufferPool) {
        debug_assert!(count <= self.len(), "only what is there can be consumed");
        self.front += count;
        if self.front >= self.buffer.len() {
            self.clear(pool);
        } else if self.front > self.buffer.len() / 2 && self.front > COMPACT_BYTES_MIN {
            self.buffer.drain(..self.front);
            self.front = 0;
        }
    }

    /// Keeps the first `len` bytes only.
    pub fn truncate(&mut self, len: usize, pool: &mut BufferPool) {
        if len == 0 {
            return self.clear(pool);
        }
        self.buffer.truncate(self.front + len);
    }

    /// Drops everything and gives the buffer back.
    pub fn clear(&mut self, pool: &mut BufferPool) {
        self.front = 0;
        pool.give(std::mem::take(&mut self.buffer));
    }
}

/// Number of bytes below which the rest is not moved to the front: the queue runs empty soon.
const COMPACT_BYTES_MIN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_order_and_the_emptied_queue_owns_nothing() {
        let mut pool = BufferPool::new(4, 1 << 20);
        let mut queue = ByteQueue::default();
        queue.push(b"hello ", &mut pool);
        queue.push(b"world", &mut pool);
        queue.consume(3, &mut pool);
        assert_eq!(queue.as_slice(), b"lo world");
        queue.consume(8, &mut pool);
        assert!(queue.is_empty());
        assert_eq!(queue.capacity(), 0);
        assert!(pool.take().capacity() >= 11);
    }

    #[test]
    fn appended_bytes_can_be_removed() {
        let mut pool = BufferPool::new(4, 1 << 20);
        let mut queue = ByteQueue::default();
        queue.push(b"hello world", &mut pool);
        queue.consume(2, &mut pool);
        queue.truncate(3, &mut pool);
        assert_eq!(queue.as_slice(), b"llo");
        queue.truncate(0, &mut pool);
        assert_eq!((queue.len(), queue.capacity()), (0, 0));
    }

    #[test]
    fn consumed_space_is_reclaimed_while_bytes_keep_coming() {
        let mut pool = BufferPool::new(4, 1 << 20);
        let mut queue = ByteQueue::default();
        for _ in 0..1000 {
            queue.push(&[7; 1000], &mut pool);
            let waiting = queue.len();
            queue.consume(waiting - 1, &mut pool);
        }
        assert_eq!(queue.as_slice(), [7]);
        assert!(queue.capacity() < 64 * 1024, "{}", queue.capacity());
    }

    #[test]
    fn the_pool_keeps_no_more_than_it_may() {
        let mut pool = BufferPool::new(1, 100);
        pool.give(Vec::with_capacity(101));
        assert_eq!(pool.take().capacity(), 0);
        pool.give(Vec::with_capacity(50));
        pool.give(Vec::with_capacity(60));
        assert_eq!(pool.take().capacity(), 50);
        assert_eq!(pool.take().capacity(), 0);
    }
}
