package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// read takes the messages of the client until the link ends.
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
		r, err := parseRegion(m)
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
	case kindCopied, kindTracked:
		r := reply{kind: m.kind, errno: unix.Errno(m.value), files: files}
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

// pass hands a call to the agent.
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
