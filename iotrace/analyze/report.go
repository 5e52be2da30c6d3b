package analyze

import (
	"slices"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// Report is the result of Analyze. In it and in its JSON, durations are in seconds,
// times in seconds since the origin of the trace, sizes in bytes, shares from 0 to 1.
// Ranks have the numbers of the trace. Embedded fields stand beside the others in the
// JSON.
type Report struct {
	Job    string `json:"job"`
	Source string `json:"source"`
	// Counted is set if the trace has counters only. The report then lacks what only
	// events show: bursts, the pattern, the correlation, ranks active at the same time
	// and the period. Other numbers are estimates where their comments say so.
	Counted bool `json:"counted"`
	// Runtime is the time that the job ran, 0 if unknown.
	Runtime float64 `json:"runtime_s"`
	// RecorderCall is the part of the time of each operation that is the recorder's. Gains
	// leave it out, all else has it.
	RecorderCall float64     `json:"recorder_call_s,omitempty"`
	Nodes        int         `json:"nodes"`  // different nodes of ranks
	Events       int64       `json:"events"` // of any kind, also without a file
	Operations   []Operation `json:"operation_list"`
	// Zones has the operations by the zone of memory that their bytes come from, where the
	// recorder knew it, as that of ckpt does.
	Zones    []ZoneOperation `json:"zone_operation_list,omitempty"`
	Activity                 // of all files; Ranks counts all of the trace
	// ActiveRanks read or write, or do other operations on files if no rank reads or
	// writes.
	ActiveRanks int `json:"active_ranks"`
	// Wall is the time from the first operation to the end of the last. Busy is the
	// time in which some process reads or writes.
	Wall float64 `json:"wall_s"`
	Busy float64 `json:"busy_s"`
	// Untimed counts reads and writes whose durations are unknown. With any, there is no
	// bandwidth, and other times are those of the rest.
	Untimed     int64             `json:"untimed,omitempty"`
	Concurrency Concurrency       `json:"concurrency"`
	Bandwidth   Bandwidth         `json:"bandwidth"`
	Period      pattern.Period    `json:"period"`
	Balance     Balance           `json:"balance"`
	Pattern     pattern.Pattern   `json:"pattern"`
	Insights    []finding.Finding `json:"insights"`
	// Files are those that any event is of. Those that moved the most bytes come first,
	// of equal ones those that took the most time (Activity.Time).
	Files []File `json:"file_list"`
}

// Traceable reports whether Darshan's DXT would record some of the I/O: reads and writes
// through POSIX or MPI-IO.
func (r *Report) Traceable() bool {
	return slices.ContainsFunc(r.Layers, func(l Layer) bool {
		return l.Layer != moduleNames[iotrace.STDIO] && l.Writes+l.Reads > 0
	})
}

// File describes the I/O on one file.
type File struct {
	Name string `json:"file"`
	Activity
	Striping *Striping `json:"striping,omitempty"`
}

// Activity describes the I/O on a file, or on all files.
//
// If both MPI-IO and POSIX operations of a file were recorded, it describes the POSIX
// operations, which the file system sees. MPIIO and Layers have the others.
type Activity struct {
	Access Access `json:"access"`
	// Spatial and Detail describe writes and reads together: the pattern of three
	// quarters of all requests; else, because writes and reads have
	// different patterns, the pattern of those that move more bytes.
	Spatial pattern.Spatial `json:"spatial"`
	Detail  pattern.Detail  `json:"detail"`
	// The patterns of the writes and of the reads. Spatial is empty and Detail is
	// NoDetail without such requests.
	WriteSpatial pattern.Spatial `json:"write_spatial"`
	WriteDetail  pattern.Detail  `json:"write_detail"`
	ReadSpatial  pattern.Spatial `json:"read_spatial"`
	ReadDetail   pattern.Detail  `json:"read_detail"`
	// Ranks that read or write, or, without such ranks, do other operations. Other processes,
	// such as the coordinator of ckpt, do not count.
	Ranks int `json:"ranks"`
	Totals

	Bursts      []Burst             `json:"bursts"`
	BurstsTotal int                 `json:"bursts_total"` // Bursts has the first maxBursts of them
	Repetition  *Repetition         `json:"repetition,omitempty"`
	CommonSizes []iotrace.SizeCount `json:"common_sizes"`   // the four commonest request sizes
	Histogram   []SizeBin           `json:"size_histogram"` // Darshan's ten bins
	Sizes       Sizes               `json:"sizes"`
	Offsets     Offsets             `json:"offsets"`
	Correlation Correlation         `json:"size_time_correlation"`
	Layers      []Layer             `json:"layer_list"`      // MPI-IO, POSIX, STDIO: those that are used
	MPIIO       *MPIIO              `json:"mpiio,omitempty"` // if it is used

	Metadata int64   `json:"metadata_ops"` // opens, closes, stats, truncations, renames, removals, mappings
	Seeks    int64   `json:"seeks"`
	Syncs    int64   `json:"syncs"`
	SyncTime float64 `json:"sync_s"`
	Start    float64 `json:"start_s"` // of the first operation
	End      float64 `json:"end_s"`   // of the last one

	// SharedStripes is the share of written stripes that more than one process writes.
	// Such writes wait for each other's locks. For the job, it is the largest share of
	// any file.
	SharedStripes float64 `json:"shared_stripe_share"`

	Writing         Direction       `json:"write_requests"`
	Reading         Direction       `json:"read_requests"`
	ReadModifyWrite ReadModifyWrite `json:"read_modify_write"`
	Redundant       Redundant       `json:"redundant"`

	// Used only by findings:
	placed   int64 // reads and writes with a known offset
	touchers int   // ranks that do anything with it
	stats    int64 // status requests, of counters
}

// Totals add up the I/O on a file, or on all files, or through one interface. Times are summed
// over the ranks.
type Totals struct {
	Opens        int64   `json:"opens"`
	Writes       int64   `json:"writes"`
	Reads        int64   `json:"reads"`
	BytesWritten int64   `json:"bytes_written"`
	BytesRead    int64   `json:"bytes_read"`
	WriteTime    float64 `json:"write_s"`
	ReadTime     float64 `json:"read_s"`
	MetadataTime float64 `json:"metadata_s"` // seeks included
}

// An Operation counts operations of one kind. Reads and writes count as in Activity,
// also of unknown files. Bytes are what reads and writes move, what
// an aggregator gathers, and what encoding produces; other operations move no bytes.
type Operation struct {
	Op    string  `json:"op"`
	Count int64   `json:"count"`
	Bytes int64   `json:"bytes"`
	Time  float64 `json:"time_s"` // summed over the ranks
}

// A ZoneOperation is one of a zone.
type ZoneOperation struct {
	Zone string `json:"zone"`
	Operation
}

// SizeBin counts the requests above the bin before and up to Upto bytes. Upto is 0 for
// the last bin, which is unbounded.
type SizeBin struct {
	Bin    string `json:"bin"`
	Upto   int64  `json:"upto_bytes"`
	Count  int64  `json:"count"` // Writes and Reads
	Writes int64  `json:"writes"`
	Reads  int64  `json:"reads"`
}

// Sizes describes the sizes of requests.
type Sizes struct {
	// Kind is uniform if two thirds of the requests and two thirds of the bytes have
	// the same request size, otherwise variable, or none without requests.
	Kind string  `json:"size_kind"`
	Min  int64   `json:"min_bytes"`
	Max  int64   `json:"max_bytes"`
	Mean float64 `json:"mean_bytes"`
	// Small requests are smaller than Thresholds.SmallBytes, large ones have
	// LargeBytes and more.
	Small  int64 `json:"small_count"`
	Medium int64 `json:"medium_count"`
	Large  int64 `json:"large_count"`
}

// Offsets describes where requests go. From request to request it follows one rank in
// one direction, reading or writing.
type Offsets struct {
	First int64 `json:"first_offset"` // the smallest offset
	End   int64 `json:"end_offset"`   // the largest end
	// Consecutive is the share of requests that begin where the one before ended,
	// Forward of those that begin behind that, Backward of those that begin before it.
	// The first request of each rank counts in no share.
	Consecutive float64 `json:"consecutive_share"`
	Forward     float64 `json:"forward_share"`
	Backward    float64 `json:"backward_share"`
	// Hole is the distance skipped when going forward: its commonest size, and the
	// mean.
	Hole     int64   `json:"common_hole_bytes"`
	HoleMean float64 `json:"mean_hole_bytes"`
	// Stride is the commonest distance between starts in strided parts. In nested
	// parts, Outer is the distance between groups, and Inner the number of requests in
	// a group.
	Stride int64 `json:"stride_bytes,omitempty"`
	Outer  int64 `json:"outer_stride_bytes,omitempty"`
	Inner  int64 `json:"group_requests,omitempty"`
	// Unaligned are the shares of requests whose offset is not a multiple of a page (4
	// KiB), or of a stripe.
	UnalignedPage   float64 `json:"unaligned_page_share"`
	UnalignedStripe float64 `json:"unaligned_stripe_share"`
	// UnalignedMemory is the share of requests whose memory is not aligned, which
	// matters to direct I/O. Only the counters of Darshan tell; else it is 0.
	UnalignedMemory float64 `json:"unaligned_memory_share"`
}

// Correlation is Pearson's r of the size and the time of requests, from -1 to 1 (León,
// Equation 3.7), or null if undefined.
type Correlation struct {
	Write *float64 `json:"write_correlation"`
	Read  *float64 `json:"read_correlation"`
}

// Concurrency is the number of ranks that read or write at the same time, while any
// does. Other processes, such as the coordinator of ckpt, do not count.
type Concurrency struct {
	Mean float64 `json:"mean_ranks"`
	Max  int     `json:"max_ranks"`
}

// Bandwidth is the bytes written and read per second, in bins of equal length.
// Requests count evenly over their time.
type Bandwidth struct {
	Start float64   `json:"start_s"`
	Bin   float64   `json:"bin_s"`
	Write []float64 `json:"write_bytes_per_s"`
	Read  []float64 `json:"read_bytes_per_s"`
}

// An Access tells how many processes use a file.
type Access string

// The modes of access. Mixed means a job with files of both kinds.
const (
	Independent Access = "independent" // by one process
	Shared      Access = "shared"      // by several
	MixedAccess Access = "mixed"
)

// A Layer is the I/O through one interface. MPI-IO calls POSIX, so that the same bytes
// are in both layers; the sums of a report have them once (see Activity). Calls of
// STDIO are not in the POSIX layer: Darshan counts them apart.
type Layer struct {
	Layer string `json:"layer"` // MPI-IO, POSIX or STDIO
	Files int    `json:"files"`
	// Ranks that read or write, or, without such ranks, do other operations.
	Ranks int `json:"ranks"`
	Totals
	MeanWrite float64 `json:"mean_write_bytes"`
	MeanRead  float64 `json:"mean_read_bytes"`
}

// MPIIO says what a program asked of MPI-IO, and what the library made of it: the
// POSIX requests on the same files. For a file without POSIX requests, those are 0 and
// the sums of the report count MPI-IO.
type MPIIO struct {
	Files        int   `json:"files"`
	Writes       int64 `json:"writes"`
	Reads        int64 `json:"reads"`
	BytesWritten int64 `json:"bytes_written"`
	BytesRead    int64 `json:"bytes_read"`
	// Calls by their kind; nil if the trace does not tell, as DXT alone.
	Calls *Calls `json:"mpiio_calls,omitempty"`
	// Callers are the ranks that read or write through MPI-IO.
	Callers int `json:"caller_ranks"`

	PosixWrites       int64 `json:"posix_writes"`
	PosixReads        int64 `json:"posix_reads"`
	PosixBytesWritten int64 `json:"posix_written_bytes"`
	PosixBytesRead    int64 `json:"posix_read_bytes"`
	// PosixRanks are the ranks that read or write these files through POSIX. If they
	// are fewer than the callers, they are the aggregators of collective calls.
	PosixRanks int `json:"posix_ranks"`
	// Estimated is set if the trace has only the variance between the ranks, from
	// which PosixRanks then comes.
	Estimated bool `json:"posix_ranks_estimated"`
	// Aggregators are the numbers of those ranks, if they are known, fewer than the
	// callers and at most 16.
	Aggregators []int `json:"aggregator_list"`
	// WriteAmplification and ReadAmplification are bytes through POSIX for each byte
	// through MPI-IO, nil without such bytes. They are above 1 where data sieving
	// moves holes as well.
	WriteAmplification *float64 `json:"write_amplification"`
	ReadAmplification  *float64 `json:"read_amplification"`
	// RequestsPerWrite and RequestsPerRead are POSIX requests for each call.
	RequestsPerWrite *float64 `json:"requests_per_write"`
	RequestsPerRead  *float64 `json:"requests_per_read"`
	// ExtraRead are bytes that POSIX reads beyond those that the program reads through
	// MPI-IO: holes, and blocks that are read, changed and written again.
	ExtraRead int64 `json:"extra_read_bytes"`
}

// Calls counts calls of MPI-IO by their kind.
type Calls struct {
	iotrace.Calls
	// The shares of collective and split calls, nil without calls.
	CollectiveWriteShare *float64 `json:"collective_write_share"`
	CollectiveReadShare  *float64 `json:"collective_read_share"`
	// Bytes of collective calls, nil if the recorder did not count them apart.
	CollectiveBytesWritten *int64 `json:"collective_written_bytes"`
	CollectiveBytesRead    *int64 `json:"collective_read_bytes"`
}

// Striping says how a file is spread over the targets of a parallel file system.
type Striping struct {
	Size  int64 `json:"stripe_bytes"`
	Count int   `json:"stripe_count"`
}
