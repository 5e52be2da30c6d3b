package analyze

import (
	"math"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// A Direction describes the writes, or the reads, of a file or of all files. Shares of
// requests and distances between them are as in Offsets.
type Direction struct {
	Ranks int `json:"ranks"` // that write, or read; other processes do not count
	// Requests, Bytes and Time are in the JSON of Activity, as writes, bytes_written,
	// write_s and so on.
	Requests int64   `json:"-"`
	Bytes    int64   `json:"-"`
	Time     float64 `json:"-"`
	// Small and large are as in Sizes; Random requests are in no order. Their
	// times are added up over the ranks, in seconds.
	Small       int64               `json:"small_count"`
	SmallBytes  int64               `json:"bytes_small"`
	SmallTime   float64             `json:"small_s"`
	Large       int64               `json:"large_count"`
	Random      int64               `json:"random_count"`
	RandomBytes int64               `json:"bytes_random"`
	RandomTime  float64             `json:"random_s"`
	Kind        string              `json:"size_kind"` // as in Sizes
	Min         int64               `json:"min_bytes"`
	Max         int64               `json:"max_bytes"`
	Mean        float64             `json:"mean_bytes"`
	CommonSizes []iotrace.SizeCount `json:"common_sizes"` // the four commonest
	// The shares of requests that begin where the one before of the same rank ended,
	// behind that, and before it.
	Consecutive float64 `json:"consecutive_share"`
	Forward     float64 `json:"forward_share"`
	Backward    float64 `json:"backward_share"`
	// The shares of requests whose offset is not a multiple of a page, or of a stripe.
	UnalignedPage   float64 `json:"unaligned_page_share"`
	UnalignedStripe float64 `json:"unaligned_stripe_share"`
}

// ReadModifyWrite counts what processes read only to write it back: writes of bytes
// that the same process has just read, and those reads. Data sieving does so, and so
// do programs that change a part of a block.
//
// The bytes must be in one of the last eight runs of reads of the process from the file;
// reads that follow each other in the file, without a request between them, are a run.
// The write must begin at most Options.BurstGap after the read ended. Only bytes that
// are both read and written count, with their share of the time of the requests. Each
// is read once for one write: writing it again is not to modify it.
type ReadModifyWrite struct {
	Writes       int64   `json:"writes"`
	Reads        int64   `json:"reads"`
	BytesWritten int64   `json:"bytes_written"`
	BytesRead    int64   `json:"bytes_read"`
	WriteTime    float64 `json:"write_s"` // added up over the ranks
	ReadTime     float64 `json:"read_s"`
}

// Redundant counts requests that move the same bytes again, with those bytes and the
// share of the time of the requests that they have.
//
// Bytes that somebody has written meanwhile are new: reading them again is not
// redundant. Bytes that somebody has read meanwhile were needed: writing them again is
// not redundant either.
//
// A file is empty at first when it is made, made in place of another by
// renaming, or emptied (O_TRUNC, or truncation to 0): writing it again is not redundant.
//
// Of a file that is only read, or only written, and does not become empty meanwhile, the
// requests of one process count after the other's: the bytes are the same in any
// order.
type Redundant struct {
	Rereads       int64   `json:"rereads"` // of bytes that the same process has read
	BytesReread   int64   `json:"bytes_reread"`
	RereadTime    float64 `json:"reread_s"`
	SharedReads   int64   `json:"shared_reads"` // of bytes that only other processes have read
	SharedBytes   int64   `json:"bytes_shared"`
	SharedTime    float64 `json:"shared_read_s"`
	Overwrites    int64   `json:"overwrites"` // of bytes that were not read since they were written
	Overwritten   int64   `json:"bytes_overwritten"`
	OverwriteTime float64 `json:"overwrite_s"`
	// Sampled is the share of the file that was examined, 1 if the numbers are exact, 0
	// if nothing was examined, as without offsets. Of a file with requests in very many
	// places only every second, fourth, … part counts, for all of them. Of a job it is
	// the smallest share of any file that was examined.
	Sampled float64 `json:"sampled_share"`
}

// overall is the pattern of writes and reads together: three quarters of all
// requests have it. If the two have different patterns, it is the pattern of
// the direction with more bytes; if they have equally many, of the one with more
// requests.
func overall(counts *[2]pattern.Counts, bytes *[2]int64) (pattern.Spatial, pattern.Detail) {
	both := counts[0]
	both.Merge(&counts[1])
	s := both.Spatial()
	writes, reads := counts[0].Total(), counts[1].Total()
	if s != pattern.MixedSpatial || writes == 0 || reads == 0 || counts[0].Spatial() == counts[1].Spatial() {
		return s, both.Detail()
	}
	main := &counts[0]
	if bytes[1] > bytes[0] || bytes[1] == bytes[0] && reads > writes {
		main = &counts[1]
	}
	return main.Spatial(), main.Detail()
}

// pattern returns the pattern of a direction, or nothing if no request of it moves bytes.
func (t *tally) pattern() (pattern.Spatial, pattern.Detail) {
	if t.Total() == 0 {
		return "", pattern.NoDetail
	}
	return t.Spatial(), t.Detail()
}

// directed collects the findings about the writes, or the reads.
type directed struct {
	Direction                           // shares and means are settled at the end
	processes            map[int32]bool // that write, or read
	shared               int            // ranks in records of all ranks, at most
	bins                 histogram
	sizes                *counter
	recorded             map[int64]int64 // common sizes of counters
	placed               int64           // requests with a known offset
	links                int64           // those with a predecessor
	consecutive, forward int64
	offPage, offStripe   int64 // not aligned
	tally                tally
	block                block // of the present rank; not used for the job
}

// init makes d ready for the first file.
func (d *directed) init() {
	*d = directed{Direction: Direction{Min: math.MaxInt64}, processes: map[int32]bool{}, sizes: newCounter(trackedSizes)}
	d.tally.counters()
}

// reset prepares d for the next file.
func (d *directed) reset() {
	clear(d.processes)
	d.sizes.reset()
	d.tally.reset()
	*d = directed{Direction: Direction{Min: math.MaxInt64}, processes: d.processes, sizes: d.sizes, tally: d.tally, block: d.block}
}

// merge adds the findings about a file to those about the job.
func (d *directed) merge(o *directed) {
	d.Requests += o.Requests
	d.Bytes = iotrace.Sum(d.Bytes, o.Bytes)
	for r := range o.processes {
		d.processes[r] = true
	}
	for i, n := range o.bins {
		d.bins[i] += n
	}
	d.shared = max(d.shared, o.shared)
	d.sizes.merge(o.sizes)
	for size, n := range o.recorded {
		d.record(size, n)
	}
	d.Min, d.Max = min(d.Min, o.Min), max(d.Max, o.Max)
	d.Small += o.Small
	d.Large += o.Large
	d.SmallBytes = iotrace.Sum(d.SmallBytes, o.SmallBytes)
	d.Random += o.Random
	d.RandomBytes = iotrace.Sum(d.RandomBytes, o.RandomBytes)
	d.RandomTime += o.RandomTime
	d.placed += o.placed
	d.links += o.links
	d.consecutive += o.consecutive
	d.forward += o.forward
	d.offPage += o.offPage
	d.offStripe += o.offStripe
	d.tally.merge(&o.tally)
}

// report fills in everything but the times.
func (d *directed) report(tr *iotrace.Trace) Direction {
	common, bytes := d.sizes.most(commonSizes), float64(d.Bytes)
	r := d.Direction
	r.Kind, r.Mean, r.CommonSizes = kind(common, d.Requests, bytes), ratio(bytes, float64(d.Requests)), sizeCounts(common)
	r.Consecutive, r.Forward = share(d.consecutive, d.links), share(d.forward, d.links)
	r.Backward = share(d.links-d.consecutive-d.forward, d.links)
	r.UnalignedPage, r.UnalignedStripe = share(d.offPage, d.placed), share(d.offStripe, d.placed)
	if d.Requests == 0 {
		r.Min = 0
	}
	for rank := range d.processes {
		if isRank(tr, int(rank)) {
			r.Ranks++
		}
	}
	r.Ranks = max(r.Ranks, d.shared)
	return r
}

// A tally counts requests by pattern.
type tally struct {
	pattern.Counts
	strides *counter // steps of strided requests
	outers  *counter
	inners  *counter
}

func (t *tally) add(v pattern.Verdict, requests int64) {
	t.Add(v.Detail, requests)
	if t.strides == nil {
		return
	}
	switch v.Detail {
	case pattern.StridedNested:
		t.outers.add(v.Outer, requests)
		t.inners.add(v.Inner, requests)
		t.strides.add(v.Stride, requests)
	case pattern.StridedSimple:
		t.strides.add(v.Stride, requests)
	}
}

// counters makes the tally count strides.
func (t *tally) counters() {
	t.strides, t.outers, t.inners = newCounter(64), newCounter(64), newCounter(64)
}

// reset empties a tally that counts strides.
func (t *tally) reset() {
	t.Counts = pattern.Counts{}
	t.strides.reset()
	t.outers.reset()
	t.inners.reset()
}

func (t *tally) merge(o *tally) {
	t.Merge(&o.Counts)
	if t.strides != nil && o.strides != nil {
		t.strides.merge(o.strides)
		t.outers.merge(o.outers)
		t.inners.merge(o.inners)
	}
}
