//! The channel between the two processes of an upgrade: frames over a pair of unix sockets, each with at most one descriptor.
//!
//! A frame is the length of its bytes (four bytes, the most significant first) and the bytes. A descriptor belongs to the frame
//! whose first byte it comes with.

use proxy::STATE_BYTES_MAX;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The longest frame: the state of a client, and its head.
const FRAME_BYTES_MAX: usize = STATE_BYTES_MAX + 8192;
/// Bytes of the length.
const HEADER_BYTES: usize = 4;

/// One end.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: UnixStream,
    writing: Mutex<()>,
}

/// Bytes, and the descriptor that came with them.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The descriptor.
    pub descriptor: Option<OwnedFd>,
}

impl Channel {
    /// The end at `socket`.
    pub(crate) fn new(socket: UnixStream) -> Channel {
        Channel { socket, writing: Mutex::default() }
    }

    /// Ends reads and writes that take longer than `timeout`; `None` means never.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(timeout)?;
        self.socket.set_write_timeout(timeout)
    }

    /// Sends a frame. The other process gets a descriptor of its own.
    pub(crate) fn send(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut frame = (bytes.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(bytes);
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = match descriptor {
            Some(descriptor) => self.send_with(&frame, descriptor)?,
            None => 0,
        };
        (&self.socket).write_all(&frame[sent..])
    }

    /// Sends the beginning of `frame` with `descriptor`. Returns the number of bytes sent.
    fn send_with(&self, frame: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<usize> {
        let descriptors = [descriptor];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let send = || sendmsg(&self.socket, &[IoSlice::new(frame)], &mut control, SendFlags::empty());
        Ok(rustix::io::retry_on_intr(send)?)
    }

    /// Receives the next frame; `None` if the other process has closed its end.
    pub(crate) fn receive(&self) -> io::Result<Option<Frame>> {
        let (mut header, mut filled, mut descriptor) = ([0; HEADER_BYTES], 0, None);
        while filled < HEADER_BYTES {
            let count = self.receive_with(&mut header[filled..], &mut descriptor)?;
            match count {
                0 if filled == 0 => return Ok(None),
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        let len = u32::from_be_bytes(header) as usize;
        if len > FRAME_BYTES_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; len];
        (&self.socket).read_exact(&mut bytes)?;
        Ok(Some(Frame { bytes, descriptor }))
    }

    /// Receives into `buffer`, and the descriptor that comes with these bytes. Returns the number of bytes.
    fn receive_with(&self, buffer: &mut [u8], descriptor: &mut Option<OwnedFd>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(buffer)];
        let receive = || recvmsg(&self.socket, &mut slices, &mut control, CLOSE_ON_EXEC);
        let received = rustix::io::retry_on_intr(receive)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                for received in descriptors {
                    #[cfg(not(any(target_os = "linux", target_os = "android")))]
                    rustix::io::fcntl_setfd(&received, rustix::io::FdFlags::CLOEXEC)?;
                    *descriptor = Some(received);
                }
            }
        }
        Ok(received.bytes)
    }
}

/// Programs that this process starts do not get the descriptors.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;
/// Elsewhere this is set after the call.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn pair() -> (Channel, Channel) {
        let (one, other) = UnixStream::pair().expect("two sockets");
        (Channel::new(one), Channel::new(other))
    }

    #[test]
    fn a_descriptor_comes_with_its_own_frame() {
        let (ours, theirs) = pair();
        let (mut passed, kept) = UnixStream::pair().expect("two sockets");
        ours.send(b"first", None).expect("there is room");
        ours.send(b"second", Some(kept.as_fd())).expect("there is room");
        ours.send(b"", None).expect("there is room");
        drop(kept);
        let next = || theirs.receive().expect("it is there").expect("a frame");
        let [first, second, third] = [next(), next(), next()];
        assert_eq!((&first.bytes[..], first.descriptor.is_some()), (&b"first"[..], false));
        assert_eq!((&third.bytes[..], third.descriptor.is_some()), (&b""[..], false));
        assert_eq!(second.bytes, b"second");
        let mut copy = UnixStream::from(second.descriptor.expect("it was sent"));
        copy.write_all(b"x").expect("the other end is open");
        let mut byte = [0];
        passed.read_exact(&mut byte).expect("it was written");
        assert_eq!(byte, *b"x");
    }

    #[test]
    fn half_a_frame_at_the_end_is_an_error() {
        let (ours, theirs) = pair();
        ours.send(b"whole", None).expect("there is room");
        (&ours.socket).write_all(&[0, 0, 0, 9, b'h']).expect("there is room");
        drop(ours);
        assert_eq!(theirs.receive().expect("it is there").expect("a frame").bytes, b"whole");
        assert_eq!(theirs.receive().expect_err("half a frame").kind(), ErrorKind::UnexpectedEof);
        let (ours, theirs) = pair();
        drop(ours);
        assert!(theirs.receive().expect("the end").is_none());
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_both_sides() {
        let (ours, theirs) = pair();
        assert!(ours.send(&vec![0; FRAME_BYTES_MAX + 1], None).is_err());
        (&ours.socket).write_all(&u32::MAX.to_be_bytes()).expect("there is room");
        assert_eq!(theirs.receive().expect_err("too long").kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_silent_process_is_given_up() {
        let (ours, _theirs) = pair();
        ours.set_timeout(Some(Duration::from_millis(1))).expect("a socket takes options");
        let kind = ours.receive().expect_err("nothing comes").kind();
        assert!(matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{kind}");
    }
}
