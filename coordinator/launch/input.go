package launch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"ckpt/coordinator/job"
)

// An Input is the standard input of a program. Each run of its command reads it from the same
// place: a file again from where it was, anything else from what has been kept of it.
type Input struct {
	file *os.File // that runs read themselves; nil for a stream
	at   int64    // of a file; −1 for a device, which is as it is

	mu      sync.Mutex
	more    *sync.Cond
	data    []byte // of a stream, as far as it has come
	ended   bool
	closed  bool
	tooLong chan struct{} // closed when the stream is longer than can be kept
	reading sync.WaitGroup
}

// NewInput returns the input that a reader gives; nil reads nothing. A stream is read at once,
// whether the program reads it or not.
func NewInput(in io.Reader) (*Input, error) {
	i := &Input{at: -1, tooLong: make(chan struct{})}
	i.more = sync.NewCond(&i.mu)
	if in == nil {
		i.ended = true
		return i, nil
	}
	wait := func() bool { return true }
	if f, ok := in.(*os.File); ok {
		fi, err := f.Stat()
		if err != nil {
			return nil, err
		}
		mode := fi.Mode()
		if mode.IsRegular() {
			i.file = f
			i.at, err = f.Seek(0, io.SeekCurrent)
			return i, err
		}
		if mode&os.ModeDevice != 0 {
			i.file, i.ended = f, true
			return i, nil
		}
		wait = func() bool { return i.readable(f) }
	}
	i.reading.Go(func() { i.read(in, wait) })
	return i, nil
}

// Again returns an input that a job has kept.
func Again(kept *job.Input) (*Input, error) {
	f := kept.File
	if f == nil {
		return NewInput(bytes.NewReader(kept.Data))
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, err
	}
	if _, err = file.Seek(f.At, io.SeekStart); err != nil {
		file.Close()
		return nil, err
	}
	return NewInput(file)
}

// readable waits until a descriptor can be read, or the input is closed.
func (i *Input) readable(f *os.File) bool {
	const look = 100 // milliseconds
	for {
		list := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(list, look)
		if n > 0 || err != nil && err != unix.EINTR {
			return true // the read tells
		}
		i.mu.Lock()
		closed := i.closed
		i.mu.Unlock()
		if closed {
			return false
		}
	}
}

func (i *Input) read(in io.Reader, wait func() bool) {
	part := make([]byte, 64<<10)
	for wait() {
		n, err := in.Read(part)
		i.mu.Lock()
		long := len(i.data)+n > job.InputLimit
		if !long {
			i.data = append(i.data, part[:n]...)
			i.ended = err != nil
		}
		over := i.closed
		i.more.Broadcast()
		i.mu.Unlock()
		if long {
			close(i.tooLong)
		}
		if long || over || err != nil {
			return
		}
	}
}

// Close ends the reading. Feeding a run ends with it.
func (i *Input) Close() {
	i.mu.Lock()
	i.closed = true
	i.more.Broadcast()
	i.mu.Unlock()
	i.reading.Wait()
}

// More waits until more than had bytes of a stream have come, or it has ended. It returns
// false once the input is closed, and of a file.
func (i *Input) More(had int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.file == nil && len(i.data) <= had && !i.ended && !i.closed {
		i.more.Wait()
	}
	return !i.closed && i.file == nil
}

// Kept returns what a job is to keep of the input.
func (i *Input) Kept() (job.Input, error) {
	if i.file != nil && i.at >= 0 {
		return i.keptFile()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return job.Input{Data: bytes.Clone(i.data), Ended: i.ended}, nil
}

func (i *Input) keptFile() (job.Input, error) {
	fi, err := i.file.Stat()
	if err != nil {
		return job.Input{}, err
	}
	if n := fi.Size() - i.at; n <= job.InputLimit {
		data, err := io.ReadAll(io.NewSectionReader(i.file, i.at, max(0, n)))
		return job.Input{Data: data, Ended: true}, err
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", i.file.Fd()))
	return job.Input{Ended: true, File: &job.InputFile{Path: path, At: i.at, Size: fi.Size(), Modified: fi.ModTime().UnixNano()}}, err
}

// open returns the input for a run, nil if it is empty, and what to do when the run is over.
func (i *Input) open() (*os.File, func(), error) {
	if i.file != nil {
		if i.at < 0 {
			return i.file, func() {}, nil
		}
		_, err := i.file.Seek(i.at, io.SeekStart)
		return i.file, func() {}, err
	}
	i.mu.Lock()
	nothing := i.ended && len(i.data) == 0
	i.mu.Unlock()
	if nothing {
		return nil, func() {}, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	i.reading.Go(func() { i.feed(w) })
	return r, func() { r.Close(); w.Close() }, nil
}

// feed gives a run all of the stream. It ends early without a reader.
func (i *Input) feed(w *os.File) {
	defer w.Close()
	for at := 0; ; {
		i.mu.Lock()
		for at == len(i.data) && !i.ended && !i.closed {
			i.more.Wait()
		}
		part, over := i.data[at:], i.closed
		i.mu.Unlock()
		if len(part) == 0 || over {
			return
		}
		n, err := w.Write(part)
		if at += n; err != nil {
			return
		}
	}
}
