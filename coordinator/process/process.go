// Package process is the agent's side of a process of a real program: the link to the client
// inside the process, the page that both share, and every way of taking the memory of the process
// and of giving it back.
//
// The client, written in C or Python, is small: it calls the kernel, copies memory on order and
// waits. All decisions are taken on this side.
//
//	p, err := process.Open(3)
//	p.Welcome(nil)
//	for call := range p.Calls() {
//		p.Answer(process.Answer{Status: process.OK})
//	}
//
// While a call is not answered, the process waits. [Process.Regions], [Process.Fetch],
// [Process.Put], [Process.View] and [Process.Capture] need that.
//
// # Promises
//
//   - A client that breaks the rules of the link ends the link, nothing else. Only memory
//     that the client has announced is read or written.
//   - Capture returns every byte as it was at the time of the call, whatever the process
//     does after the answer.
//   - A system call that the kernel refuses is replaced by another way; [Process.Notes]
//     tells which calls were refused.
package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

type Hello struct {
	Rank, Size int
	PID        int // as the kernel says
	Version    int
	Language   string
}

// A Process is a process of a program, seen from its agent.
type Process struct {
	link   *link
	handle *handle
	page   *page
	hello  Hello
	calls  chan Call

	mu      sync.Mutex
	table   table
	waiting bool  // a call is not answered yet, or Hello
	ended   error // the reason of the end of the link
	notes   []Note

	orders   sync.Mutex // one order at a time waits for its answer
	answers  chan reply
	closed   chan struct{} // the link has ended
	stopping chan struct{} // Close was called
	once     sync.Once
	reading  sync.WaitGroup

	memory memory
}

type reply struct {
	kind  uint32
	errno unix.Errno
	value int64
	files []*os.File
}

// A Note tells a system call that the kernel refused, and why.
type Note struct {
	Call string
	Err  error
}

func (n Note) String() string { return n.Call + ": " + n.Err.Error() }

// Open takes over the socket of a client and waits for its first message.
func Open(fd int) (*Process, error) {
	l, err := newLink(fd)
	if err != nil {
		return nil, fmt.Errorf("link to the process: %w", err)
	}
	p := &Process{
		link: l, calls: make(chan Call), answers: make(chan reply, 1),
		closed: make(chan struct{}), stopping: make(chan struct{}), waiting: true,
	}
	if err := p.meet(); err != nil {
		l.close()
		return nil, fmt.Errorf("link to the process: %w", err)
	}
	p.reading.Go(p.read)
	return p, nil
}

// meet reads the first message and opens what belongs to the process.
func (p *Process) meet() error {
	m, files, err := p.link.receive()
	closeAll(files)
	if err != nil {
		return fmt.Errorf("no greeting: %w", err)
	}
	if p.hello, err = parseHello(m); err != nil {
		return err
	}
	if p.hello.PID, err = p.link.peer(); err != nil {
		return err
	}
	if p.handle, err = openHandle(p.hello.PID); p.handle == nil {
		return err
	} else if err != nil {
		p.note("pidfd_open", err)
	}
	if p.page, err = p.newPage(); err != nil {
		p.handle.close()
		return err
	}
	return nil
}

func parseHello(m message) (Hello, error) {
	if m.kind != kindHello {
		return Hello{}, fmt.Errorf("first message has kind %d (want %d)", m.kind, kindHello)
	}
	if m.a < 0 || m.b <= m.a || m.b > 1<<30 {
		return Hello{}, fmt.Errorf("rank %d of %d is out of range", m.a, m.b)
	}
	language := string(m.payload)
	if err := validName(language); err != nil {
		return Hello{}, fmt.Errorf("language: %w", err)
	}
	return Hello{Rank: int(m.a), Size: int(m.b), Version: int(m.value), Language: language}, nil
}

func (p *Process) Hello() Hello { return p.hello }

// Welcome lets the program's first call return. With an error the call fails with it, and the
// program runs without checkpoints.
func (p *Process) Welcome(err error) error {
	m := message{kind: kindWelcome, a: int64(os.Getpid())}
	if err != nil {
		status := int32(Service)
		m.value = uint32(status)
		m.payload = clip(err.Error())
		return p.leave(m, nil)
	}
	return p.leave(m, p.page.file)
}

// Calls returns the calls of the program, one after the other. It is closed when the link ends.
func (p *Process) Calls() <-chan Call { return p.calls }

func (p *Process) Answer(a Answer) error {
	return p.leave(message{kind: kindGo, value: uint32(a.Status), a: a.Value, payload: clip(a.Text)}, nil)
}

func (p *Process) leave(m message, file *os.File) error {
	p.mu.Lock()
	was := p.waiting
	p.waiting = false // before the client can call again
	p.mu.Unlock()
	if !was {
		return errors.New("answer: the process does not wait")
	}
	return p.link.send(m, file)
}

func clip(text string) []byte {
	return []byte(text[:min(len(text), maxText)])
}

func (p *Process) Kill() { p.handle.kill() }

// Done is closed when the process itself has ended.
func (p *Process) Done() <-chan struct{} { return p.handle.done }

// Err returns why the link ended: nil while it lasts, or if the client closed it.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Notes returns the system calls that the kernel refused, each once.
func (p *Process) Notes() []Note {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.notes)
}

func (p *Process) note(call string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.notes, func(n Note) bool { return n.Call == call }) {
		p.notes = append(p.notes, Note{Call: call, Err: err})
	}
}

// Close ends the link and gives all memory back. No slice of the process's memory may be used
// afterwards.
func (p *Process) Close() {
	p.once.Do(func() {
		close(p.stopping)
		p.link.close()
		p.reading.Wait()
		p.orders.Lock()
		p.memory.close()
		p.orders.Unlock()
		p.handle.close()
		p.page.close()
	})
}

type Kind uint32

// The calls of a program that wait for an answer, with their values on the link.
const (
	Restore  Kind = 4
	Boundary Kind = 5
	Wait     Kind = 6
	Query    Kind = 7
	Finalize Kind = 8
)

func (k Kind) String() string {
	switch k {
	case Restore:
		return "restore"
	case Boundary:
		return "boundary"
	case Wait:
		return "wait"
	case Query:
		return "query"
	case Finalize:
		return "finalize"
	}
	return fmt.Sprintf("kind(%d)", uint32(k))
}

// A Call is a call of the program that waits for [Process.Answer].
type Call struct {
	Kind Kind
	// Save, Count and Step belong to a Boundary: the program asks for a checkpoint, the number of
	// boundaries so far, and the program's own number of the step.
	Save        bool
	Count, Step int64
	// Name is the region that a Query asks for. An empty one asks for the step, or with a Number
	// for the region of that number, from 1.
	Name   string
	Number int64
}

// A Status is the result of a call, as the program sees it.
type Status int32

// The results. Negative ones are errors.
const (
	OK       Status = 0
	Stop     Status = 1  // leave the loop
	None     Status = -1 // there is no checkpoint to resume from
	Argument Status = -2 // an argument of the call is wrong
	Service  Status = -3 // the coordinator or the agent is gone
	Damage   Status = -4 // a checkpoint is damaged
	Full     Status = -5 // the disk is full
	Mismatch Status = -6 // the checkpoint does not fit the program
	IO       Status = -7 // another error of a disk
)

// An Answer ends a call. Value is the step to resume from, or what a Query asked for: the bytes
// of a region, or the step. Text says what failed, and a hint.
type Answer struct {
	Status Status
	Value  int64
	Text   string
}

// maxText is the longest text that a client keeps.
const maxText = 500

func parseCall(m message) (c Call, ok bool) {
	c.Kind = Kind(m.kind)
	switch c.Kind {
	case Restore, Wait, Finalize:
		return c, true
	case Boundary:
		c.Save, c.Count, c.Step = m.value&saveBit != 0, m.a, m.b
		return c, c.Count > 0
	case Query:
		c.Name = string(m.payload)
		if m.value == listValue {
			c.Number = max(0, m.a) + 1
		}
		return c, c.Name == "" || validName(c.Name) == nil
	}
	return c, false
}

func (p *Process) read() {
	defer close(p.calls)
	defer close(p.closed)
	// A client that broke the rules must not wait for an answer.
	defer p.link.close()
	for {
		m, files, err := p.link.receive()
		if err == nil {
			err = p.take(m, files)
		}
		if err != nil {
			p.end(err)
			return
		}
	}
}

func (p *Process) end(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, ErrEnded) || errors.Is(err, unix.ECONNRESET) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = fmt.Errorf("the client broke the rules of the link: %w", err)
}

// take carries out one message. An error ends the link.
func (p *Process) take(m message, files []*os.File) error {
	if m.kind != kindTracked {
		closeAll(files)
	}
	switch m.kind {
	case kindProtect:
		r, err := parseRegion(m, p.hello.Version)
		if err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.table.protect(r)
	case kindForget:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.table.forget(string(m.payload))
		return nil
	case kindCopied, kindTracked, kindForked:
		r := reply{kind: m.kind, errno: unix.Errno(m.value), value: m.a, files: files}
		select {
		case p.answers <- r:
			return nil
		default:
			closeAll(files)
			return fmt.Errorf("message of kind %d answers no order", m.kind)
		}
	}
	call, ok := parseCall(m)
	if !ok {
		return fmt.Errorf("message of kind %d is not valid", m.kind)
	}
	return p.pass(call)
}

func (p *Process) pass(call Call) error {
	p.mu.Lock()
	was := p.waiting
	p.waiting = true
	p.mu.Unlock()
	if was {
		return fmt.Errorf("call %v before the answer to the last one", call.Kind)
	}
	select {
	case p.calls <- call:
		return nil
	case <-p.stopping:
		return ErrEnded
	}
}
