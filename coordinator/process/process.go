package process

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Hello is what a client says of itself.
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

// A reply answers an order.
type reply struct {
	kind  uint32
	errno unix.Errno
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

// Hello returns what the client said of itself.
func (p *Process) Hello() Hello { return p.hello }

// Welcome lets the program's first call return. With an error the call fails with it, and
// the program runs without checkpoints.
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

// Calls returns the calls of the program, one after the other. It is closed when the link
// ends.
func (p *Process) Calls() <-chan Call { return p.calls }

// Answer lets the program's call return.
func (p *Process) Answer(a Answer) error {
	return p.leave(message{kind: kindGo, value: uint32(a.Status), a: a.Value, payload: clip(a.Text)}, nil)
}

// leave sends the message that ends a call.
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

// Kill kills the process with SIGKILL.
func (p *Process) Kill() { p.handle.kill() }

// Done is closed when the process itself has ended.
func (p *Process) Done() <-chan struct{} { return p.handle.done }

// Err returns the reason of the end of the link: nil while it lasts, or if the client
// closed it.
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

// Close ends the link and gives all memory back. No slice of the process's memory may be
// used afterwards.
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
