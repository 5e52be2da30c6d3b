package analyze

// Report is what Analyze has found. In it, and in its JSON, times are in seconds,
// those of day since the origin of the trace, sizes in bytes, shares from 0 to 1.
// Ranks are named by their numbers in the trace. Embedded fields stand beside the
// others in the JSON.
type Report struct {
	Job        string      `json:"job"`
	Source     string      `json:"source"`
	Nodes      int         `json:"nodes"`  // different names of nodes of ranks
	Events     int64       `json:"events"` // of any kind, those without a file included
	Operations []Operation `json:"operations"`
	Activity               // of all files; Ranks are all of the trace
	// ActiveRanks are those that read or write; if none does, those that do
	// anything else to a file.
	ActiveRanks int `json:"active_ranks"`
	// Wall is from the first operation to the end of the last; Busy how much of it
	// something is read or written, by whatever process.
	Wall        float64     `json:"wall_s"`
	Busy        float64     `json:"busy_s"`
	Concurrency Concurrency `json:"concurrency"`
	Bandwidth   Bandwidth   `json:"bandwidth"`
	Period      Period      `json:"period"`
	Balance     Balance     `json:"balance"`
	Pattern     Pattern     `json:"pattern"`
	Insights    []Insight   `json:"insights"`
	Files       []File      `json:"files"` // as in the trace, without those that nothing was done to
}

// File is what was done to one file.
type File struct {
	Name string `json:"file"`
	Activity
}

// Activity is what was done to a file, or to all.
//
// If both MPI-IO and POSIX operations of a file were recorded, everything here is
// about the latter, which the file system sees; MPIIO counts the others.
type Activity struct {
	Access  Access  `json:"access"`
	Spatial Spatial `json:"spatial"`
	Detail  Detail  `json:"detail"`
	// Ranks that read or write; if none does, those that do anything else. Other
	// processes, like the coordinator of ckpt, do not count.
	Ranks        int   `json:"ranks"`
	Writes       int64 `json:"writes"`
	Reads        int64 `json:"reads"`
	BytesWritten int64 `json:"bytes_written"`
	BytesRead    int64 `json:"bytes_read"`

	Bursts      []Burst      `json:"bursts"`
	BurstsTotal int          `json:"bursts_total"` // Bursts has the first maxBursts of them at most
	Repetition  *Repetition  `json:"repetition,omitempty"`
	CommonSizes []SizeCount  `json:"common_sizes"`   // the four commonest request sizes
	Histogram   []SizeBin    `json:"size_histogram"` // Darshan's ten bins
	Sizes       Sizes        `json:"sizes"`
	Offsets     Offsets      `json:"offsets"`
	Correlation Correlation  `json:"size_time_correlation"`
	MPIIO       *ModuleCount `json:"mpiio,omitempty"`

	Metadata int64 `json:"metadata_ops"` // opens, closes, stats, truncations, renames, removals, mappings
	Opens    int64 `json:"opens"`
	Seeks    int64 `json:"seeks"`
	Syncs    int64 `json:"syncs"`
	// Times of the operations, added up over the ranks.
	WriteTime    float64 `json:"write_s"`
	ReadTime     float64 `json:"read_s"`
	MetadataTime float64 `json:"metadata_s"` // seeks included
	SyncTime     float64 `json:"sync_s"`
	Start        float64 `json:"start_s"` // of the first operation
	End          float64 `json:"end_s"`   // of the last one

	// SharedStripes is which share of the stripes written to is written by more
	// than one process; such writes wait for each other's locks. Of the job, it is the
	// largest of any file.
	SharedStripes float64 `json:"shared_stripe_share"`

	// What only findings need:
	writers        int     // ranks that write; not of the job
	smallWrites    int64   // smaller than Thresholds.SmallBytes
	smallWriteTime float64 // s
	placed         int64   // reads and writes with a known offset
}

// An Operation says how often one was done. Reads and writes count as in Activity,
// and so do those of files that are not known. Bytes are those that reads and writes
// move, that an aggregator gathers, and that come out of encoding; others have none.
type Operation struct {
	Op    string  `json:"op"`
	Count int64   `json:"count"`
	Bytes int64   `json:"bytes"`
	Time  float64 `json:"time_s"` // added up over the ranks
}

// ModuleCount counts reads and writes through MPI-IO.
type ModuleCount struct {
	Writes       int64 `json:"writes"`
	Reads        int64 `json:"reads"`
	BytesWritten int64 `json:"bytes_written"`
	BytesRead    int64 `json:"bytes_read"`
}

// SizeCount is a request size and how many requests have it.
type SizeCount struct {
	Size  int64 `json:"size"`
	Count int64 `json:"count"`
}

// SizeBin counts the requests of more than the upper end of the bin before, and
// of at most Upto bytes; 0 of the last one, which has no end.
type SizeBin struct {
	Bin    string `json:"bin"`
	Upto   int64  `json:"upto"`
	Count  int64  `json:"count"` // Writes and Reads
	Writes int64  `json:"writes"`
	Reads  int64  `json:"reads"`
}

// Sizes are those of requests.
type Sizes struct {
	// Kind is uniform if two thirds of the requests have the same size, and two
	// thirds of the bytes; else variable; none without requests.
	Kind string  `json:"kind"`
	Min  int64   `json:"min"`
	Max  int64   `json:"max"`
	Mean float64 `json:"mean"`
	// Small requests are smaller than Thresholds.SmallBytes, large ones have
	// LargeBytes and more.
	Small  int64 `json:"small"`
	Medium int64 `json:"medium"`
	Large  int64 `json:"large"`
}

// Offsets says where requests go. From request to request it follows one rank and
// one direction, reading or writing.
type Offsets struct {
	First int64 `json:"first"` // the smallest offset
	End   int64 `json:"end"`   // the largest end
	// Consecutive is the share of requests that begin where the one before ended,
	// Forward of those that begin behind it, Backward of those before its end.
	// The first of each rank counts for none.
	Consecutive float64 `json:"consecutive_share"`
	Forward     float64 `json:"forward_share"`
	Backward    float64 `json:"backward_share"`
	// Hole is what is left out in going forward: its commonest size, and the mean.
	Hole     int64   `json:"hole"`
	HoleMean float64 `json:"hole_mean"`
	// Stride is the commonest distance between starts in strided parts; Outer and
	// Inner, in nested ones, are that between groups, and the requests in one.
	Stride int64 `json:"stride,omitempty"`
	Outer  int64 `json:"outer_stride,omitempty"`
	Inner  int64 `json:"group_requests,omitempty"`
	// Unaligned are the shares of requests whose offset is no multiple of a page,
	// 4 KiB, and of a stripe.
	UnalignedPage   float64 `json:"unaligned_page_share"`
	UnalignedStripe float64 `json:"unaligned_stripe_share"`
}

// Correlation is Pearson's r of the size of a request and its time, from -1 to 1
// (León, Equation 3.7); null where it is not defined.
type Correlation struct {
	Write *float64 `json:"write"`
	Read  *float64 `json:"read"`
}

// Concurrency is how many ranks read or write at the same time, while any does.
// Other processes, like the coordinator of ckpt, do not count.
type Concurrency struct {
	Mean float64 `json:"mean"`
	Max  int     `json:"max"`
}

// Bandwidth is what is written and read over time, in bytes per second, in bins
// of the same length. Requests count evenly over their time.
type Bandwidth struct {
	Start float64   `json:"start_s"`
	Bin   float64   `json:"bin_s"`
	Write []float64 `json:"write"`
	Read  []float64 `json:"read"`
}
