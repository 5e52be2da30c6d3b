package export

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckpt/internal/lazy"
	"ckpt/iotrace"
)

// A calledEvent is an event of the Trace Event format. DFTracer writes each function of C as
// one, with names of files and nodes as numbers, which metadata explain.
type calledEvent struct {
	Name     string          `json:"name"`
	Category string          `json:"cat"`
	Phase    json.RawMessage `json:"ph"`
	PID      json.RawMessage `json:"pid"`
	Time     json.RawMessage `json:"ts"`
	Duration json.RawMessage `json:"dur"`
	Args     json.RawMessage `json:"args"`
}

// calledArgs are the arguments that say what a call did.
type calledArgs struct {
	Name, Value                    json.RawMessage // of metadata
	File                           string          `json:"file"`
	Fname                          string          `json:"fname"`
	Fhash, Hhash                   json.RawMessage
	Hostname                       string
	Ret, Bytes, Size, Count, Level json.RawMessage
	Offset                         json.RawMessage
	Zone                           string
	Create                         bool
	Peer, Checkpoint, Round        json.RawMessage
}

// calls collects events until the names of their files and processes are known.
type calls struct {
	j      *jsonReader
	unit   int64             // ns in one of the unit of time
	files  map[string]string // names by number
	nodes  map[string]string
	ranks  map[string]iotrace.Rank // by process and, if metadata name it, its node
	keys   []string                // files and processes of events, as they came
	index  map[string]int32
	events []iotrace.Event
	origin time.Time
}

func newCalls(j *jsonReader) *calls {
	return &calls{j: j, unit: 1000, files: make(map[string]string), nodes: make(map[string]string),
		ranks: make(map[string]iotrace.Rank), index: make(map[string]int32)}
}

// about reads what WriteChrome says of the whole trace.
func (c *calls) about(b []byte) {
	var x struct {
		Job, Source string
		Start       time.Time
	}
	if json.Unmarshal(b, &x) == nil {
		c.j.t.Job, c.j.t.Source, c.origin = unescaped(x.Job), unescaped(x.Source), x.Start
	}
}

func (c *calls) key(kind byte, parts ...string) int32 {
	k := string(kind) + strings.Join(parts, "\x00")
	i, ok := c.index[k]
	if !ok {
		i = int32(len(c.keys))
		c.index[k] = i
		c.keys = append(c.keys, k)
	}
	return i
}

// plainText is a number or a string without its quotes, "" for null.
func plainText(b json.RawMessage) string {
	if string(b) == "null" {
		return ""
	}
	var s string
	if len(b) > 0 && b[0] == '"' && json.Unmarshal(b, &s) == nil {
		return s
	}
	return string(b)
}

func number(b json.RawMessage) (int64, bool) {
	n, ok := iotrace.Int([]byte(plainText(b)))
	return n, ok
}

// take makes an event of I/O, or keeps what metadata say.
func (c *calls) take(x *calledEvent) (reason string) {
	var a calledArgs
	if len(x.Args) > 0 && x.Args[0] == '{' {
		if err := json.Unmarshal(x.Args, &a); err != nil {
			return "args are no object with known types: " + err.Error()
		}
	}
	switch plainText(x.Phase) {
	case "M", "4":
		c.metadata(x, &a)
		return ""
	case "X":
	default:
		c.j.rep.Other("events of phase " + plainText(x.Phase))
		return ""
	}
	e := iotrace.Event{File: iotrace.None, Peer: iotrace.None, Offset: iotrace.None}
	if e.Op, e.Module = eventOp(x); e.Op == 0 {
		c.j.rep.Other(x.Name)
		return ""
	}
	start, ok1 := c.time(x.Time)
	took, ok2 := c.time(x.Duration)
	if !ok1 || !ok2 || took < 0 {
		return "the event has no time ts, or no duration dur"
	}
	e.Start, e.End = start, start+took
	if reason := c.moves(&e, &a); reason != "" {
		return reason
	}
	if e.Bytes < 0 {
		c.j.rep.Failed++
		return ""
	}
	switch name := cmp.Or(a.File, a.Fname); {
	case plainText(a.Fhash) != "":
		e.File = c.key('h', plainText(a.Fhash))
	case name != "":
		e.File = c.key('f', unescaped(name))
	}
	e.Rank = c.key('p', plainText(x.PID), plainText(a.Hhash), a.Hostname)
	c.j.count++
	c.events = append(c.events, e)
	return ""
}

// eventOp returns the operation of an event: of ckpt by its own name, else of a function.
func eventOp(x *calledEvent) (iotrace.Op, iotrace.Module) {
	switch x.Category {
	case "data", "metadata", "step":
		m := iotrace.POSIX
		name := x.Name
		for _, other := range []iotrace.Module{iotrace.MPIIO, iotrace.STDIO} {
			if rest, ok := strings.CutPrefix(name, other.String()+" "); ok {
				m, name = other, rest
			}
		}
		op, _ := iotrace.ParseOp(name)
		return op, m
	case "POSIX", "STDIO", "MPIIO", "MPI-IO", "MPI":
		return calledOp(x.Name)
	}
	return 0, 0
}

// moves finds the bytes, the place and what else an event of ckpt has. The bytes are
// negative if the call failed.
func (c *calls) moves(e *iotrace.Event, a *calledArgs) string {
	var ok bool
	own := a.Bytes != nil
	if a.Bytes != nil || a.Checkpoint != nil || a.Zone != "" {
		e.Bytes, _ = number(a.Bytes)
		cp, _ := number(a.Checkpoint)
		round, _ := number(a.Round)
		e.Checkpoint, e.Round, e.Create = int32(cp), int32(round), a.Create
		e.Zone, _ = iotrace.ParseZone(a.Zone)
		if peer, ok := number(a.Peer); ok {
			e.Peer = c.key('r', strconv.FormatInt(peer, 10))
		}
	} else if ret, known := number(a.Ret); known {
		if ret < 0 {
			e.Bytes = -1
			return ""
		}
		size, sized := number(a.Size)
		if e.Op.Data() {
			if e.Bytes = ret; e.Module == iotrace.STDIO && sized {
				e.Bytes = ret * size // ret counts pieces
			}
		}
	} else if e.Op.Data() {
		if e.Bytes, ok = number(a.Size); !ok {
			if e.Bytes, ok = number(a.Count); !ok {
				return "a read or write has neither ret nor size: run DFTracer with DFTRACER_INC_METADATA=1"
			}
		}
	}
	if e.Op.Data() || own {
		if off, ok := number(a.Offset); ok && off >= 0 {
			e.Offset = off
		}
	}
	return ""
}

// time reads a time in the unit of the trace, as whole ns.
func (c *calls) time(b json.RawMessage) (int64, bool) {
	text := plainText(b)
	whole, fraction, _ := strings.Cut(text, ".")
	n, ok := iotrace.Int([]byte(whole))
	most := iotrace.MaxTime / c.unit
	if !ok || strings.ContainsAny(fraction, "eE") {
		// The fraction of a double may be longer than what it holds: 1.7e15 is exact.
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(math.Abs(x) < float64(most)) {
			return 0, false
		}
		if math.Abs(x) < 1e-9 { // less than a ns, whatever the exponent
			return 0, true
		}
		exact, ok := new(big.Rat).SetString(text)
		if !ok {
			return 0, false
		}
		exact.Mul(exact, big.NewRat(c.unit, 1))
		return new(big.Int).Quo(exact.Num(), exact.Denom()).Int64(), true
	}
	if n > most || n < -most {
		return 0, false
	}
	n *= c.unit
	unit := c.unit
	if text[0] == '-' {
		unit = -unit
	}
	for unit /= 10; fraction != "" && unit != 0; unit /= 10 {
		d := int64(fraction[0] - '0')
		if d < 0 || d > 9 {
			return 0, false
		}
		n += d * unit
		fraction = fraction[1:]
	}
	return n, true
}

// rankName is the name of a process that is a rank.
var rankName = lazy.Regexp(`^[Rr]ank:? ?(\d{1,9})(?: on (.*))?$`)

func (c *calls) metadata(x *calledEvent, a *calledArgs) {
	name, value := plainText(a.Name), plainText(a.Value)
	switch x.Name {
	case "FH":
		c.files[value] = name
	case "HH":
		c.nodes[value] = name
	case "CM":
		units := map[string]int64{"NS": 1, "US": 1000, "MS": 1e6, "SEC": 1e9}
		if unit := units[strings.ToUpper(value)]; name == "time_metric" && unit != 0 {
			c.unit = unit
		}
	case "PR":
		if n, err := strconv.Atoi(value); name == "rank" && err == nil && n >= 0 {
			c.ranks[process(plainText(x.PID), plainText(a.Hhash))] = iotrace.Rank{Rank: n}
		}
	case "process_name":
		pid := process(plainText(x.PID), "")
		if found := rankName().FindStringSubmatch(name); found != nil {
			n, _ := strconv.Atoi(found[1])
			c.ranks[pid] = iotrace.Rank{Rank: n, Node: unescaped(found[2])}
		} else if c.j.t.Source != "" && name != "no rank" { // of ckpt: a process that is no rank
			c.ranks[pid] = iotrace.Rank{Rank: iotrace.None, Node: unescaped(name)}
		} else if name == "no rank" {
			c.ranks[pid] = iotrace.Rank{Rank: nobody}
		}
	}
}

// process is the key of a process: its number is its own on one node only.
func process(pid, node string) string { return pid + "\x00" + node }

// nobody marks the process of events of no rank.
const nobody = -2

// finish gives the events their files and processes, and times since the first.
func (c *calls) finish() {
	if len(c.events) == 0 {
		return
	}
	t := c.j.t
	numbers := make([]int32, len(c.keys))
	for i, k := range c.keys {
		numbers[i] = c.name(k)
	}
	least := slices.MinFunc(c.events, func(a, b iotrace.Event) int { return int(min(1, max(-1, a.Start-b.Start))) }).Start
	const year1973 = 100_000_000 * int64(time.Second)
	switch t.Origin = c.origin; {
	case !c.origin.IsZero():
		least = 0
	case least >= year1973:
		t.Origin = time.Unix(0, least).UTC()
	default:
		least = 0
	}
	for _, e := range c.events {
		e.Start, e.End = e.Start-least, e.End-least
		e.Rank = numbers[e.Rank]
		if e.File != iotrace.None {
			e.File = numbers[e.File]
		}
		if e.Peer != iotrace.None {
			e.Peer = numbers[e.Peer]
		}
		if e.Check(len(t.Ranks), len(t.Files)) == nil {
			t.Events = append(t.Events, e)
		} else {
			c.j.rep.Note(0, "", "an impossible event")
		}
	}
	if t.Source == "" {
		t.Source = "dftracer"
	}
	warnOffsets(t)
}

// name returns the index in the trace of a file or a process.
func (c *calls) name(key string) int32 {
	tables := c.j.tables
	switch kind, rest := key[0], key[1:]; kind {
	case 'f':
		return tables.File(rest)
	case 'h':
		if name := c.files[rest]; name != "" {
			return tables.File(name)
		}
		return tables.File("<file " + rest + ">")
	case 'r':
		n, _ := strconv.Atoi(rest)
		for _, pid := range slices.Sorted(maps.Keys(c.ranks)) {
			if r := c.ranks[pid]; r.Rank == n {
				return tables.Rank(r)
			}
		}
		return tables.Rank(iotrace.Rank{Rank: n})
	}
	parts := strings.Split(key[1:], "\x00")
	pid, node, host := parts[0], parts[1], parts[2]
	r, ok := c.ranks[process(pid, node)]
	if !ok {
		r, ok = c.ranks[process(pid, "")]
	}
	if !ok {
		r.Rank, _ = strconv.Atoi(pid)
	}
	if r.Rank == nobody {
		return iotrace.None
	}
	r.Node = cmp.Or(r.Node, c.nodes[node], host)
	return tables.Rank(r)
}
