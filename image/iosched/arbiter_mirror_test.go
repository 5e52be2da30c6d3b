package iosched_test

import (
	"maps"
	"slices"
	"time"

	"ckpt/image/iosched"
)

// A mirror is what a test knows of an Arbiter from its events and actions
// alone; it checks the promises.
type mirror struct {
	s       *sim
	conns   map[iosched.Conn]*mirrored
	bursts  map[key]*request
	asks    int
	granted int64
	// since is from when an application waits, all its clients living.
	since map[string]time.Duration
}

type key struct {
	conn  iosched.Conn
	burst uint64
}

type mirrored struct {
	app, user string
	heard     time.Duration
}

type request struct {
	order     int
	file      string
	granted   bool
	straggler bool
	turn      uint64
	moved     int64
}

func newMirror(s *sim) mirror {
	return mirror{s: s, conns: map[iosched.Conn]*mirrored{}, bursts: map[key]*request{}, since: map[string]time.Duration{}}
}

// see notes an event and the actions that followed.
func (m *mirror) see(now time.Duration, e iosched.Event, actions []iosched.Action) {
	m.note(now, e)
	for _, x := range actions {
		m.act(x)
	}
	if m.s.o.Policy != "none" {
		m.checkOneHolder()
	}
	m.checkConserving(now)
	m.checkWaits(now)
}

// checkWaits: no application whose clients live waits longer than the bound of
// the package.
func (m *mirror) checkWaits(now time.Duration) {
	waits, excused := map[string]bool{}, map[string]bool{}
	for k, r := range m.bursts {
		c := m.conns[k.conn]
		name := c.user + "/" + c.app
		if _, ok := waits[name]; !ok {
			waits[name] = true
		}
		waits[name] = waits[name] && !r.granted
		excused[name] = excused[name] || r.straggler || now-c.heard >= m.s.o.Lease
	}
	maps.DeleteFunc(m.since, func(name string, _ time.Duration) bool { return !waits[name] || excused[name] })
	bound := m.s.o.MaxWait + time.Duration(len(waits))*(m.s.o.Window+m.s.o.Grace)
	for name, w := range waits {
		if !w || excused[name] {
			continue
		}
		if _, ok := m.since[name]; !ok {
			m.since[name] = now
		}
		if now-m.since[name] > bound {
			m.s.fault("%s has waited since %v", name, m.since[name])
		}
	}
}

func (m *mirror) note(now time.Duration, e iosched.Event) {
	switch e := e.(type) {
	case iosched.Join:
		m.conns[e.Conn] = &mirrored{app: e.App, user: e.User, heard: now}
	case iosched.Ask:
		m.hear(e.Conn, now)
		m.asks++
		m.bursts[key{e.Conn, e.Burst}] = &request{order: m.asks, file: e.File}
	case iosched.Progress:
		m.hear(e.Conn, now)
		m.bursts[key{e.Conn, e.Burst}].moved += e.Bytes
	case iosched.Idle:
		m.hear(e.Conn, now)
	case iosched.Release:
		m.hear(e.Conn, now)
		if r := m.bursts[key{e.Conn, e.Burst}]; r.turn == e.Turn {
			r.granted, r.straggler = false, false
		}
	case iosched.End:
		m.hear(e.Conn, now)
		delete(m.bursts, key{e.Conn, e.Burst})
	case iosched.Alive:
		m.hear(e.Conn, now)
	case iosched.Leave:
		delete(m.conns, e.Conn)
		maps.DeleteFunc(m.bursts, func(k key, _ *request) bool { return k.conn == e.Conn })
	}
}

func (m *mirror) hear(c iosched.Conn, now time.Duration) {
	m.conns[c].heard = now
}

func (m *mirror) act(x iosched.Action) {
	r := m.bursts[key{x.Conn, x.Burst}]
	if r == nil {
		m.s.fault("%v of burst %d.%d, which is over", x.Verb, x.Conn, x.Burst)
		return
	}
	switch x.Verb {
	case iosched.GrantTurn:
		if r.granted {
			m.s.fault("burst %d.%d is granted twice", x.Conn, x.Burst)
		}
		m.checkOrder(x, r)
		r.granted, r.straggler, r.turn = true, false, x.Turn
		m.granted++
	case iosched.RevokeTurn, iosched.EvictTurn:
		if !r.granted || r.turn != x.Turn {
			m.s.fault("%v of burst %d.%d, which does not have turn %d", x.Verb, x.Conn, x.Burst, x.Turn)
		}
		if x.Verb == iosched.EvictTurn {
			r.granted, r.straggler = false, true
		}
	}
}

// checkOneHolder: one application has turns.
func (m *mirror) checkOneHolder() {
	apps := map[string]bool{}
	for k, r := range m.bursts {
		if r.granted {
			apps[m.conns[k.conn].user+"/"+m.conns[k.conn].app] = true
		}
	}
	if len(apps) > 1 {
		m.s.fault("%v have turns at once", slices.Sorted(maps.Keys(apps)))
	}
}

// checkConserving: the unit is not free while somebody waits, but for the
// short time for which it lingers.
func (m *mirror) checkConserving(now time.Duration) {
	waits := false
	for _, r := range m.bursts {
		if r.granted {
			return
		}
		waits = true
	}
	if !waits {
		return
	}
	if at, ok := m.s.ctl.a.Wake(); !ok || at > now+m.s.o.Linger {
		m.s.fault("a burst waits for a unit that is free")
	}
}

// checkOrder: no earlier burst of the application on this file waits whose
// client lives.
func (m *mirror) checkOrder(x iosched.Action, r *request) {
	c := m.conns[x.Conn]
	for k, e := range m.bursts {
		d := m.conns[k.conn]
		if r.file == "" || e == r || e.file != r.file || d.app != c.app || d.user != c.user {
			continue
		}
		lives := m.s.now-d.heard < m.s.o.Lease
		if e.order < r.order && !e.granted && lives {
			m.s.fault("burst %d.%d overtakes burst %d.%d on file %s", x.Conn, x.Burst, k.conn, k.burst, r.file)
		}
	}
}
