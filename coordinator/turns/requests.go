package turns

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"ckpt/image/iosched"
	"ckpt/image/iosched/live"
)

// wants are the requests of a connection, of a mount.
type wants struct {
	mu    sync.Mutex
	live  map[*iosched.Request]int64 // bytes that were not moved
	parts map[uint64]live.Part       // that may move now
	left  bool
}

// mostWants bounds the requests of a connection.
const mostWants = 1 << 16

var errManyWants = errors.New("too many requests at one time")

func (w *wants) waiting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.live) > 0
}

// leave forgets all requests.
func (w *wants) leave() (list []*iosched.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range w.live {
		list = append(list, r)
	}
	w.left, w.live, w.parts = true, nil, nil
	return list
}

// unitOf makes the unit of a controller: it orders requests with the policy of turns, or with that
// of aIOLi where all turns are given at once.
func unitOf(name, policy string) (*live.Unit, error) {
	policy = cmp.Or(policy, iosched.DefaultPolicy)
	if !slices.Contains(iosched.Names(), policy) {
		policy = "mlf"
	}
	return live.New(name, policy, live.Options{})
}

// want hands in a request of a mount. A mount names the users that it serves only if it is root's.
func (c *controller) want(k *client, m *want) error {
	r := &iosched.Request{App: m.App, User: k.user, Rank: int(min(m.Rank, maxRank)), File: m.File, Offset: m.Offset, Bytes: m.Bytes}
	if k.user == "root" && m.User != "" {
		r.User = m.User
	}
	if m.Write != 0 {
		r.Op = iosched.Write
	}
	w := &k.wants
	w.mu.Lock()
	if len(w.live) >= mostWants {
		w.mu.Unlock()
		return errManyWants
	}
	if w.live == nil {
		w.live, w.parts = make(map[*iosched.Request]int64), make(map[uint64]live.Part)
	}
	w.live[r] = r.Bytes
	w.mu.Unlock()
	id := m.ID
	return c.o.Unit.Ask(r, func(p live.Part) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.left {
			return
		}
		w.parts[p.Number] = p
		k.link.send(&portion{ID: id, Number: p.Number, Offset: p.Offset, Bytes: p.Bytes, Behind: p.Behind})
	})
}

// moved says that a client has moved a part that it was given.
func (c *controller) moved(k *client, m *moved) error {
	w := &k.wants
	w.mu.Lock()
	p, ok := w.parts[m.Number]
	if ok {
		delete(w.parts, m.Number)
		if w.live[p.Request] -= p.Bytes; w.live[p.Request] <= 0 {
			delete(w.live, p.Request)
		}
	}
	w.mu.Unlock()
	if !ok {
		return errors.New("a part that was not given has moved")
	}
	c.o.Unit.Done(m.Number)
	return nil
}
