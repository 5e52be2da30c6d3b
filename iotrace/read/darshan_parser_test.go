package read

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"ckpt/iotrace"
)

// parserText is what darshan-parser --base --total prints of a log.
type parserText struct {
	about   map[string]string // exe, nprocs, start_time, run time, metadata: lib_ver, …
	mounts  map[string]string // type by directory
	records map[string][]parserRecord
	totals  map[string]string // by name of the counter
}

type parserRecord struct {
	id, rank, file string
	names          []string // of the counters
	values         map[string]string
}

func parseParser(text string) *parserText {
	p := &parserText{map[string]string{}, map[string]string{}, map[string][]parserRecord{}, map[string]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, value, ok := strings.Cut(strings.TrimPrefix(line, "total_"), ": "); ok && strings.HasPrefix(line, "total_") {
			p.totals[name] = value
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# mount entry:\t"); ok {
			dir, kind, _ := strings.Cut(rest, "\t")
			if p.mounts[dir] == "" {
				p.mounts[dir] = kind
			}
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# metadata: "); ok {
			key, value, _ := strings.Cut(rest, " = ")
			p.about["metadata: "+key] = value
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# "); ok {
			if key, value, ok := strings.Cut(rest, ": "); ok && p.about[key] == "" {
				p.about[key] = value
			}
			continue
		}
		f := strings.SplitN(line, "\t", 8)
		if len(f) < 6 || line[0] == '#' {
			continue
		}
		list := p.records[f[0]]
		last := len(list) - 1
		if last < 0 || list[last].id != f[2] || list[last].rank != f[1] || list[last].values[f[3]] != "" {
			list = append(list, parserRecord{id: f[2], rank: f[1], file: f[5], values: map[string]string{}})
			last++
		}
		list[last].names = append(list[last].names, f[3])
		list[last].values[f[3]] = f[4]
		p.records[f[0]] = list
	}
	return p
}

// A kind says how records are added up to a total.
type kind int

const (
	each    kind = iota // no total is compared
	sumKind             // -1 if it becomes negative
	largest
	smallest // that is positive
)

// valueOf returns what a trace has of a counter of darshan-parser, without its prefix,
// and how it is added up. Counters without a place in a trace have none.
func valueOf(c *iotrace.Counters, name string) (value any, k kind) {
	if bin := strings.NewReplacer("SIZE_READ_AGG_", "SIZE_READ_", "SIZE_WRITE_AGG_", "SIZE_WRITE_").Replace(name); strings.HasPrefix(bin, "SIZE_") {
		bins := strings.Fields("0_100 100_1K 1K_10K 10K_100K 100K_1M 1M_4M 4M_10M 10M_100M 100M_1G 1G_PLUS")
		for i, b := range bins {
			switch bin {
			case "SIZE_READ_" + b:
				return c.ReadSizes[i], sumKind
			case "SIZE_WRITE_" + b:
				return c.WriteSizes[i], sumKind
			}
		}
	}
	for i := range 4 {
		switch name {
		case fmt.Sprintf("STRIDE%d_STRIDE", i+1):
			return c.Strides[i].Size, each
		case fmt.Sprintf("STRIDE%d_COUNT", i+1):
			return c.Strides[i].Count, each
		case fmt.Sprintf("ACCESS%d_ACCESS", i+1):
			return c.Common[i].Size, each
		case fmt.Sprintf("ACCESS%d_COUNT", i+1):
			return c.Common[i].Count, each
		}
	}
	if c.Rank == iotrace.None {
		switch name {
		case "FASTEST_RANK":
			return c.Fastest.Rank, each
		case "FASTEST_RANK_BYTES":
			return c.Fastest.Bytes, each
		case "F_FASTEST_RANK_TIME":
			return c.Fastest.Time, each
		case "SLOWEST_RANK":
			return c.Slowest.Rank, each
		case "SLOWEST_RANK_BYTES":
			return c.Slowest.Bytes, each
		case "F_SLOWEST_RANK_TIME":
			return c.Slowest.Time, each
		case "F_VARIANCE_RANK_TIME":
			return c.VarianceTime, each
		case "F_VARIANCE_RANK_BYTES":
			return c.VarianceBytes, each
		}
	}
	for _, x := range []struct {
		name  string
		value any
		kind
	}{
		{"OPENS", c.Opens, sumKind}, {"READS", c.Reads, sumKind}, {"WRITES", c.Writes, sumKind},
		{"SEEKS", c.Seeks, sumKind}, {"STATS", c.Stats, sumKind}, {"MMAPS", c.Maps, sumKind}, {"SYNCS", c.Syncs, sumKind},
		{"BYTES_READ", c.BytesRead, sumKind}, {"BYTES_WRITTEN", c.BytesWritten, sumKind},
		{"MAX_BYTE_READ", c.LastRead, largest}, {"MAX_BYTE_WRITTEN", c.LastWritten, largest},
		{"CONSEC_READS", c.ConsecutiveReads, sumKind}, {"SEQ_READS", c.SequentialReads, sumKind},
		{"CONSEC_WRITES", c.ConsecutiveWrites, sumKind}, {"SEQ_WRITES", c.SequentialWrites, sumKind},
		{"RW_SWITCHES", c.Switches, sumKind},
		{"FILE_NOT_ALIGNED", c.Unaligned, sumKind}, {"MEM_NOT_ALIGNED", c.UnalignedMemory, sumKind}, {"FILE_ALIGNMENT", c.Alignment, each},
		{"INDEP_OPENS", c.IndependentOpens, sumKind}, {"COLL_OPENS", c.CollectiveOpens, sumKind},
		{"INDEP_READS", c.IndependentReads, sumKind}, {"INDEP_WRITES", c.IndependentWrites, sumKind},
		{"COLL_READS", c.CollectiveReads, sumKind}, {"COLL_WRITES", c.CollectiveWrites, sumKind},
		{"SPLIT_READS", c.SplitReads, sumKind}, {"SPLIT_WRITES", c.SplitWrites, sumKind},
		{"NB_READS", c.NonblockingReads, sumKind}, {"NB_WRITES", c.NonblockingWrites, sumKind},
		{"HINTS", c.Hints, sumKind}, {"VIEWS", c.Views, sumKind},
		{"F_READ_TIME", c.ReadTime, sumKind}, {"F_WRITE_TIME", c.WriteTime, sumKind}, {"F_META_TIME", c.MetaTime, sumKind},
		{"F_MAX_READ_TIME", c.MaxReadTime, largest}, {"F_MAX_WRITE_TIME", c.MaxWriteTime, largest},
		{"F_OPEN_START_TIMESTAMP", moment(c.FirstOpen), smallest}, {"F_READ_START_TIMESTAMP", moment(c.FirstRead), smallest},
		{"F_WRITE_START_TIMESTAMP", moment(c.FirstWrite), smallest}, {"F_CLOSE_START_TIMESTAMP", moment(c.FirstClose), smallest},
		{"F_OPEN_END_TIMESTAMP", moment(c.LastOpen), largest}, {"F_READ_END_TIMESTAMP", moment(c.LastReadEnd), largest},
		{"F_WRITE_END_TIMESTAMP", moment(c.LastWriteEnd), largest}, {"F_CLOSE_END_TIMESTAMP", moment(c.LastClose), largest},
	} {
		if x.name == name {
			return x.value, x.kind
		}
	}
	return nil, each
}

// A moment is a time since the start, or None.
type moment int64

// equal compares a value with the text of darshan-parser.
func equal(value any, text string) bool {
	switch v := value.(type) {
	case int64:
		return strconv.FormatInt(v, 10) == text
	case time.Duration:
		return near(v.Seconds(), text, 1e-6) || v == iotrace.None && text == "-1.000000"
	case moment:
		return v == iotrace.None && (text == "0.000000" || text == "-1.000000") || near(time.Duration(v).Seconds(), text, 1e-6)
	case float64:
		return near(v, text, 1e-6*math.Max(1, math.Abs(v)))
	}
	return false
}

func near(v float64, text string, most float64) bool {
	want, err := strconv.ParseFloat(text, 64)
	return err == nil && math.Abs(v-want) <= most
}

// prefixes of the counters, and modules as darshan-parser prints them.
var parserModules = []struct {
	name, prefix string
	module       iotrace.Module
}{{"POSIX", "POSIX_", iotrace.POSIX}, {"MPI-IO", "MPIIO_", iotrace.MPIIO}, {"STDIO", "STDIO_", iotrace.STDIO}}

// A comparison counts what was compared.
type comparison struct {
	t                  *testing.T
	log                string
	counters, records  int
	segments           int
	differ, unreadable int
}

func (x *comparison) differs(format string, args ...any) {
	x.t.Helper()
	if x.differ++; x.differ <= 10 {
		x.t.Errorf("%s: "+format, append([]any{x.log}, args...)...)
	}
}

// unreadable reports whether darshan-parser prints a number wrong. Of big-endian logs
// with POSIX records before version 4 it does not swap the bytes of three times. When
// it makes version 4 of version 3, it cuts off the variances, the last two numbers.
func unreadable(h *header, name string) bool {
	version := h.modules[posix].version
	switch name {
	case "POSIX_F_META_TIME", "POSIX_F_MAX_READ_TIME", "POSIX_F_MAX_WRITE_TIME":
		if version < 4 && h.order == binary.BigEndian {
			return true
		}
	case "POSIX_F_VARIANCE_RANK_TIME", "POSIX_F_VARIANCE_RANK_BYTES":
		return version == 3
	}
	return false
}

// negative reports whether a sum of times is impossible: Darshan subtracts too much now
// and then. A trace has no number for it.
func negative(name, text string) bool {
	return strings.HasSuffix(name, "_TIME") && text[0] == '-' && text != "-1.000000"
}

// compare checks a trace against the text of darshan-parser.
func (x *comparison) compare(h *header, tr *iotrace.Trace, p *parserText) {
	for _, m := range parserModules {
		var mine []*iotrace.Counters
		for i := range tr.Counters {
			if tr.Counters[i].Module == m.module {
				mine = append(mine, &tr.Counters[i])
			}
		}
		theirs := p.records[m.name]
		if len(mine) != len(theirs) {
			x.differs("%d records of %s, darshan-parser has %d", len(mine), m.name, len(theirs))
			continue
		}
		x.records += len(mine)
		for i, c := range mine {
			x.record(h, tr, c, &theirs[i], m.prefix)
		}
		for name, text := range p.totals {
			if short, ok := strings.CutPrefix(name, m.prefix); ok && len(mine) > 0 {
				less := 0.0 // of negative times
				for _, r := range theirs {
					if v := r.values[name]; v != "" && negative(name, v) {
						f, _ := strconv.ParseFloat(v, 64)
						less += f
					}
				}
				x.total(h, mine, short, name, text, less)
			}
		}
	}
	x.stripes(tr, p.records["LUSTRE"])
}

func (x *comparison) record(h *header, tr *iotrace.Trace, c *iotrace.Counters, want *parserRecord, prefix string) {
	rank := "-1"
	if c.Rank != iotrace.None {
		rank = strconv.Itoa(tr.Ranks[c.Rank].Rank)
	}
	file := tr.Files[c.File]
	if rank != want.rank || file != want.file && file != "<record "+want.id+">" {
		x.differs("record of rank %s, %s; darshan-parser has %s, %s", rank, file, want.rank, want.file)
	}
	for _, name := range want.names {
		short := strings.TrimPrefix(name, prefix)
		value, _ := valueOf(c, short)
		switch {
		case value == nil || prefix == "MPIIO_" && (short == "READS" || short == "WRITES" || short == "OPENS"):
		case unreadable(h, name), negative(name, want.values[name]):
			x.unreadable++
		default:
			x.counters++
			if !equal(value, want.values[name]) {
				x.differs("%s of %s: %v, darshan-parser has %s", name, file, value, want.values[name])
			}
		}
	}
	// A trace adds up what Darshan counts apart.
	add := func(names ...string) int64 {
		total := int64(0)
		for _, name := range names {
			n, _ := strconv.ParseInt(want.values[prefix+name], 10, 64)
			total += n
		}
		return total
	}
	switch prefix {
	case "POSIX_":
		x.counters += 2
		if n := add("FSYNCS", "FDSYNCS"); n != c.Syncs {
			x.differs("%d syncs of %s, darshan-parser has %d", c.Syncs, file, n)
		}
	case "MPIIO_":
		if n := add("INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"); n != c.Reads {
			x.differs("%d reads of %s, darshan-parser has %d", c.Reads, file, n)
		}
		if n := add("INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES"); n != c.Writes {
			x.differs("%d writes of %s, darshan-parser has %d", c.Writes, file, n)
		}
		if n := add("INDEP_OPENS", "COLL_OPENS"); n != c.Opens {
			x.differs("%d opens of %s, darshan-parser has %d", c.Opens, file, n)
		}
	}
}

// total adds the records up as darshan-parser does.
func (x *comparison) total(h *header, mine []*iotrace.Counters, short, name, text string, less float64) {
	var whole int64
	var secs float64
	isTime := false
	how := each
	for _, c := range mine {
		value, k := valueOf(c, short)
		if value == nil {
			return
		}
		how = k
		var n int64
		switch v := value.(type) {
		case int64:
			n = v
		case moment:
			isTime, n = true, int64(v)
		case time.Duration:
			isTime, n = true, int64(v)
		default:
			return
		}
		switch k {
		case sumKind:
			if whole += n; whole < 0 {
				whole = -1
			}
			secs += float64(max(n, 0)) / 1e9
		case largest:
			whole = max(whole, n)
			secs = max(secs, float64(n)/1e9)
		case smallest:
			if n > 0 && (secs == 0 || float64(n)/1e9 < secs) {
				secs = float64(n) / 1e9
			}
		default:
			return
		}
	}
	switch {
	case how == each:
	case unreadable(h, name):
		x.unreadable++
	case isTime:
		x.counters++
		if !near(secs+less, text, 2e-6+1e-9*float64(len(mine))) && text != "-1.000000" {
			x.differs("total of %s: %f, darshan-parser has %s", name, secs, text)
		}
	default:
		x.counters++
		if !equal(whole, text) {
			x.differs("total of %s: %d, darshan-parser has %s", name, whole, text)
		}
	}
}

// stripes checks the layouts of files.
func (x *comparison) stripes(tr *iotrace.Trace, records []parserRecord) {
	i := 0
	seen := map[string]bool{}
	for _, r := range records {
		if seen[r.file] {
			continue
		}
		seen[r.file] = true
		n, _ := strconv.Atoi(r.values["LUSTRE_NUM_COMPONENTS"])
		for k := 1; k <= n; k++ {
			get := func(name string) int64 {
				v, _ := strconv.ParseInt(r.values[fmt.Sprintf("LUSTRE_COMP%d_%s", k, name)], 10, 64)
				return v
			}
			if get("STRIPE_COUNT") < 1 || get("STRIPE_SIZE") < 1 {
				continue
			}
			if i >= len(tr.Striping) {
				x.differs("the stripes of %s are missing", r.file)
				return
			}
			s := tr.Striping[i]
			i++
			x.counters += 4 + len(s.OSTs)
			same := tr.Files[s.File] == r.file && s.Size == get("STRIPE_SIZE") && int64(s.Count) == get("STRIPE_COUNT") &&
				s.Start == get("EXT_START") && s.End == get("EXT_END")
			for j, ost := range s.OSTs {
				same = same && ost == get("OST_ID_"+strconv.Itoa(j))
			}
			if !same {
				x.differs("stripes %+v of %s, darshan-parser has %v", s, r.file, r.values)
			}
		}
	}
	if i != len(tr.Striping) {
		x.differs("%d stripings, darshan-parser has %d", len(tr.Striping), i)
	}
}
