//! Streams: frames with their lengths, over TCP.

use std::{collections::HashMap, io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use crate::gossip::{
    StreamId,
    wire::{MAX_FIRST_FRAME, MAX_STREAM_FRAME},
};

/// What a stream's task tells the driver.
#[derive(Debug)]
pub(super) enum StreamEvent {
    /// Connected, or sent what it was given.
    Writable(StreamId),
    /// A frame arrived.
    Frame(StreamId, Vec<u8>),
    /// It is over, by whomever.
    Closed(StreamId),
}

/// After this a connection that gets no answer counts as failed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a closed stream waits for the peer to have read everything.
const LINGER: Duration = Duration::from_secs(1);
/// How long the peer may take to accept a frame.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Events that wait for the driver. Beyond that the tasks wait, and so do the peers.
const EVENTS: usize = 64;
/// Frames that wait for a stream. The engine hands over one, and an answer beside it.
const FRAMES: usize = 4;
/// Tasks beyond which no more streams are accepted. The engine keeps far fewer; the others are closed and not yet read
/// by their peers.
const MAX_TASKS: usize = 64;

/// The tasks of all streams. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Streams {
    tasks: JoinSet<()>,
    open: HashMap<StreamId, Open>,
    events: mpsc::Sender<StreamEvent>,
}

#[derive(Debug)]
struct Open {
    frames: mpsc::Sender<Bytes>,
    task: AbortHandle,
}

impl Streams {
    /// None yet. Events come out of the receiver.
    pub(super) fn new() -> (Self, mpsc::Receiver<StreamEvent>) {
        let (events, receiver) = mpsc::channel(EVENTS);
        (Self { tasks: JoinSet::new(), open: HashMap::new(), events }, receiver)
    }

    pub(super) fn connect(&mut self, id: StreamId, to: SocketAddr) {
        self.spawn(id, MAX_STREAM_FRAME, async move {
            let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await;
            connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        });
    }

    pub(super) fn accepted(&mut self, id: StreamId, stream: TcpStream) {
        self.spawn(id, MAX_FIRST_FRAME, async move { Ok(stream) });
    }

    /// Whether no more streams are to be accepted.
    pub(super) fn is_full(&self) -> bool {
        self.tasks.len() >= MAX_TASKS
    }

    /// Hands a frame over. A stream that does not keep up is cut: the engine never has more than a few frames under
    /// way.
    pub(super) fn send(&mut self, id: StreamId, frame: Bytes) {
        if let Some(open) = self.open.get(&id)
            && open.frames.try_send(frame).is_err()
        {
            open.task.abort();
        }
    }

    /// Sends what is waiting, and closes. The task ends by itself.
    pub(super) fn close(&mut self, id: StreamId) {
        self.open.remove(&id);
    }

    /// Closes at once, whatever is under way.
    pub(super) fn cut(&mut self, id: StreamId) {
        if let Some(open) = self.open.remove(&id) {
            open.task.abort();
        }
    }

    /// Reaps tasks that ended.
    pub(super) fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|_, open| !open.task.is_finished());
    }

    /// Waits until all tasks have ended.
    pub(super) async fn finish(&mut self) {
        self.open.clear();
        while self.tasks.join_next().await.is_some() {}
    }

    fn spawn(
        &mut self,
        id: StreamId,
        first: usize,
        connect: impl Future<Output = io::Result<TcpStream>> + Send + 'static,
    ) {
        let (frames, receiver) = mpsc::channel(FRAMES);
        let events = self.events.clone();
        let task = self.tasks.spawn(async move {
            if let Err(error) = run(id, first, connect, receiver, &events).await {
                tracing::debug!(%error, "stream ended");
            }
            // If the driver is gone, so is everybody who would want to know.
            let _driver_gone = events.send(StreamEvent::Closed(id)).await;
        });
        self.open.insert(id, Open { frames, task });
    }
}

/// `first` is how long the first frame may be.
async fn run(
    id: StreamId,
    first: usize,
    connect: impl Future<Output = io::Result<TcpStream>>,
    mut frames: mpsc::Receiver<Bytes>,
    events: &mpsc::Sender<StreamEvent>,
) -> io::Result<()> {
    let stream = connect.await?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    notify(events, StreamEvent::Writable(id)).await?;

    let write = async {
        while let Some(frame) = frames.recv().await {
            timeout(WRITE_TIMEOUT, write_frame(&mut writer, &frame)).await??;
            notify(events, StreamEvent::Writable(id)).await?;
        }
        writer.shutdown().await
    };
    let read = async {
        let mut longest = first;
        while let Some(frame) = read_frame(&mut reader, longest).await? {
            longest = MAX_STREAM_FRAME;
            notify(events, StreamEvent::Frame(id, frame)).await?;
        }
        Ok(())
    };
    tokio::pin!(read);
    tokio::select! {
        // The peer closed: there is nobody to write to.
        result = &mut read => result,
        result = write => {
            result?;
            // Closing with bytes unread would cut off what the peer still has to read.
            timeout(LINGER, read).await.unwrap_or(Ok(()))
        }
    }
}

async fn notify(events: &mpsc::Sender<StreamEvent>, event: StreamEvent) -> io::Result<()> {
    events.send(event).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
}

async fn write_frame(writer: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    writer.write_all(&length.to_le_bytes()).await?;
    writer.write_all(frame).await
}

/// `None` at the end of the stream.
async fn read_frame(reader: &mut (impl AsyncRead + Unpin), longest: usize) -> io::Result<Option<Vec<u8>>> {
    let length = match reader.read_u32_le().await {
        Ok(length) => u64::from(length),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > longest as u64 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame is longer than a frame may be"));
    }
    // Grows with what arrives, not with what was announced.
    let mut frame = Vec::new();
    reader.take(length).read_to_end(&mut frame).await?;
    if frame.len() as u64 == length { Ok(Some(frame)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_arrive_as_they_were_sent() {
        let (mut near, mut far) = tokio::io::duplex(1024);
        for frame in [&b"one"[..], b"", &[7; 500]] {
            write_frame(&mut near, frame).await.unwrap();
            assert_eq!(read_frame(&mut far, MAX_STREAM_FRAME).await.unwrap().as_deref(), Some(frame));
        }
        drop(near);
        assert_eq!(read_frame(&mut far, MAX_STREAM_FRAME).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_length_above_the_bound_is_refused_before_anything_is_read() {
        let (mut near, mut far) = tokio::io::duplex(64);
        near.write_all(&(MAX_STREAM_FRAME as u32 + 1).to_le_bytes()).await.unwrap();
        assert_eq!(read_frame(&mut far, MAX_STREAM_FRAME).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn a_frame_that_breaks_off_is_an_error() {
        let (mut near, mut far) = tokio::io::duplex(64);
        near.write_all(&10_u32.to_le_bytes()).await.unwrap();
        near.write_all(b"short").await.unwrap();
        drop(near);
        assert_eq!(read_frame(&mut far, MAX_STREAM_FRAME).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
