package finding

// Run is what a trace tells of a job, as far as findings need it. Durations are in
// seconds, sizes in bytes. Index 0 of a pair is writing, 1 is reading.
type Run struct {
	Time float64 // of the run: what gains are shares of
	Wall float64 // from the first operation to the end of the last
	// Counted is set if only counters are known: EagerSyncs have no times then, which are
	// in the times of writes.
	Counted bool
	Timed   bool // whether the trace has durations; without, no gain is known

	Ours    bool   // a job of ckpt, whose flags are known
	Layout  Remedy // of a job of ckpt; 0 if unknown
	Codec   Codec
	Gathers bool // aggregators gather bytes of other ranks
	// OneCheckpoint is set if all events belong to one checkpoint: the rest of the job
	// is not in the trace.
	OneCheckpoint bool

	MPI     bool   // they are ranks of an MPI program
	Library string // its MPI-IO: ROMIO, OMPIO, or "" if unknown

	Ranks, ActiveRanks, Nodes int
	Data                      [2]Class // all requests
	Small                     [2]Work  // requests below Thresholds.SmallBytes
	Busy                      float64  // wall time of Data, both directions
	// Metadata operations of ranks: opens and closes; stats; all others and seeks.
	OpenClose, Stats, Others Work
	Metadata                 float64 // wall time of these
	Renames                  int64   // among Others
	Syncs, EagerSyncs        Work    // EagerSyncs: see File
	Locks                    Work    // waits for locks
	LockOnly                 float64 // wall time in which a rank waits for a lock and all reads and writes rest
	Encode                   Work
	EncodeOnly               float64 // wall time in which a rank encodes and all writes rest
	Bursts                   int     // that move a thousandth of the largest one or more
	Period                   float64 // 0 without one
	Concurrency              float64 // mean number of ranks at work while any is
	Balance                  Balance
	Misaligned               Misaligned
	Files                    []File
}

// Work is operations of one kind in sum.
type Work struct {
	Count, Bytes int64
	Time         float64 // summed over the ranks
	Wall         float64 // in which any rank is at it; 0 if only Time is known
}

// A Class is the requests of one direction, by size.
type Class struct {
	Work
	// Medium requests have from 100 KiB to Thresholds.SmallBytes, large ones more. The
	// wall times of both are unknown. Both are left out if only the time of all
	// requests together is known and some of them are small.
	Medium, Large Work
	Fit           Fit
}

// File is what a trace tells of a file.
type File struct {
	Name                              string
	Ranks, Writers, Readers, Touchers int // Touchers do anything with the file
	Data                              [2]Class
	Small                             [2]Work
	Random                            [2]float64 // share of the requests in random order
	SharedStripes                     float64    // share of the written stripes with several writers
	OpenClose, Stats, Others          Work
	Opens, Fresh                      int64 // Fresh: of files that took the name later, by a renaming
	Syncs                             Work
	// EagerSyncs come with less than Thresholds.SmallBytes written since the sync
	// before.
	EagerSyncs Work
	Locks      Work // waits for locks on it
	// Most of its writes end only when they are on the storage (O_SYNC): the time of a
	// sync is in the time of the write before it. Most requests go around the page cache.
	Synchronous, Direct bool
	// Hole is the mean of the bytes before a read that no read wants, of a file that is only
	// read, in strides or with gaps.
	Hole float64
	// ReadModifyWrite are bytes that are read and then written in the same place;
	// Again are bytes written, or read, that were before.
	ReadModifyWrite int64
	Again           [2]int64
	STDIO           Work // through streams of the C library
	// MPI-IO requests, where the recorder tells collective from independent ones, and
	// the POSIX requests that they became, and the bytes that they asked for.
	Collective, Independent, Under, Asked [2]int64
	// The time of the mean rank in calls of MPI-IO, and of the slowest one in the POSIX
	// requests that they became; 0 if unknown.
	InCalls, InRequests float64
	Storage             Storage
	Stripes             int // OSTs or the like; 0 if unknown
}

// Storage is the kind of file system that a file is on.
type Storage uint8

// The kinds of storage.
const (
	AnyStorage Storage = iota // unknown
	Local                     // of one node, without stripes
	Striped                   // over several targets: GPFS, BeeGFS
	Lustre
)

// Balance is how evenly ranks share the I/O.
type Balance struct {
	Imbalance    float64 // (max - mean) / max of the bytes of a rank
	Mean         float64 // time of a rank
	Active       float64 // wall time in which anything is done; with counters, any request
	LargestShare float64 // of the bytes, that one rank moves
	LargestRank  int
	LargestTime  float64 // of that rank
	Aggregated   bool    // those that move bytes do so for others
	Slow         Slow
	Late         Late
}

// Slow is about ranks that take longer than their like: ranks that move half to twice
// as many bytes.
type Slow struct {
	Ranks     int     // 0: all are in time
	Rank      int     // that loses most
	Late      float64 // s that it loses
	Factor    float64 // its time over the median of its like
	Bytes     float64 // its bytes, and its requests, over theirs; 0 if unknown
	Requests  float64
	MeanBytes float64 // of its requests; 0 if unknown
	Node      string  // that it runs on; empty if unknown
	WholeNode bool    // that node has the slow ranks
	OSTs      []int64 // targets whose ranks are the slow ones
}

// Late is about ranks that begin their part of the job's I/O after the others.
type Late struct {
	Ranks int     // 0: all are in time
	Rank  int     // that loses most
	Gain  float64 // s that the job waits for such ranks, over all phases of I/O
}

// Misaligned counts requests that begin within a stripe, or a page, and do not
// continue the request before.
type Misaligned struct {
	Share          float64 // of the requests with a known offset
	Count          int64
	Unit           int64   // of the stripe or page
	Touched, Least int64   // stripes that requests touch, and that as many bytes need
	Time           float64 // wall time of requests
}

// Codec says how a job chooses the codec of what it writes.
type Codec uint8

// The ways to choose.
const (
	CodecUnknown Codec = iota
	CodecFixed         // its user did
	CodecLearns        // the job does, by what it measures at each checkpoint
)

// A Remedy is a setting of a checkpointer that would change what a finding is about.
// Programs put remedies in their own words, such as flags; see Word.
type Remedy uint8

// The remedies.
const (
	LayoutPerRank    Remedy = iota + 1 // a file for each rank
	LayoutShared                       // one file for all ranks
	LayoutAggregated                   // a file for each aggregator
	AggregatorsAuto                    // as many aggregators as suit the machine
	Aggregators                        // another number of aggregators
	Buffer                             // a larger buffer
	StripeSize                         // the stripe size of the file system
	StripeCount                        // more stripes
	Interval                           // fewer checkpoints
	Async                              // write while the job computes
	CodecNone                          // no codec
	CodecAuto                          // a codec if it pays
	RemedyEnd                          // no remedy: the number after the last
)

// Word fills in the Flags of findings: the remedies in the words of a program.
func Word(findings []Finding, words map[Remedy]string) {
	for i := range findings {
		f := &findings[i]
		f.Flags = make([]string, len(f.Remedies))
		for k, remedy := range f.Remedies {
			f.Flags[k] = words[remedy]
		}
	}
}

// A rule names one cause of lost time. Its fields say what is always said; find fills in
// the rest, and reports whether the run has the cause.
type rule struct {
	code, title, model, advice string
	severity                   string // Info: it is a note whatever it gains
	remedies                   []Remedy
	hints                      []Hint
	find                       func(*search, *Finding) bool
}

// rules claim the time that their remedies would save. Special cases come first, so that
// no second is gained twice.
var rules = []rule{
	{code: "CK20", find: oneRank,
		advice:   "Let several ranks do their part of the I/O, on several nodes if there are.",
		remedies: []Remedy{LayoutPerRank, AggregatorsAuto}},
	{code: "CK16", title: "the same bytes are read again", find: redundantReads,
		model:  "The time of reading, in the proportion of the bytes that were read before.",
		advice: "Read once and keep it in memory.",
		hints:  []Hint{cache}},
	{code: "CK17", title: "the same bytes are written again", find: rewriting,
		model: "The time of writing, in the proportion of the bytes that are written in a place that " +
			"was written before.",
		advice: "Hold what changes often in memory, and write it once; write no fill values before the " +
			"data.",
		remedies: []Remedy{Interval}, hints: []Hint{writeOnce}},
	{code: "CK15", title: "read, modify, write", find: readModifyWrite,
		advice: "Write whole blocks, so that nothing must be read first; or hold the blocks in memory " +
			"until they are whole.",
		remedies: []Remedy{Buffer}},
	{code: "CK15", title: "the MPI library moves bytes that the program did not ask for", find: unasked,
		model: "The time of reads in files that the program only writes, and that of writing, in the " +
			"proportion of the bytes beyond those asked for.",
		advice: sieving, hints: []Hint{sieveWrite, wholeBlks}},
	{code: "CK12", title: "syncs after little data", find: syncedWrites,
		remedies: []Remedy{Async, Interval}, hints: []Hint{fdatasync}},
	{code: "CK18", title: "MPI-IO without collective calls on a shared file", find: notCollective,
		advice: "Use the collective calls, MPI_File_write_all and MPI_File_read_all and their like: the " +
			"library then gathers the pieces of the ranks into large requests."},
	{code: "CK19", title: "collective calls that gather nothing", find: splitCollective,
		advice: "Collective buffering is off, or decides that it does not pay: turn it on by hints."},
	{code: "CK06", title: "many ranks write small pieces of a shared file", find: pieces,
		advice:   "Collective buffering: a few aggregators gather the pieces and write large blocks.",
		remedies: []Remedy{LayoutAggregated, LayoutShared, AggregatorsAuto, Buffer}},
	{code: "CK25", title: "large data through streams of the C library", find: streams,
		advice: "Streams copy each byte once more, and write what their buffer holds, often 4 KiB: use " +
			"write and read with large blocks, MPI-IO, or a larger buffer.",
		hints: []Hint{stream}},
	{code: "CK07", title: "random writes", find: random(0),
		advice: "Write in order: sort what is written by offset in a buffer, or write to files of one's " +
			"own from the beginning to the end.",
		remedies: []Remedy{LayoutPerRank, Buffer}},
	{code: "CK14", title: "random reads", find: random(1),
		advice: "Read in order: sort what is asked for by offset, or read the file as a whole if most of " +
			"it is needed."},
	{code: "CK01", title: "small writes", find: small(0)},
	{code: "CK13", title: "small reads", find: small(1),
		advice: "Read more at a time: larger requests, or collective reads; a library that reads ahead " +
			"gathers what is in order."},
	{code: "CK03", title: "ranks write the same stripes of a shared file", find: contention,
		advice: "Each stripe from one writer: files of their own, or aggregators that own whole stripes; " +
			"more stripes spread the locks.",
		remedies: []Remedy{LayoutPerRank, LayoutAggregated, AggregatorsAuto, StripeCount}},
	{code: "CK24", title: "one stripe for a large file of several ranks", find: oneStripe,
		model: "The time of its requests, less what they would take on so many targets as fast as this " +
			"one: the ranks at work, at most scale_ranks.",
		advice:   "Spread the file over several targets before it is made.",
		remedies: []Remedy{StripeCount}},
	{code: "CK02", title: "requests that begin within a stripe", find: misaligned,
		advice:   "Let each rank begin at a stripe; the stripe size must be that of the file system.",
		remedies: []Remedy{StripeSize, LayoutPerRank, LayoutAggregated}, hints: []Hint{align}},
	{code: "CK12", title: "syncs after little data", find: eagerSyncs,
		advice:   "Make many writes durable with one sync.",
		remedies: []Remedy{Async, Interval}, hints: []Hint{fdatasync}},
	{code: "CK12", title: "syncs after little data", find: countedSyncs,
		remedies: []Remedy{Async, Interval}, hints: []Hint{fdatasync}},
	{code: "CK26", title: "processes wait for locks", find: lockWaits,
		model: "The time in which a process waits for a lock and none reads or writes.",
		advice: "Have one process write the part of a file that several share, or give each a part, or a " +
			"file, of its own."},
	{code: "CK21", title: "files are opened again and again", find: reopening,
		model:    "The time of opening and closing these files, but for the first time by each rank.",
		advice:   "Open each file once, and keep it open until the last request.",
		remedies: []Remedy{Interval}, hints: []Hint{keepOpen}},
	{code: "CK23", title: "many small files", find: smallFiles,
		model: "The time of opening, closing and naming these files, and of asking for their status, but " +
			"for one of them.",
		advice:   "Keep many small pieces of data in one file.",
		remedies: []Remedy{LayoutAggregated, LayoutShared}, hints: []Hint{pack}},
	{code: "CK22", title: "the status of files is asked for again and again", find: statStorm,
		model: "The time of stat and the like, but for the first time by each rank.",
		advice: "Ask for the status of a file once, and keep it; ask the open file instead of the " +
			"name.",
		hints: []Hint{statOnce}},
	{code: "CK04", title: "metadata operations weigh", find: metadata,
		model: "All time of operations that move no bytes, less the gains of CK21, CK22 and CK23: an " +
			"upper bound.",
		remedies: []Remedy{LayoutAggregated, LayoutShared, Interval}},
	{code: "CK05", find: imbalance},
	{code: "CK27", find: exchange},
	{code: "CK08", title: "ranks do their I/O one after the other", find: serial,
		model: "The time in which any rank reads or writes, less the time that the same requests take if " +
			"scale_ranks of them run at once.",
		advice:   "If the storage has spare bandwidth, let more ranks write at the same time.",
		remedies: []Remedy{Aggregators, LayoutPerRank}},
	{code: "CK10", title: "encoding takes longer than writing", find: encoding,
		model: "The time in which ranks encode and none writes. Without a codec there are more bytes to " +
			"write: an upper bound."},
	{code: "CK11", title: "nothing is compressed", severity: Info, find: unencoded,
		model:    "The share codec_share of the time of writing.",
		advice:   "Writing takes long enough for a codec to pay; auto finds out which.",
		remedies: []Remedy{CodecAuto}},
	{code: "CK09", title: "the job waits for its I/O", severity: Info, find: waiting,
		model: "The time of reads, writes and syncs that is left after the largest other gain. It is at " +
			"most the time without any operation, in which the job can compute.",
		advice:   "Write while the job computes.",
		remedies: []Remedy{Async, Interval}},
}
