package pfs

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"ckpt/image/plan"
	"ckpt/internal/wording"
)

// rounds makes the rounds of a writer one after the other.
type rounds interface {
	next() (plan.Round, bool)
	stop()
}

// manyWriters are too many for each to stand still in an iterator, whose stack takes
// some kilobytes.
const manyWriters = 1 << 14

// rounds returns the rounds of a rank.
func (j *job) rounds(rank int) rounds {
	seq := j.Plan.WriterPlan(rank)
	if n := len(j.Plan.Writers); n > manyWriters {
		return &batches{seq: seq, most: max(1, 1<<18/n)}
	}
	next, stop := iter.Pull(seq)
	return &pulled{next, stop}
}

// pulled stands still in the iterator between two rounds.
type pulled struct {
	pull func() (plan.Round, bool)
	end  func()
}

func (p *pulled) next() (plan.Round, bool) { return p.pull() }
func (p *pulled) stop()                    { p.end() }

// batches begins the iterator again for each few rounds. Writers that are many have
// few rounds each.
type batches struct {
	seq   iter.Seq[plan.Round]
	most  int
	made  int // rounds so far
	ready []plan.Round
}

func (b *batches) next() (plan.Round, bool) {
	if len(b.ready) == 0 {
		b.fill()
	}
	if len(b.ready) == 0 {
		return plan.Round{}, false
	}
	r := b.ready[0]
	b.ready[0] = plan.Round{}
	b.ready = b.ready[1:]
	return r, true
}

func (b *batches) fill() {
	skip := b.made
	for r := range b.seq {
		if skip > 0 {
			skip--
			continue
		}
		b.ready = append(b.ready, r)
		b.made++
		if len(b.ready) == b.most {
			return
		}
	}
}

func (b *batches) stop() { b.ready = nil }

// take makes the next round of a writer, and says whether there is one.
func (w *writer) take(s *slot) bool {
	r, ok := w.rounds.next()
	if !ok {
		return false
	}
	s.pulls, s.extents, s.bytes = s.pulls[:0], s.extents[:0], 0
	for i := range r.Writes {
		op := &r.Writes[i]
		// Each part is a call of its own: memory does not go on there.
		at := op.Offset
		for _, part := range op.Parts {
			s.extents = append(s.extents, extent{at, part.Bytes})
			at += part.Bytes
			s.bytes += part.Bytes
		}
	}
	if w.job.Array != nil {
		w.job.Array.pulls(w, s)
		return true
	}
	from := -1
	for i := range r.Gathers {
		g := &r.Gathers[i]
		if g.Buffer == plan.InPlace {
			continue
		}
		if g.From != from {
			from = g.From
			at := w.job.position(from)
			s.pulls = append(s.pulls, pull{rank: at, from: w.job.hosts[at]})
		}
		s.pulls[len(s.pulls)-1].bytes += g.Bytes
	}
	return true
}

// gather fetches the bytes of a round. One pull fetches what comes from a rank. With P2
// they are under way together; else each begins when the one before has come.
func (w *writer) gather(s *slot) {
	sim := w.job.sim
	w.filling, s.since, s.at = s, sim.now, 0
	at := w.unpack(s) + float64(sim.sys.Host.Gather.PerRank)*float64(len(w.job.Plan.Writers[w.index].Ranks))
	if w.job.settings.P2 {
		sim.schedule(w.parallel(at, s.pulls), w, gathered)
		return
	}
	sim.schedule(at, w, pulls)
}

// unpack has the aggregator unpack the bytes of a round that it has read, or those that it needs
// itself, and returns when it can send the others.
func (w *writer) unpack(s *slot) float64 {
	j, now := w.job, w.job.sim.now
	if !j.Read || j.Unpack == nil {
		return now
	}
	if j.Unpack.Sender {
		return j.unpackTogether(now, w.client.host, float64(s.bytes))
	}
	own := s.bytes
	for i := range s.pulls {
		own -= s.pulls[i].bytes
	}
	j.unpack(now, j.position(w.rank), float64(own))
	return now
}

// pull begins the next pull of a round, or ends the round.
func (w *writer) pull() {
	sim, s := w.job.sim, w.filling
	if s.at == len(s.pulls) {
		w.gathered()
		return
	}
	s.at++
	sim.schedule(w.move(sim.now+float64(sim.sys.Host.Gather.Latency), s.pulls[s.at-1]), w, pulls)
}

// parallel returns when all pulls are done that begin at the same time.
func (w *writer) parallel(at float64, pulls []pull) float64 {
	if len(pulls) == 0 {
		return at
	}
	g := &w.job.sim.sys.Host.Gather
	at += float64(g.Latency)
	end, bytes := at, int64(0)
	for _, p := range pulls {
		end = max(end, w.move(at, p))
		bytes += p.bytes
	}
	if g.Parallel > 0 {
		end = max(end, at+float64(bytes)/float64(g.Parallel))
	}
	return end
}

// move returns when the bytes of a pull have come, which passes the network of both
// hosts.
func (w *writer) move(at float64, p pull) float64 {
	end, bytes, from, to := at, float64(p.bytes), p.from, w.client.host
	unpack := w.job.Unpack
	if w.job.Read { // the bytes go the other way
		from, to = to, from
	} else {
		unpack = nil
	}
	if unpack != nil && unpack.Sender {
		bytes /= unpack.Ratio
	}
	if rate := float64(w.job.sim.sys.Host.Gather.Rate); rate > 0 {
		end += bytes / rate
	}
	if from != to || w.job.sim.sys.Host.OneHost {
		out := from.out.pass(flow{at, at}, bytes, 0)
		end = max(end, out.tail)
	}
	if from != to {
		end = max(end, to.in.pass(flow{at, at}, bytes, 0).tail)
	}
	if unpack != nil && !unpack.Sender {
		w.job.unpack(end, p.rank, bytes)
	}
	return end
}

// Array is a two-dimensional array in blocks, one for each rank, stored row after row
// in the shared file of a plan, as the benchmark of Larrosa does (thesis, Málaga
// 2015, section 2.4).
type Array struct {
	Columns int   // ranks side by side
	Segment int64 // bytes of a rank in a row
}

func (a *Array) check(p *plan.Plan) error {
	ranks := len(p.Ranks())
	switch s := &p.Settings; {
	case s.Layout != plan.Shared || s.Strategy == plan.Individual:
		return fmt.Errorf("an array wants a shared layout with aggregators")
	case s.Header != 0:
		return fmt.Errorf("header of %d: an array begins with the file", s.Header)
	case a.Columns < 1 || ranks%a.Columns != 0:
		return fmt.Errorf("array of %d columns: must divide %d ranks", a.Columns, ranks)
	case a.Segment < 1 || p.Files[0].Bytes%(a.Segment*int64(ranks)) != 0:
		return fmt.Errorf("array with segments of %d bytes: must divide the %d bytes of a rank", a.Segment, p.Files[0].Bytes/int64(ranks))
	}
	return nil
}

// pulls finds out which ranks have the bytes of a round.
func (a *Array) pulls(w *writer, s *slot) {
	j := w.job
	if j.bytesOf == nil {
		j.bytesOf = make([]int64, len(j.hosts))
	}
	row := a.Segment * int64(a.Columns)
	block := j.Plan.Files[0].Bytes / int64(len(j.hosts)) / a.Segment * row
	self := j.position(w.rank)
	j.touched = j.touched[:0]
	for _, e := range s.extents {
		for at, end := e.offset, e.offset+e.bytes; at < end; {
			n := min(a.Segment-at%a.Segment, end-at)
			rank := int(at/block)*a.Columns + int(at%row/a.Segment)
			if j.bytesOf[rank] == 0 {
				j.touched = append(j.touched, rank)
			}
			j.bytesOf[rank] += n
			at += n
		}
	}
	for _, rank := range j.touched {
		if rank != self {
			s.pulls = append(s.pulls, pull{rank, j.hosts[rank], j.bytesOf[rank]})
		}
		j.bytesOf[rank] = 0
	}
}

// Bytes is a size. A description says 4MiB, or 4096.
type Bytes int64

// Rate is in bytes per second. A description says 500MB/s. Zero means no limit.
type Rate float64

// Duration is in seconds. A description says 0.5ms, or 2 for seconds.
type Duration float64

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := readSize(string(text))
	if err != nil {
		return fmt.Errorf("%q: %w, want one like 4MiB", text, err)
	}
	*b = Bytes(n)
	return nil
}

// readSize reads a size that may be zero.
func readSize(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	return wording.Size(s)
}

// MarshalText writes the size with the largest unit of which it is a multiple.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b Bytes) String() string {
	n, units := int64(b), []string{"", "KiB", "MiB", "GiB", "TiB"}
	for n != 0 && n%1024 == 0 && len(units) > 1 {
		n, units = n/1024, units[1:]
	}
	return strconv.FormatInt(n, 10) + units[0]
}

// UnmarshalText reads a rate.
func (r *Rate) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == "0" {
		*r = 0
		return nil
	}
	per, ok := strings.CutSuffix(s, "/s")
	if !ok {
		return fmt.Errorf("%q: invalid rate, want one like 500MB/s", text)
	}
	v, err := readRate(strings.TrimSpace(per))
	if err != nil {
		return fmt.Errorf("%q: %w, want one like 500MB/s", text, err)
	}
	*r = Rate(v)
	return nil
}

// readRate reads the bytes of a rate, which need not be whole.
func readRate(s string) (float64, error) {
	if digits, plain := strings.CutSuffix(s, "B"); plain {
		if v, err := strconv.ParseFloat(digits, 64); err == nil {
			if !(v >= 0 && v <= maxRate) {
				return 0, errors.New("out of range")
			}
			return v, nil
		}
	}
	n, err := wording.Size(s)
	return float64(n), err
}

// MarshalText writes the rate so that reading it gives the same number.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r Rate) String() string {
	if r == 0 {
		return "0"
	}
	for _, unit := range []struct {
		name string
		of   float64
	}{{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}} {
		text := strconv.FormatFloat(float64(r)/unit.of, 'f', -1, 64)
		var same Rate
		if float64(r) >= unit.of && len(text) < 8 && same.UnmarshalText([]byte(text+unit.name)) == nil && same == r {
			return text + unit.name
		}
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64) + "B/s"
}

// UnmarshalText reads a time.
func (d *Duration) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if v, err := strconv.ParseFloat(strings.TrimSuffix(s, "s"), 64); err == nil && v >= 0 && v <= maxTime {
		*d = Duration(v)
		return nil
	}
	v, err := wording.Duration(s)
	if err != nil {
		return fmt.Errorf("%q: %w, want one like 0.5ms", text, err)
	}
	*d = Duration(v.Seconds())
	return nil
}

// MarshalText writes the time so that reading it gives the same number.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d Duration) String() string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{"ms", 1e3}, {"us", 1e6}} {
		text := strconv.FormatFloat(float64(d)*unit.of, 'f', -1, 64)
		var same Duration
		if d > 0 && float64(d)*unit.of < 1e3 && len(text) < 8 && same.UnmarshalText([]byte(text+unit.name)) == nil && same == d {
			return text + unit.name
		}
	}
	if d == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(d), 'f', -1, 64) + "s"
}
