package iosched

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The prediction protocol of aIOLimaster (Lebre 2006, §6.1) gives processes turns at a
// storage unit without an exchange of messages between two turns. Each asks with
// REQUEST. The site answers at once with PREPARE and a delay: how long it expects the
// turns before to take. The process accesses the storage when the delay is over, and
// says END. If that comes earlier than expected, EXTRA tells the next one to begin.
//
// The site hears too late of a turn that lasts longer than expected: the next has begun
// by itself, and all that were told a delay come too early. [SiteOptions].Ratio is the
// remedy of the thesis.

// MessageKind is the kind of a Message.
type MessageKind uint8

// The messages of a turn, in order.
const (
	MessageRequest MessageKind = iota // a client wants to move Bytes
	MessagePrepare                    // the site: begin after Delay
	MessageEnd                        // a client has moved its bytes
	MessageExtra                      // the site: begin at once
)

func (k MessageKind) String() string {
	if names := [...]string{"REQUEST", "PREPARE", "END", "EXTRA"}; int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("message %d", uint8(k))
}

// A Message goes between a client and the site. Turn is a number that the client chose.
type Message struct {
	Kind   MessageKind
	Client int
	Turn   uint64
	Bytes  int64
	Delay  time.Duration
}

// SiteOptions are the estimates of a control site.
type SiteOptions struct {
	Rate float64 // of the storage unit, bytes per second
	// Ratio is k: how many times as long as the rate says a turn is expected to take, so
	// that turns end earlier than expected, not later; 0: 1.
	Ratio float64
	// Latency is T: of a message one way. It is the tolerance too: a turn that ends less
	// earlier than expected causes no EXTRA, which would come too late.
	Latency time.Duration
}

// Site is the control site of a storage unit: a pure machine. Times are of one clock, but
// no time crosses the network: a delay counts from when its message arrives.
type Site struct {
	o     SiteOptions
	turns []siteTurn // in the order of their requests; the first may have begun
}

// siteTurn is a turn that has not ended, as the site expects it.
type siteTurn struct {
	client     int
	number     uint64
	begin, end time.Duration
	extra      bool // it was told to begin at once
}

// NewSite makes an idle site.
func NewSite(o SiteOptions) (*Site, error) {
	if o.Ratio == 0 {
		o.Ratio = 1
	}
	switch {
	case !(o.Rate > 0) || math.IsInf(o.Rate, 1):
		return nil, fmt.Errorf("prediction: rate %g bytes/s: want a finite rate above 0", o.Rate)
	case !(o.Ratio > 0) || math.IsInf(o.Ratio, 1):
		return nil, fmt.Errorf("prediction: ratio %g: want a finite number above 0, 1 or more so that turns end in time", o.Ratio)
	case o.Latency < 0:
		return nil, fmt.Errorf("prediction: latency %v: want one from 0", o.Latency)
	}
	return &Site{o: o}, nil
}

// Expected is how long the site expects the transfer of so many bytes to take.
func (s *Site) Expected(bytes int64) time.Duration {
	seconds := float64(bytes) / s.o.Rate * s.o.Ratio
	return time.Duration(min(seconds*1e9, math.MaxInt64/4))
}

// Waiting is how many turns have not ended.
func (s *Site) Waiting() int { return len(s.turns) }

// Receive takes a message, and returns the answers. A message that makes no sense, as the
// END of an unknown turn, changes nothing; the error says so.
func (s *Site) Receive(now time.Duration, m Message) ([]Message, error) {
	switch m.Kind {
	case MessageRequest:
		return s.request(now, m)
	case MessageEnd:
		return s.end(now, m)
	}
	return nil, fmt.Errorf("prediction: %v of client %d: a site takes REQUEST and END", m.Kind, m.Client)
}

// request puts a turn behind all others.
func (s *Site) request(now time.Duration, m Message) ([]Message, error) {
	if m.Bytes < 0 {
		return nil, fmt.Errorf("prediction: REQUEST of client %d for %d bytes: want a size from 0", m.Client, m.Bytes)
	}
	if s.find(m.Client, m.Turn) >= 0 {
		return nil, fmt.Errorf("prediction: REQUEST of client %d for turn %d: it has asked for this turn already", m.Client, m.Turn)
	}
	there := now + s.o.Latency
	begin := there
	if n := len(s.turns); n > 0 {
		begin = max(begin, s.turns[n-1].end)
	}
	s.turns = append(s.turns, siteTurn{client: m.Client, number: m.Turn, begin: begin, end: begin + s.Expected(m.Bytes)})
	return []Message{{Kind: MessagePrepare, Client: m.Client, Turn: m.Turn, Bytes: m.Bytes, Delay: begin - there}}, nil
}

// end ends a turn. If the first ends earlier than expected, the next begins.
func (s *Site) end(now time.Duration, m Message) ([]Message, error) {
	i := s.find(m.Client, m.Turn)
	if i < 0 {
		return nil, fmt.Errorf("prediction: END of client %d for turn %d: it has not asked for this turn", m.Client, m.Turn)
	}
	s.turns = slices.Delete(s.turns, i, i+1)
	if i > 0 {
		return nil, nil // it began too early, since the turns before last too long
	}
	return s.advance(now), nil
}

// Leave ends the turns of a client that is gone. The next does not wait for it.
func (s *Site) Leave(now time.Duration, client int) []Message {
	first := len(s.turns) > 0 && s.turns[0].client == client
	s.turns = slices.DeleteFunc(s.turns, func(t siteTurn) bool { return t.client == client })
	if !first {
		return nil
	}
	return s.advance(now)
}

// advance tells the first turn to begin at once, if it would begin much later by itself.
// The expected ends of the others stay: they were told a delay.
func (s *Site) advance(now time.Duration) []Message {
	if len(s.turns) == 0 {
		return nil
	}
	t := &s.turns[0]
	// The turn before ended a latency ago, and the message is there after another.
	if t.extra || t.begin-(now-s.o.Latency) <= s.o.Latency {
		return nil
	}
	t.extra = true
	saved := max(0, t.begin-(now+s.o.Latency))
	t.begin -= saved
	t.end -= saved
	return []Message{{Kind: MessageExtra, Client: t.client, Turn: t.number}}
}

func (s *Site) find(client int, number uint64) int {
	return slices.IndexFunc(s.turns, func(t siteTurn) bool { return t.client == client && t.number == number })
}

// SiteClient is a process that takes turns: a pure machine. It has one turn at a time.
type SiteClient struct {
	id    int
	turn  uint64
	state clientState
	begin time.Duration
	bytes int64
}

type clientState uint8

const (
	clientIdle    clientState = iota
	clientAsking              // has sent REQUEST
	clientWaiting             // has got PREPARE
	clientActive              // accesses the storage
)

// NewSiteClient makes a process that wants nothing yet.
func NewSiteClient(id int) *SiteClient { return &SiteClient{id: id} }

// Want asks for a turn.
func (c *SiteClient) Want(bytes int64) (Message, error) {
	if c.state != clientIdle {
		return Message{}, fmt.Errorf("prediction: client %d wants a turn, and has not ended turn %d", c.id, c.turn)
	}
	c.turn++
	c.state, c.bytes = clientAsking, bytes
	return Message{Kind: MessageRequest, Client: c.id, Turn: c.turn, Bytes: bytes}, nil
}

// Receive takes a message of the site. A message for a turn that has begun or ended came
// too late, and is ignored.
func (c *SiteClient) Receive(now time.Duration, m Message) error {
	if m.Client != c.id {
		return fmt.Errorf("prediction: client %d received %v for client %d", c.id, m.Kind, m.Client)
	}
	switch {
	case (m.Kind != MessagePrepare && m.Kind != MessageExtra) || m.Turn > c.turn || m.Turn == 0:
		return fmt.Errorf("prediction: client %d received %v of turn %d: it did not ask for it", c.id, m.Kind, m.Turn)
	case m.Turn < c.turn:
	case m.Kind == MessagePrepare && c.state == clientAsking:
		c.state, c.begin = clientWaiting, now+max(0, m.Delay)
	case m.Kind == MessageExtra && c.state == clientAsking:
		// It has overtaken PREPARE, which says later.
		c.state, c.begin = clientWaiting, now
	case m.Kind == MessageExtra && c.state == clientWaiting:
		c.begin = min(c.begin, now)
	}
	return nil
}

// Wake returns when the client is to begin; ok says that it knows.
func (c *SiteClient) Wake() (at time.Duration, ok bool) {
	return c.begin, c.state == clientWaiting
}

// Begin begins the turn, and returns how many bytes it is for.
func (c *SiteClient) Begin(now time.Duration) (bytes int64, err error) {
	if c.state != clientWaiting || now < c.begin {
		return 0, fmt.Errorf("prediction: client %d begins turn %d at %v: its delay is not over", c.id, c.turn, now)
	}
	c.state = clientActive
	return c.bytes, nil
}

// End ends the turn.
func (c *SiteClient) End() (Message, error) {
	if c.state != clientActive {
		return Message{}, fmt.Errorf("prediction: client %d ends turn %d, and has not begun it", c.id, c.turn)
	}
	c.state = clientIdle
	return Message{Kind: MessageEnd, Client: c.id, Turn: c.turn, Bytes: c.bytes}, nil
}

// exclusionLatencies is how many latencies lie at least between two accesses of a process
// that asks and ends with one exchange each, without predictions (Lebre 2006, §6.1).
const exclusionLatencies = 4

// ExclusionIdle is how long a storage unit is idle while a process makes so many accesses
// one after the other, each with an exchange for its permission and one for its end.
func ExclusionIdle(accesses int64, latency time.Duration) time.Duration {
	return time.Duration(accesses) * exclusionLatencies * latency
}
