package analyze

// A Layer is the I/O through one interface. MPI-IO calls POSIX, so that the same bytes
// are in both layers; the sums of a report have them once (see Activity). Calls of
// STDIO are not in the POSIX layer: Darshan counts them apart.
type Layer struct {
	Layer string `json:"layer"` // MPI-IO, POSIX or STDIO
	Files int    `json:"files"`
	// Ranks that read or write, or do other operations if none does.
	Ranks        int     `json:"ranks"`
	Opens        int64   `json:"opens"`
	Writes       int64   `json:"writes"`
	Reads        int64   `json:"reads"`
	BytesWritten int64   `json:"bytes_written"`
	BytesRead    int64   `json:"bytes_read"`
	MeanWrite    float64 `json:"mean_write_bytes"`
	MeanRead     float64 `json:"mean_read_bytes"`
	// Times are summed over the ranks.
	WriteTime    float64 `json:"write_s"`
	ReadTime     float64 `json:"read_s"`
	MetadataTime float64 `json:"metadata_s"`
}

// MPIIO says what a program asked of MPI-IO, and what the library made of it: the
// POSIX requests on the same files. For a file without POSIX requests, those are 0 and
// the sums of the report are those of MPI-IO.
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

// Calls counts calls of MPI-IO by their kind. Split calls are collective as well.
type Calls struct {
	CollectiveOpens   int64 `json:"collective_opens"`
	IndependentOpens  int64 `json:"independent_opens"`
	CollectiveWrites  int64 `json:"collective_writes"`
	CollectiveReads   int64 `json:"collective_reads"`
	IndependentWrites int64 `json:"independent_writes"`
	IndependentReads  int64 `json:"independent_reads"`
	SplitWrites       int64 `json:"split_writes"`
	SplitReads        int64 `json:"split_reads"`
	NonblockingWrites int64 `json:"nonblocking_writes"`
	NonblockingReads  int64 `json:"nonblocking_reads"`
	Hints             int64 `json:"hints"` // calls that set hints
	Views             int64 `json:"views"` // calls that set a file view
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
