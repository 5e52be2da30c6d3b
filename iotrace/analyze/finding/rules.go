package finding

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
