package pfs

import (
	"fmt"
	"math"
	"reflect"
	"slices"
)

// System is a description: what the parts of a storage can do. Its keys in YAML
// are listed in docs/STORAGE.md. A rate of zero is no limit, a time of zero no cost.
type System struct {
	Name   string `yaml:"name" json:"name"`
	Title  string `yaml:"title,omitempty" json:"title,omitempty"`
	Source string `yaml:"source,omitempty" json:"source,omitempty"`

	Host     Host     `yaml:"host" json:"host"`
	Routers  Routers  `yaml:"routers,omitempty" json:"routers"`
	Servers  Servers  `yaml:"servers,omitempty" json:"servers"`
	Targets  Targets  `yaml:"targets" json:"targets"`
	Metadata Metadata `yaml:"metadata,omitempty" json:"metadata"`
	Locks    Locks    `yaml:"locks,omitempty" json:"locks"`
	// Scheduler is the order of requests at a target; without a policy they are served as
	// they come.
	Scheduler Scheduler `yaml:"scheduler,omitempty" json:"scheduler"`

	RPC      Bytes    `yaml:"rpc,omitempty" json:"rpc"`             // the largest request; default 1 MiB
	InFlight int      `yaml:"in_flight,omitempty" json:"in_flight"` // requests of one process to one target; default 8
	Sync     Duration `yaml:"sync,omitempty" json:"sync"`           // of one fsync, beyond what it has to drain

	Connections Connections `yaml:"connections,omitempty" json:"connections"`
	Prices      Prices      `yaml:"prices,omitempty" json:"prices"`

	Service Service               `yaml:"service,omitempty" json:"service"`
	Codecs  map[string]CodecSpeed `yaml:"codecs,omitempty" json:"codecs,omitempty"`
	Misfit  Misfit                `yaml:"misfit,omitempty" json:"misfit"`
	Unknown []string              `yaml:"unknown,omitempty" json:"unknown,omitempty"` // what probes could not measure
	// Origins say of single fields, as targets.rate, where the number is from:
	// measured, derived from what, or assumed.
	Origins map[string]string `yaml:"origins,omitempty" json:"origins,omitempty"`
}

// Host is a node of the job.
type Host struct {
	Processors int      `yaml:"processors,omitempty" json:"processors"` // default 1
	Copy       Rate     `yaml:"copy,omitempty" json:"copy"`             // one processor copying memory
	Network    Rate     `yaml:"network,omitempty" json:"network"`       // of a node, each way
	Latency    Duration `yaml:"latency,omitempty" json:"latency"`       // of a request to the storage
	Stream     Rate     `yaml:"stream,omitempty" json:"stream"`         // one process into the storage
	InFlight   int      `yaml:"in_flight,omitempty" json:"in_flight"`   // requests of all its processes at a time; 0: no limit
	// Dirty is how much a process may have written to a target that is not there
	// yet; zero if a write waits for its answer, as with direct I/O.
	Dirty  Bytes  `yaml:"dirty,omitempty" json:"dirty"`
	Gather Gather `yaml:"gather,omitempty" json:"gather"`
	// OneHost says that all nodes of a job are this host, as on a laptop.
	OneHost bool `yaml:"one_host,omitempty" json:"one_host"`
}

// Gather is how fast an aggregator fills its buffer.
type Gather struct {
	Rate     Rate     `yaml:"rate,omitempty" json:"rate"`         // one pull at a time: P2 off
	Parallel Rate     `yaml:"parallel,omitempty" json:"parallel"` // all pulls of an aggregator together: P2 on
	Latency  Duration `yaml:"latency,omitempty" json:"latency"`   // of one pull
	// PerRank is what a round costs for each rank whose bytes the aggregator writes, as
	// an exchange of all with all; zero where aggregators just pull, as ckpt's do.
	PerRank Duration `yaml:"per_rank,omitempty" json:"per_rank"`
}

// Routers connect the hosts to the servers. Zero routers means: nothing in between.
type Routers struct {
	Count int   `yaml:"count,omitempty" json:"count"`
	Rate  Rate  `yaml:"rate,omitempty" json:"rate"`   // of each
	Cache Bytes `yaml:"cache,omitempty" json:"cache"` // of each: what may wait in it while hosts go on
}

// Servers have the targets, in turn.
type Servers struct {
	Count       int       `yaml:"count,omitempty" json:"count"` // default: one per target
	Rate        Rate      `yaml:"rate,omitempty" json:"rate"`   // of each: its connection
	Cache       Bytes     `yaml:"cache,omitempty" json:"cache"` // of each, shared equally by its targets
	CacheRate   Rate      `yaml:"cache_rate,omitempty" json:"cache_rate"`
	WriteBehind bool      `yaml:"write_behind,omitempty" json:"write_behind"` // a write is answered when it is in the cache
	PerRequest  Duration  `yaml:"per_request,omitempty" json:"per_request"`   // of its processor, for each request
	PerRead     Duration  `yaml:"per_read,omitempty" json:"per_read"`         // for each request that reads; default as PerRequest
	ReadAhead   ReadAhead `yaml:"read_ahead,omitempty" json:"read_ahead"`
}

// ReadAhead fetches into the cache what a reader will want next.
type ReadAhead struct {
	After int   `yaml:"after,omitempty" json:"after"` // contiguous requests that begin it; default 2
	Most  Bytes `yaml:"most,omitempty" json:"most"`   // zero: no reading ahead
}

// Targets are disks, or arrays of them: the OSTs of Lustre.
type Targets struct {
	Count      int        `yaml:"count" json:"count"`
	Local      bool       `yaml:"local,omitempty" json:"local"`             // every node has so many of its own
	Rate       Rate       `yaml:"rate" json:"rate"`                         // of each, writing
	ReadRate   Rate       `yaml:"read_rate,omitempty" json:"read_rate"`     // of each; default as Rate
	Seek       Duration   `yaml:"seek,omitempty" json:"seek"`               // when a request does not continue the one before
	PerRequest Duration   `yaml:"per_request,omitempty" json:"per_request"` // of each request
	AlwaysSeek bool       `yaml:"always_seek,omitempty" json:"always_seek"` // a read that leaves a gap seeks, however short that is
	Stragglers Stragglers `yaml:"stragglers,omitempty" json:"stragglers"`
	// Free is the space of each target, or of all of them if it is one number; none: no limit.
	Free    []Bytes   `yaml:"free,omitempty" json:"free,omitempty"`
	Sharing []Sharing `yaml:"sharing,omitempty" json:"sharing,omitempty"` // by ascending number of writers
}

// Fullest returns the target with the least free space, of those that were chosen or, without a
// choice, of all; ok is false where that is not described.
func (t *Targets) Fullest(chosen []int) (number int, free int64, ok bool) {
	for i, f := range t.Free {
		if len(t.Free) > 1 && chosen != nil && !slices.Contains(chosen, i) {
			continue
		}
		if !ok || int64(f) < free {
			number, free, ok = i, int64(f), true
		}
	}
	return number, free, ok
}

// CheckChoice says why files cannot lie on the targets that were chosen.
func (t *Targets) CheckChoice(chosen []int) error {
	seen := make(map[int]bool)
	for _, number := range chosen {
		switch {
		case t.Local:
			return fmt.Errorf("target %d: every node has targets of its own", number)
		case number < 0 || number >= t.Count:
			return fmt.Errorf("target %d: must be 0 to %d", number, t.Count-1)
		case seen[number]:
			return fmt.Errorf("target %d: chosen twice", number)
		}
		seen[number] = true
	}
	return nil
}

// unevenSpace is the difference of free space, as a share of the most, above which Lustre no
// longer deals targets in turn (Larrosa, section 1.2.4).
const unevenSpace = 0.17

// Uneven reports whether the targets are dealt to files by their free space.
func (t *Targets) Uneven() bool {
	_, least, known := t.Fullest(nil)
	most := float64(0)
	for _, f := range t.Free {
		most = max(most, float64(f))
	}
	return known && len(t.Free) > 1 && most-float64(least) > unevenSpace*most
}

// Stragglers are targets that are slower than the rest.
type Stragglers struct {
	Share  float64 `yaml:"share,omitempty" json:"share"`   // of the targets
	Factor float64 `yaml:"factor,omitempty" json:"factor"` // of their rate
}

// Sharing is the rate of a target with so many processes at it, as a factor of
// its rate with one. Between two entries the factor is interpolated by the
// logarithm of the number.
type Sharing struct {
	Writers int     `yaml:"writers" json:"writers"`
	Factor  float64 `yaml:"factor" json:"factor"`
}

// Metadata is the server of names.
type Metadata struct {
	Creates float64  `yaml:"creates,omitempty" json:"creates"` // files per second
	Opens   float64  `yaml:"opens,omitempty" json:"opens"`     // per second, of files that exist
	Latency Duration `yaml:"latency,omitempty" json:"latency"` // of each operation
	Rename  Duration `yaml:"rename,omitempty" json:"rename"`
	SyncDir Duration `yaml:"sync_dir,omitempty" json:"sync_dir"`
}

// LockKind says how a file system keeps writers of one file apart.
type LockKind string

// The kinds of locks.
const (
	NoLocks     LockKind = "none"
	ExtentToEnd LockKind = "extent-to-end" // Lustre: from the extent's start to the end of the file
)

// Locks are held for each file on each target.
type Locks struct {
	Kind     LockKind `yaml:"kind,omitempty" json:"kind"`         // default none
	Grant    Duration `yaml:"grant,omitempty" json:"grant"`       // of a free lock
	Callback Duration `yaml:"callback,omitempty" json:"callback"` // to take it from its holder
	// PerWaiter is what a change of hands takes more for each process that waits: the
	// server goes through its queue, and calls back for each.
	PerWaiter Duration `yaml:"per_waiter,omitempty" json:"per_waiter"`
	// Drop is the rate at which a process drops from its cache what it has written under a lock
	// that is called back; 0 takes no time.
	Drop Rate `yaml:"drop,omitempty" json:"drop"`
}

// Service is what ckpt itself needs beside the storage, in seconds per checkpoint.
type Service struct {
	Coordination Cost `yaml:"coordination,omitempty" json:"coordination"`
	Management   Cost `yaml:"management,omitempty" json:"management"`
}

// Cost is linear in ranks and files.
type Cost struct {
	Base    Duration `yaml:"base,omitempty" json:"base"`
	PerRank Duration `yaml:"per_rank,omitempty" json:"per_rank"`
	PerFile Duration `yaml:"per_file,omitempty" json:"per_file"`
}

// Of returns the cost for so many ranks and files.
func (c Cost) Of(ranks, files int) float64 {
	return float64(c.Base) + float64(ranks)*float64(c.PerRank) + float64(files)*float64(c.PerFile)
}

// CodecSpeed is one processor packing and unpacking, in bytes of memory.
type CodecSpeed struct {
	Pack   Rate    `yaml:"pack" json:"pack"`
	Unpack Rate    `yaml:"unpack,omitempty" json:"unpack"` // zero: unknown
	Ratio  float64 `yaml:"ratio,omitempty" json:"ratio"`   // stored bytes of a byte; zero: unknown
}

// Misfit is how far held-out probes were from what the description predicts.
type Misfit struct {
	Scatter float64 `yaml:"scatter,omitempty" json:"scatter"` // standard deviation of log(measured / predicted)
	Count   int     `yaml:"count,omitempty" json:"count"`     // of held-out probes
	// Writers is the most processes that a probe had write at a time; 0: not known. With more of
	// them a limit may be met that no probe has seen.
	Writers int `yaml:"writers,omitempty" json:"writers"`
}

func (s *System) setDefaults() {
	if s.Host.Processors == 0 {
		s.Host.Processors = 1
	}
	if s.Servers.Count == 0 && s.Targets.Count > 0 {
		s.Servers.Count = s.Targets.Count
	}
	if s.Servers.PerRead == 0 {
		s.Servers.PerRead = s.Servers.PerRequest
	}
	if s.Servers.ReadAhead.After == 0 {
		s.Servers.ReadAhead.After = 2
	}
	if s.Targets.ReadRate == 0 {
		s.Targets.ReadRate = s.Targets.Rate
	}
	if s.Targets.Stragglers.Factor == 0 {
		s.Targets.Stragglers.Factor = 1
	}
	if s.Locks.Kind == "" {
		s.Locks.Kind = NoLocks
	}
	if s.RPC == 0 {
		s.RPC = 1 << 20
	}
	if s.InFlight == 0 {
		s.InFlight = max(8, s.Connections.Count)
	}
}

// Round rounds rates, times and factors of a description that was measured to so many
// digits, so that people can read it. Times below a nanosecond become zero.
func (s *System) Round(digits int) { roundIn(reflect.ValueOf(s).Elem(), digits) }

func roundIn(v reflect.Value, digits int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			roundIn(v.Field(i), digits)
		}
	case reflect.Slice:
		for i := range v.Len() {
			roundIn(v.Index(i), digits)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			x := reflect.New(v.Type().Elem()).Elem()
			x.Set(v.MapIndex(k))
			roundIn(x, digits)
			v.SetMapIndex(k, x)
		}
	case reflect.Float64:
		x := v.Float()
		if _, isTime := v.Interface().(Duration); isTime && x < 1e-9 {
			x = 0
		}
		if x != 0 {
			// Dividing by a power of ten gives the nearest number, multiplying does not.
			places := digits - 1 - int(math.Floor(math.Log10(math.Abs(x))))
			if scale := math.Pow10(places); places > 0 {
				x = math.Round(x*scale) / scale
			} else {
				scale = math.Pow10(-places)
				x = math.Round(x/scale) * scale
			}
		}
		v.SetFloat(x)
	}
}

// Coarser is the system on which each request stands for k that follow each other: rates and
// caches are k times smaller, and what each request costs is k times larger. A job with a k-th
// of the bytes takes as long on it as the whole job on the system itself, but for how its first
// and its last requests overlap, and is simulated in a k-th of the time. Names, fsync and
// the number of requests in flight stay as they are.
func (s *System) Coarser(k float64) *System {
	if k == 1 {
		return s
	}
	out := *s
	for _, r := range []*Rate{&out.Host.Copy, &out.Host.Network, &out.Host.Stream, &out.Connections.Rate, &out.Host.Gather.Rate, &out.Host.Gather.Parallel,
		&out.Routers.Rate, &out.Servers.Rate, &out.Servers.CacheRate, &out.Targets.Rate, &out.Targets.ReadRate, &out.Locks.Drop} {
		*r = Rate(float64(*r) / k)
	}
	for _, d := range []*Duration{&out.Host.Latency, &out.Host.Gather.Latency, &out.Host.Gather.PerRank, &out.Servers.PerRequest, &out.Servers.PerRead,
		&out.Targets.Seek, &out.Targets.PerRequest, &out.Locks.Grant, &out.Locks.Callback, &out.Locks.PerWaiter} {
		*d = Duration(float64(*d) * k)
	}
	for _, b := range []*Bytes{&out.Host.Dirty, &out.Routers.Cache, &out.Servers.Cache} {
		if *b > 0 {
			*b = max(1, Bytes(float64(*b)/k))
		}
	}
	return &out
}
