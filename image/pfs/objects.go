package pfs

import (
	"errors"
	"fmt"
)

// Connections make a storage one of objects: a process has so many, each with one request at a
// time, which is a part of an object (System.RPC long). So a part of P bytes takes
// host.latency + P / rate, whatever the network could do. Objects have one writer.
type Connections struct {
	Count int  `yaml:"count,omitempty" json:"count"` // of a process; zero: files, not objects
	Rate  Rate `yaml:"rate,omitempty" json:"rate"`   // of each
	// Least, Most and Parts are what the storage allows: the length of a part, and how many an
	// object has. Zero is no limit.
	Least Bytes `yaml:"least_part,omitempty" json:"least_part"`
	Most  Bytes `yaml:"most_part,omitempty" json:"most_part"`
	Parts int   `yaml:"most_parts,omitempty" json:"most_parts"`
}

// Prices are what the provider of a storage of objects asks for.
type Prices struct {
	Currency string  `yaml:"currency,omitempty" json:"currency"` // as USD
	Put      float64 `yaml:"put,omitempty" json:"put"`           // of 1,000 requests that write
	Get      float64 `yaml:"get,omitempty" json:"get"`           // of 1,000 others
	Month    float64 `yaml:"month,omitempty" json:"month"`       // of a GiB that is kept for a month
}

// Requests are what writing takes, by their price.
type Requests struct {
	Puts, Gets int64
}

// Bill is what a checkpoint costs, in a currency.
type Bill struct {
	Currency   string
	Checkpoint float64 // its requests
	Month      float64 // what it stores, kept for a month
}

// Objects reports whether the storage keeps objects.
func (s *System) Objects() bool { return s.Connections.Count > 0 }

// WithParts is the storage with parts of another length, and so many connections.
func (s *System) WithParts(part Bytes, connections int) *System {
	out := *s
	out.RPC, out.Connections.Count = part, connections
	out.InFlight = max(out.InFlight, connections)
	return &out
}

// dirty is how much a process may have written to a target that is not there yet: of objects the
// parts under way, and one that is being filled.
func (s *System) dirty() int64 {
	if s.Objects() {
		return int64(s.RPC)*int64(s.Connections.Count+1) - 1
	}
	return int64(s.Host.Dirty)
}

func (s *System) checkObjects() error {
	c := &s.Connections
	for _, x := range []struct {
		bad    bool
		reason string
	}{
		{c.Count == 0 && *c != Connections{}, "connections.count: missing"},
		{c.Count > 0 && c.Rate == 0, "connections.rate: missing"},
		{c.Count > 0 && s.Host.InFlight > 0, "host.in_flight: connections bound the requests already"},
		{c.Count > 0 && s.Host.Dirty > 0, "host.dirty: connections have their parts, and one more"},
		{c.Count > 0 && s.Locks.Kind != NoLocks, "locks.kind: an object has one writer"},
		{c.Count > 0 && s.Targets.Local, "targets.local: connections leave the node"},
		{c.Count > 0 && s.RPC < c.Least, fmt.Sprintf("rpc: %s: connections.least_part is %s", s.RPC, c.Least)},
		{c.Most > 0 && s.RPC > c.Most, fmt.Sprintf("rpc: %s: connections.most_part is %s", s.RPC, c.Most)},
	} {
		if x.bad {
			return errors.New(x.reason)
		}
	}
	return nil
}

func (p *Prices) check(objects bool) error {
	switch {
	case *p == Prices{}:
		return nil
	case p.Currency == "":
		return errors.New("prices.currency: missing, like USD")
	case !objects:
		return errors.New("prices: only requests to objects are counted: add connections")
	}
	return nil
}

// Requests is what it takes to write an object of so many bytes: one PUT of a short one; else the
// beginning and the end of an upload, its parts, and a HEAD that compares what has arrived. An
// object that needs more parts than the storage allows is an error.
func (s *System) Requests(bytes int64) (Requests, error) {
	part := int64(s.RPC)
	parts := (bytes + part - 1) / part
	if most := int64(s.Connections.Parts); most > 0 && parts > most {
		return Requests{}, &PartsError{System: s.Name, Bytes: bytes, Part: part, Most: most}
	}
	if parts <= 1 {
		return Requests{Puts: 1}, nil
	}
	return Requests{Puts: parts + 2, Gets: 1}, nil
}

// Add adds what another object takes.
func (r *Requests) Add(o Requests) { r.Puts, r.Gets = r.Puts+o.Puts, r.Gets+o.Gets }

// Bill prices requests, and bytes that are kept; nil if no price is known.
func (s *System) Bill(r Requests, bytes int64) *Bill {
	p := &s.Prices
	if *p == (Prices{}) {
		return nil
	}
	return &Bill{p.Currency, (float64(r.Puts)*p.Put + float64(r.Gets)*p.Get) / 1000, float64(bytes) / (1 << 30) * p.Month}
}

// PartsError says that an object needs more parts than the storage allows.
type PartsError struct {
	System            string
	Bytes, Part, Most int64
}

func (e *PartsError) Error() string {
	return fmt.Sprintf("an object of %.2f GiB has more than %d parts of %s, the most of %s", float64(e.Bytes)/(1<<30), e.Most, Bytes(e.Part), e.System)
}

// fills reports whether so few bytes of a process that writes objects wait for more: a part is
// sent once it is full, or the process has nothing more to write.
func (l *lane) fills(bytes int64) bool {
	sim := l.client.sim
	return sim.sys.Objects() && !l.read && len(l.runs) == 1 && bytes < sim.chunkBytes && l.client.flushed == nil
}

// connected is the flow of a chunk that has begun to use its connections. A chunk of more requests
// than there are uses them again.
func (c *chunk) connected(from float64) flow {
	sim := c.lane.client.sim
	conn := &sim.sys.Connections
	if conn.Count == 0 {
		return c.flow
	}
	bytes, unit := c.size()
	n := sim.requests(c.bytes)
	together := min(n, float64(conn.Count))
	again := float64((int(n)-1)/conn.Count) * float64(sim.sys.Host.Latency)
	return flow{max(c.flow.head, from+unit/float64(conn.Rate)), max(c.flow.tail, from+bytes/together/float64(conn.Rate)+again)}
}
