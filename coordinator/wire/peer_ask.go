package wire

import (
	"context"
	"errors"
	"fmt"
)

// Ask asks what serves the directory something in its own words: a head, and data if the head is
// short. The answer has a head too, or data that fill into; not both.
func (c *PeerClient) Ask(ctx context.Context, head, data, into []byte) ([]byte, error) {
	q := request{op: opAsk, size: int64(len(into))}
	switch {
	case len(head) <= maxName:
		q.name, q.data = string(head), data
	case len(data) == 0 && len(head) <= maxData:
		q.data = head
	default:
		return nil, fmt.Errorf("a head of %d bytes (at most %d)", len(head), maxName)
	}
	if len(q.data) > maxData || len(into) > maxData {
		return nil, fmt.Errorf("%d bytes in a message (at most %d)", max(len(q.data), len(into)), maxData)
	}
	n, err := c.connection(ctx)
	if err != nil {
		return nil, err
	}
	call, err := n.start(ctx, &q, into)
	if err != nil {
		return nil, err
	}
	a, err := n.wait(ctx, call)
	switch {
	case err != nil:
		return nil, err
	case a.value == 1:
		return a.data, nil
	case len(a.data) != len(into):
		return nil, fmt.Errorf("answer of %d bytes, want %d", len(a.data), len(into))
	}
	return nil, nil
}

// ask answers Ask: value 1 says that the data are a head.
func (n *session) ask(q *request) error {
	if n.served.Answer == nil || q.size > maxData {
		return n.reply(q, 0, nil, fmt.Errorf("a question: %w", errors.ErrUnsupported))
	}
	head, data := []byte(q.name), q.data
	if len(head) == 0 {
		head, data = q.data, nil
	}
	if q.size == 0 {
		answer, err := n.served.Answer(n.ctx, head, data, nil)
		return n.reply(q, 1, answer, err)
	}
	pool := poolOf(int(q.size))
	b := pool.Get().(*[]byte)
	defer pool.Put(b)
	into := (*b)[:q.size]
	answer, err := n.served.Answer(n.ctx, head, data, into)
	if err != nil || len(answer) > 0 {
		return n.reply(q, 1, answer, err)
	}
	return n.reply(q, 0, into, nil)
}
