package read

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"math"
	"strings"

	"ckpt/iotrace"
)

// A byteOrder reads and appends numbers.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// A logWriter makes logs, as Darshan of any release would on any machine.
type logWriter struct {
	order                    byteOrder
	format                   string // 3.41
	plain                    bool   // no compression
	nprocs                   int64
	start, end               int64 // seconds
	startNS, endNS           int64
	job                      int64
	metadata                 string
	exe                      string // and mounts
	names                    map[uint64]string
	modules                  map[int]moduleData
	noNames, apart, unpacked bool // apart: streams of 500 bytes; unpacked: the compression is unknown
}

// moduleData are the records of a module.
type moduleData struct {
	version uint32
	data    []byte
	partial bool
}

// newWriter returns a small log.
func newWriter(order byteOrder, format string) *logWriter {
	return &logWriter{order: order, format: format, nprocs: 4, start: 1_600_000_000, end: 1_600_000_010, startNS: 250_000_000, endNS: 750_000_000, job: 77,
		metadata: "lib_ver=3.x\nh=romio_no_indep_rw=true;cb_nodes=4\n", exe: "./prog -x 1\next4\t/\nlustre\t/scratch",
		names: map[uint64]string{1: "/scratch/a", 2: "/scratch/b"}, modules: map[int]moduleData{}}
}

func (w *logWriter) minor() string { return w.format[2:] }

// ints appends numbers.
func (w *logWriter) ints(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = w.order.AppendUint64(b, uint64(n))
	}
	return b
}

func (w *logWriter) floats(b []byte, numbers ...float64) []byte {
	for _, n := range numbers {
		b = w.order.AppendUint64(b, math.Float64bits(n))
	}
	return b
}

// pack compresses a region.
func (w *logWriter) pack(b []byte) []byte {
	if w.plain {
		return b
	}
	var out bytes.Buffer
	for first := true; first || len(b) > 0; first = false {
		n := len(b)
		if w.apart {
			n = min(n, 500)
		}
		z := zlib.NewWriter(&out)
		z.Write(b[:n])
		z.Close()
		b = b[n:]
	}
	return out.Bytes()
}

// moduleNumber returns the number of a module in the header of a format.
func (w *logWriter) moduleNumber(m int) int {
	n := m
	if w.minor() < "41" && m > 6 {
		n--
	}
	if w.minor() < "20" && m > 4 {
		n--
	}
	return n
}

// bytes returns the log.
func (w *logWriter) bytes() []byte {
	slots, size := 16, 360
	if w.minor() == "41" {
		slots, size = 64, 1328
	}
	job := w.ints(nil, 1000, w.start)
	if slots == 64 {
		job = w.ints(job, w.startNS)
	}
	job = w.ints(job, w.end)
	if slots == 64 {
		job = w.ints(job, w.endNS)
	}
	job = w.ints(job, w.nprocs, w.job)
	job = append(job, w.metadata...)
	job = append(job, make([]byte, 1024-len(w.metadata))...)
	job = append(job, w.exe...)
	body := w.pack(job)
	maps := make([]uint64, 2*(1+slots))
	versions := make([]uint32, slots)
	place := func(i int, data []byte) {
		maps[2*i], maps[2*i+1] = uint64(size+len(body)), uint64(len(data))
		body = append(body, data...)
	}
	if !w.noNames {
		place(0, w.pack(w.nameTable()))
	}
	partial := uint64(0)
	for m := range 64 {
		mod, ok := w.modules[m]
		if !ok {
			continue
		}
		n := w.moduleNumber(m)
		versions[n] = mod.version
		if mod.partial {
			partial |= 1 << n
		}
		if len(mod.data) > 0 {
			place(1+n, w.pack(mod.data))
		}
	}
	head := append([]byte(w.format), make([]byte, 8-len(w.format))...)
	head = w.order.AppendUint64(head, 6567223)
	kind := byte(0)
	if w.plain {
		kind = 2
	}
	if w.unpacked {
		kind = 9
	}
	head = append(head, kind, 0, 0, 0)
	if slots == 16 {
		head = w.order.AppendUint32(head, uint32(partial))
	} else {
		head = w.order.AppendUint64(append(head, 0, 0, 0, 0), partial)
	}
	for _, n := range maps {
		head = w.order.AppendUint64(head, n)
	}
	for _, v := range versions {
		head = w.order.AppendUint32(head, v)
	}
	return append(head, body...)
}

func (w *logWriter) nameTable() (b []byte) {
	for id, name := range w.names {
		b = w.order.AppendUint64(b, id)
		if w.format == "3.00" {
			b = append(w.order.AppendUint32(b, uint32(len(name))), name...)
		} else {
			b = append(append(b, name...), 0)
		}
	}
	return b
}

// The counters and times of records, by version, as the headers of Darshan list them.
var (
	posixNames = strings.Fields(`OPENS FILENOS DUPS READS WRITES SEEKS STATS MMAPS FSYNCS FDSYNCS RENAME_SOURCES RENAME_TARGETS RENAMED_FROM MODE
		BYTES_READ BYTES_WRITTEN MAX_BYTE_READ MAX_BYTE_WRITTEN CONSEC_READS CONSEC_WRITES SEQ_READS SEQ_WRITES RW_SWITCHES
		MEM_NOT_ALIGNED MEM_ALIGNMENT FILE_NOT_ALIGNED FILE_ALIGNMENT MAX_READ_TIME_SIZE MAX_WRITE_TIME_SIZE
		SIZE_READ_0_100 SIZE_READ_100_1K SIZE_READ_1K_10K SIZE_READ_10K_100K SIZE_READ_100K_1M SIZE_READ_1M_4M SIZE_READ_4M_10M
		SIZE_READ_10M_100M SIZE_READ_100M_1G SIZE_READ_1G_PLUS SIZE_WRITE_0_100 SIZE_WRITE_100_1K SIZE_WRITE_1K_10K SIZE_WRITE_10K_100K
		SIZE_WRITE_100K_1M SIZE_WRITE_1M_4M SIZE_WRITE_4M_10M SIZE_WRITE_10M_100M SIZE_WRITE_100M_1G SIZE_WRITE_1G_PLUS
		STRIDE1_STRIDE STRIDE2_STRIDE STRIDE3_STRIDE STRIDE4_STRIDE STRIDE1_COUNT STRIDE2_COUNT STRIDE3_COUNT STRIDE4_COUNT
		ACCESS1_ACCESS ACCESS2_ACCESS ACCESS3_ACCESS ACCESS4_ACCESS ACCESS1_COUNT ACCESS2_COUNT ACCESS3_COUNT ACCESS4_COUNT
		FASTEST_RANK FASTEST_RANK_BYTES SLOWEST_RANK SLOWEST_RANK_BYTES`)
	mpiioNames = strings.Fields(`INDEP_OPENS COLL_OPENS INDEP_READS INDEP_WRITES COLL_READS COLL_WRITES SPLIT_READS SPLIT_WRITES NB_READS NB_WRITES
		SYNCS HINTS VIEWS MODE BYTES_READ BYTES_WRITTEN RW_SWITCHES MAX_READ_TIME_SIZE MAX_WRITE_TIME_SIZE
		SIZE_READ_AGG_0_100 SIZE_READ_AGG_100_1K SIZE_READ_AGG_1K_10K SIZE_READ_AGG_10K_100K SIZE_READ_AGG_100K_1M SIZE_READ_AGG_1M_4M
		SIZE_READ_AGG_4M_10M SIZE_READ_AGG_10M_100M SIZE_READ_AGG_100M_1G SIZE_READ_AGG_1G_PLUS SIZE_WRITE_AGG_0_100 SIZE_WRITE_AGG_100_1K
		SIZE_WRITE_AGG_1K_10K SIZE_WRITE_AGG_10K_100K SIZE_WRITE_AGG_100K_1M SIZE_WRITE_AGG_1M_4M SIZE_WRITE_AGG_4M_10M
		SIZE_WRITE_AGG_10M_100M SIZE_WRITE_AGG_100M_1G SIZE_WRITE_AGG_1G_PLUS
		ACCESS1_ACCESS ACCESS2_ACCESS ACCESS3_ACCESS ACCESS4_ACCESS ACCESS1_COUNT ACCESS2_COUNT ACCESS3_COUNT ACCESS4_COUNT
		FASTEST_RANK FASTEST_RANK_BYTES SLOWEST_RANK SLOWEST_RANK_BYTES`)
	stdioNames = strings.Fields(`OPENS FDOPENS READS WRITES SEEKS FLUSHES BYTES_WRITTEN BYTES_READ MAX_BYTE_READ MAX_BYTE_WRITTEN
		FASTEST_RANK FASTEST_RANK_BYTES SLOWEST_RANK SLOWEST_RANK_BYTES`)
	timeNames = strings.Fields(`F_OPEN_START_TIMESTAMP F_READ_START_TIMESTAMP F_WRITE_START_TIMESTAMP F_CLOSE_START_TIMESTAMP
		F_OPEN_END_TIMESTAMP F_READ_END_TIMESTAMP F_WRITE_END_TIMESTAMP F_CLOSE_END_TIMESTAMP F_READ_TIME F_WRITE_TIME F_META_TIME
		F_MAX_READ_TIME F_MAX_WRITE_TIME F_FASTEST_RANK_TIME F_SLOWEST_RANK_TIME F_VARIANCE_RANK_TIME F_VARIANCE_RANK_BYTES`)
	stdioTimeNames = strings.Fields(`F_META_TIME F_WRITE_TIME F_READ_TIME F_OPEN_START_TIMESTAMP F_CLOSE_START_TIMESTAMP F_WRITE_START_TIMESTAMP
		F_READ_START_TIMESTAMP F_OPEN_END_TIMESTAMP F_CLOSE_END_TIMESTAMP F_WRITE_END_TIMESTAMP F_READ_END_TIMESTAMP
		F_FASTEST_RANK_TIME F_SLOWEST_RANK_TIME F_VARIANCE_RANK_TIME F_VARIANCE_RANK_BYTES`)
)

// namesOf lists the numbers of a record, counters and times.
func namesOf(mod int, version uint32) (counters, times []string) {
	switch mod {
	case posix:
		counters, times = posixNames, timeNames
		if version < 4 {
			counters = cut(counters, "FILENOS", "DUPS", "RENAME_SOURCES", "RENAME_TARGETS", "RENAMED_FROM")
		}
		if version < 2 {
			counters = strings.Fields(strings.Replace(strings.Join(counters, " "), "MMAPS ", "MMAPS FOPENS FREADS FWRITES FSEEKS ", 1))
		}
	case mpiio:
		counters, times = mpiioNames, timeNames
	default:
		counters, times = stdioNames, stdioTimeNames
		if version < 2 {
			counters = cut(counters, "FDOPENS")
		}
	}
	if mod != stdio && version < 3 {
		times = cut(times, "F_CLOSE_START_TIMESTAMP", "F_OPEN_END_TIMESTAMP")
	}
	return counters, times
}

func cut(names []string, out ...string) (rest []string) {
	for _, name := range names {
		if !strings.Contains(" "+strings.Join(out, " ")+" ", " "+name+" ") {
			rest = append(rest, name)
		}
	}
	return rest
}

// record makes a record with the values that f gives to the names.
func (w *logWriter) record(mod int, version uint32, id uint64, rank int64, f func(name string) float64) []byte {
	counters, times := namesOf(mod, version)
	b := w.ints(nil, int64(id), rank)
	for _, name := range counters {
		b = w.ints(b, int64(f(name)))
	}
	for _, name := range times {
		b = w.floats(b, f(name))
	}
	return b
}

// dxt makes a record of DXT. Events have times in ns; writes come first.
func (w *logWriter) dxt(id uint64, rank int64, host string, threads bool, events ...iotrace.Event) []byte {
	writes := int64(0)
	for _, e := range events {
		if e.Op == iotrace.Write {
			writes++
		}
	}
	b := w.ints(nil, int64(id), rank, 0)
	b = append(append(b, host...), make([]byte, 64-len(host))...)
	b = w.ints(b, writes, int64(len(events))-writes)
	for _, e := range events {
		b = w.ints(b, e.Offset, e.Bytes)
		b = w.floats(b, float64(e.Start)/1e9, float64(e.End)/1e9)
		if threads {
			b = w.ints(b, 140_000_000_000_000)
		}
	}
	return b
}
