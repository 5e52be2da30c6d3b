package analyze

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"ckpt/iotrace"
)

// An Insight is a finding: a property of the I/O that costs time, and a remedy.
type Insight struct {
	Code     string   `json:"id"`       // CK01 to CK12
	Severity string   `json:"severity"` // high, warn or info
	Title    string   `json:"title"`
	File     string   `json:"file,omitempty"` // empty if it concerns the job
	Evidence []Number `json:"evidence"`
	Remedies []Remedy `json:"-"`     // none for programs that only read
	Flags    []string `json:"flags"` // the remedies in the words that Report.Word was given
	Advice   string   `json:"advice"`
}

// A Number is evidence for a finding. Names are those of report fields where possible.
type Number struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"` // threshold; 0 without one
}

// The severities, worst first.
const (
	high = "high"
	warn = "warn"
	info = "info"
)

// worse returns high if value is far above limit, otherwise warn. For values up to 1,
// far is half of the way.
func worse(value, limit float64) string {
	if value >= (1+limit)/2 {
		return high
	}
	return warn
}

// insights returns all findings. A finding about files names the file with the most
// weight.
func insights(r *Report, l *load, t *Thresholds, stripe int64, c Codec) []Insight {
	in := []Insight{}
	add := func(i *Insight) {
		if i != nil {
			in = append(in, *i)
		}
	}
	add(smallRequests(r, l, t))
	add(misaligned(r, t, stripe))
	add(contention(r, t))
	add(metadataLoad(r, l, t))
	add(imbalance(r, l, t))
	add(noAggregation(r, t))
	add(randomAccess(r, t))
	add(serial(r, t))
	add(waiting(r, l, t))
	add(encoding(l, t, c))
	add(unencoded(r, t))
	add(syncing(r, t))
	has := layoutRemedies(r)
	for i := range in {
		in[i].Remedies = slices.DeleteFunc(in[i].Remedies, func(x Remedy) bool { return slices.Contains(has, x) })
		in[i].Flags = []string{}
	}
	rank := map[string]int{high: 0, warn: 1, info: 2}
	slices.SortStableFunc(in, func(a, b Insight) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return in
}

// layoutRemedies returns the remedies that a job of ckpt uses already, as far as its
// trace tells.
func layoutRemedies(r *Report) []Remedy {
	switch layout := layoutOf(r); layout {
	case 0:
		return nil
	case LayoutAggregated:
		return []Remedy{LayoutAggregated, AggregatorsAuto}
	default:
		return []Remedy{layout}
	}
}

// layoutOf returns the layout of a job of ckpt, or 0 if its trace does not tell. The
// names of its images do, those of the last checkpoint if the layout has changed
// (package image, Tx). The number of processes that write them does not: a single
// aggregator may write the file of all.
func layoutOf(r *Report) Remedy {
	for i := len(r.Files) - 1; i >= 0 && r.Source == "ckpt"; i-- {
		switch name, image := strings.CutSuffix(path.Base(r.Files[i].Name), ".img"); {
		case !image || r.Files[i].Writes == 0:
		case name == "job":
			return LayoutShared
		case strings.HasPrefix(name, "aggregator-"):
			return LayoutAggregated
		case strings.HasPrefix(name, "rank-"):
			return LayoutPerRank
		}
	}
	switch gathers := r.operation(iotrace.Gather).Count > 0; {
	case gathers && r.Access == Independent:
		return LayoutAggregated
	case gathers:
		return LayoutShared
	case r.Source == "ckpt" && r.Access == Independent:
		return LayoutPerRank
	}
	return 0
}

// readsOnly reports whether nothing is written. No remedy changes how a program
// reads.
func (a *Activity) readsOnly() bool { return a.Writes == 0 && a.Reads > 0 }

// timeShare returns the share that some seconds have of the time of all requests. Many
// requests that take no time cost nothing. Without times each request weighs the same.
func (r *Report) timeShare(some float64) float64 {
	all := r.WriteTime + r.ReadTime
	if all == 0 {
		return 1
	}
	return min(1, ratio(some, all)) // rounding may exceed 1
}

func smallRequests(r *Report, l *load, t *Thresholds) *Insight {
	small := r.Sizes.Small
	s := share(small, add(r.Writes, r.Reads))
	took := r.timeShare(l.small)
	if small < t.SmallRequests || min(s, took) < t.SmallShare {
		return nil
	}
	remedies := []Remedy{LayoutAggregated, AggregatorsAuto, Buffer}
	advice := "Gather small requests into large ones: aggregators that write for the others, with a large buffer."
	if r.operation(iotrace.Gather).Count > 0 {
		// The job gathers already. In a shared file each stripe is a request.
		remedies, advice = []Remedy{Buffer}, "Gather more into a request: a larger buffer"
		if layoutOf(r) == LayoutShared {
			remedies = []Remedy{LayoutAggregated}
			advice = "Let aggregators write files of their own, without the ends of stripes in between"
		}
		if r.ActiveRanks > 1 {
			remedies = append(remedies, Aggregators)
			advice += ", or fewer aggregators"
		}
		advice += "."
	}
	if r.readsOnly() {
		remedies, advice = []Remedy{}, "Read more at a time: larger requests, or collective reads; a library that reads ahead gathers what is in order."
	}
	return &Insight{Code: "CK01", Severity: worse(min(s, took), t.SmallShare), Title: "small requests",
		Evidence: []Number{{"small_share", s, t.SmallShare}, {"small_time_share", took, t.SmallShare}, {"small", float64(small), float64(t.SmallRequests)}, {"mean_bytes", r.Sizes.Mean, float64(t.SmallBytes)}},
		Remedies: remedies,
		Advice:   advice}
}

func misaligned(r *Report, t *Thresholds, stripe int64) *Insight {
	// Requests that continue the one before are merged on their way; the starts of
	// runs count. Both are shares of the requests with a known offset.
	s := min(r.Offsets.UnalignedStripe, 1-r.Offsets.Consecutive)
	n := int64(s * float64(r.placed))
	if n < t.MisalignedRequests || s < t.MisalignedShare {
		return nil
	}
	remedies := []Remedy{StripeSize, LayoutPerRank, LayoutAggregated}
	advice := "Let each rank, or each aggregator, begin at a stripe; the stripe size must be that of the file system."
	if r.readsOnly() {
		remedies, advice = []Remedy{}, "Read from the beginning of a stripe on, whole stripes if possible."
	}
	return &Insight{Code: "CK02", Severity: warn, Title: "requests that begin within a stripe",
		Evidence: []Number{{"unaligned_stripe_share", r.Offsets.UnalignedStripe, t.MisalignedShare}, {"unaligned_page_share", r.Offsets.UnalignedPage, 0}, {"stripe_bytes", float64(stripe), 0}},
		Remedies: remedies,
		Advice:   advice}
}

func contention(r *Report, t *Thresholds) *Insight {
	var worst *File
	var took float64 // of writes to all such files
	for i := range r.Files {
		f := &r.Files[i]
		if f.SharedStripes <= t.SharedStripeShare {
			continue
		}
		took += f.WriteTime
		if worst == nil || f.BytesWritten > worst.BytesWritten {
			worst = f
		}
	}
	// A log to which each rank appends a line delays nobody.
	if worst == nil || r.timeShare(took) < t.SmallShare {
		return nil
	}
	return &Insight{Code: "CK03", Severity: worse(worst.SharedStripes, t.SharedStripeShare), Title: "ranks write the same stripes of a shared file", File: worst.Name,
		Evidence: []Number{{"shared_stripe_share", worst.SharedStripes, t.SharedStripeShare}, {"ranks", float64(worst.Ranks), 0}},
		Remedies: []Remedy{LayoutPerRank, LayoutAggregated, AggregatorsAuto, StripeCount},
		Advice:   "Each stripe from one writer: files of their own, or aggregators that own whole stripes; more stripes spread the locks."}
}

func metadataLoad(r *Report, l *load, t *Thresholds) *Insight {
	requests := add(r.Writes, r.Reads)
	// The coordinator of ckpt commits each checkpoint with a few operations of its
	// own.
	ops, took := r.Metadata-l.otherMetadata, max(0, r.MetadataTime-l.otherMetadataTime)
	timeShare := ratio(took, took+r.WriteTime+r.ReadTime+r.SyncTime)
	per := ratio(float64(ops), float64(max(requests, 1)))
	slow := ops >= t.MetadataTimeOps && timeShare >= t.MetadataTimeShare
	many := ops >= t.MetadataOps && per >= t.MetadataPerRequest
	if !slow && !many {
		return nil
	}
	severity := warn
	if slow && many {
		severity = high
	}
	least := t.MetadataTimeOps
	if !slow {
		least = t.MetadataOps
	}
	i := &Insight{Code: "CK04", Severity: severity, Title: "metadata operations weigh",
		Evidence: []Number{{"metadata_time_share", timeShare, t.MetadataTimeShare}, {"metadata_ops", float64(ops), float64(least)},
			{"metadata_per_request", per, t.MetadataPerRequest}, {"files", float64(len(r.Files)), 0}},
		Remedies: []Remedy{LayoutAggregated, LayoutShared, Interval},
		Advice:   "Fewer files: let ranks share them; or checkpoint less often."}
	switch {
	case r.Writes == 0:
		i.Remedies, i.Advice = []Remedy{}, "Fewer, larger files; open each once, and ask once what it is like."
	case r.Access == Shared || layoutOf(r) == LayoutShared:
		i.Remedies, i.Advice = []Remedy{Interval}, "Ranks share files already: open each once, and checkpoint less often."
	}
	return i
}

func imbalance(r *Report, l *load, t *Thresholds) *Insight {
	b := &r.Balance
	// A small delay compared with all work delays nobody.
	var last *Straggler
	var late float64
	for i := range b.Stragglers {
		if s := &b.Stragglers[i]; s.Time-s.Time/s.Factor > late {
			last, late = s, s.Time-s.Time/s.Factor
		}
	}
	slow := late > t.StragglerShare*l.active.time
	uneven := b.Imbalance >= t.ImbalanceShare && r.ActiveRanks > 1
	if !slow && !uneven {
		return nil
	}
	i := &Insight{Code: "CK05", Severity: warn, Title: "ranks share the I/O unevenly",
		Evidence: []Number{{"bytes_imbalance", b.Imbalance, t.ImbalanceShare}},
		Remedies: []Remedy{AggregatorsAuto, LayoutShared, StripeCount},
		Advice:   "The checkpoint is as slow as its slowest rank: spread the bytes over more writers, or over more OSTs."}
	if slow {
		i.Title = fmt.Sprintf("ranks that take longer than others: rank %d first", last.Rank)
		i.Evidence = append(i.Evidence, Number{"stragglers", float64(b.StragglersTotal), 0}, Number{"slowest_factor", last.Factor, t.StragglerFactor},
			Number{"late_share", min(1, ratio(late, l.active.time)), t.StragglerShare})
	}
	if r.readsOnly() {
		i.Remedies, i.Advice = []Remedy{}, "The job is as slow as its slowest rank: spread what is read over the ranks, and the files over more OSTs."
	}
	if !uneven {
		i.Advice = "They move no more bytes than others: look at their node and at the OSTs of their files; more stripes spread the load."
	}
	return i
}

func noAggregation(r *Report, t *Thresholds) *Insight {
	const mostly = 0.5
	var worst *File
	var took float64 // of small writes to all such files; there may be one per checkpoint
	for i := range r.Files {
		f := &r.Files[i]
		if f.Access != Shared || int64(f.writers) < t.Writers || ratio(float64(f.writers), float64(r.Ranks)) < t.WritersShare || share(f.smallWrites, f.Writes) < mostly {
			continue
		}
		took += f.smallWriteTime
		if worst == nil || f.BytesWritten > worst.BytesWritten {
			worst = f
		}
	}
	if worst == nil || r.timeShare(took) < t.SmallShare {
		return nil
	}
	writers := min(1, ratio(float64(worst.writers), float64(r.Ranks))) // one writer may be an unknown rank
	return &Insight{Code: "CK06", Severity: high, Title: "many ranks write small pieces of a shared file", File: worst.Name,
		Evidence: []Number{{"writers", float64(worst.writers), float64(t.Writers)}, {"writers_share", writers, t.WritersShare},
			{"small_write_share", share(worst.smallWrites, worst.Writes), mostly}},
		Remedies: []Remedy{LayoutAggregated, LayoutShared, AggregatorsAuto, Buffer},
		Advice:   "Collective buffering: a few aggregators gather the pieces and write large blocks."}
}

func randomAccess(r *Report, t *Thresholds) *Insight {
	var requests int64
	var worst *File
	for i := range r.Files {
		if f := &r.Files[i]; f.Spatial == RandomAccess {
			n := add(f.Writes, f.Reads)
			requests = add(requests, n)
			if worst == nil || n > add(worst.Writes, worst.Reads) {
				worst = f
			}
		}
	}
	s := share(requests, add(r.Writes, r.Reads))
	if requests < t.RandomRequests || s < t.RandomShare {
		return nil
	}
	remedies := []Remedy{LayoutPerRank, Buffer}
	advice := "Write in order: images of their own are written from the beginning to the end; a buffer can sort what it gathers."
	if worst.readsOnly() {
		remedies, advice = []Remedy{}, "Read in order: sort what is asked for by offset, or read the file as a whole if most of it is needed."
	}
	return &Insight{Code: "CK07", Severity: worse(s, t.RandomShare), Title: "random access", File: worst.Name,
		Evidence: []Number{{"random_share", s, t.RandomShare}, {"random_requests", float64(requests), float64(t.RandomRequests)}},
		Remedies: remedies,
		Advice:   advice}
}

func serial(r *Report, t *Thresholds) *Insight {
	s := ratio(r.Concurrency.Mean, float64(r.ActiveRanks))
	// Without durations nothing is known about waiting.
	if r.Busy == 0 || int64(r.ActiveRanks) < t.ConcurrencyRanks || s >= t.ConcurrencyShare {
		return nil
	}
	// Ranks that encode meanwhile do not wait for each other.
	if r.operation(iotrace.Encode).Time > r.WriteTime+r.ReadTime {
		return nil
	}
	remedies, advice := []Remedy{Aggregators, LayoutPerRank}, "If the storage has spare bandwidth, let more ranks write at the same time."
	if r.readsOnly() {
		remedies, advice = []Remedy{}, "If the storage has spare bandwidth, let more ranks read at the same time. Data that all ranks need can be read by one and sent to the others."
	}
	return &Insight{Code: "CK08", Severity: warn, Title: "ranks do their I/O one after the other",
		Evidence: []Number{{"concurrency_mean", r.Concurrency.Mean, 0}, {"concurrency_share", s, t.ConcurrencyShare}, {"active_ranks", float64(r.ActiveRanks), float64(t.ConcurrencyRanks)}},
		Remedies: remedies,
		Advice:   advice}
}

func waiting(r *Report, l *load, t *Thresholds) *Insight {
	// The trace of one checkpoint does not show the rest of the job.
	s := min(1, ratio(r.Busy, r.Wall))
	if l.checkpoint != 0 || r.BurstsTotal < 2 || s < t.BusyShare || !slices.ContainsFunc(r.Operations, func(o Operation) bool { return o.Op == iotrace.Write.String() }) {
		return nil
	}
	i := &Insight{Code: "CK09", Severity: info, Title: "much of the time goes into I/O",
		Evidence: []Number{{"busy_share", s, t.BusyShare}, {"bursts", float64(r.BurstsTotal), 0}},
		Remedies: []Remedy{Async, Interval},
		Advice:   "Write while the job computes, or checkpoint less often."}
	if r.Period.Periodic {
		i.Evidence = append(i.Evidence, Number{"period_s", r.Period.Period, 0})
	}
	return i
}

// operation returns the count and time of an operation.
func (r *Report) operation(op iotrace.Op) Operation {
	for _, o := range r.Operations {
		if o.Op == op.String() {
			return o
		}
	}
	return Operation{}
}

func encoding(l *load, t *Thresholds, c Codec) *Insight {
	// Ranks encode and write at the same time, so the unions of both times are
	// compared.
	encode, write := l.encoding.time, l.writing.time
	if encode == 0 || encode < t.EncodeFactor*write {
		return nil
	}
	i := &Insight{Code: "CK10", Severity: warn, Title: "encoding takes longer than writing",
		Evidence: []Number{{"encoding_s", encode, t.EncodeFactor * write}, {"writing_s", write, 0}}}
	switch c {
	case CodecFixed:
		i.Remedies = []Remedy{CodecAuto, CodecNone, Async}
		i.Advice = "The storage is faster than the codec. auto packs an extent only where that makes it durable sooner; none never packs, and takes more space. Writing while the job computes hides the time."
	case CodecLearns:
		i.Severity, i.Remedies = info, []Remedy{Async}
		i.Advice = "The job has measured the same, and uses it at the next checkpoint: it packs an extent only where that makes it durable sooner. Writing while the job computes hides the rest."
	default:
		i.Remedies = []Remedy{CodecAuto, Async}
		i.Advice = "The storage is faster than the codec, unless the codec was auto: that learns from each checkpoint what to pack. Or write while the job computes, if it does not yet."
	}
	return i
}

func unencoded(r *Report, t *Thresholds) *Insight {
	write := r.operation(iotrace.Write)
	if r.operation(iotrace.Encode).Count > 0 || r.operation(iotrace.Gather).Count == 0 && r.Source != "ckpt" || write.Time < t.UnencodedSeconds || write.Time == 0 {
		return nil
	}
	return &Insight{Code: "CK11", Severity: info, Title: "nothing is compressed",
		Evidence: []Number{{"write_s", write.Time, t.UnencodedSeconds}, {"bytes_written", float64(r.BytesWritten), 0}},
		Remedies: []Remedy{CodecAuto},
		Advice:   "Writing takes long enough for a codec to pay; auto finds out which."}
}

func syncing(r *Report, t *Thresholds) *Insight {
	s := ratio(r.SyncTime, r.MetadataTime+r.WriteTime+r.ReadTime+r.SyncTime)
	if r.Syncs == 0 || s < t.SyncShare {
		return nil
	}
	return &Insight{Code: "CK12", Severity: info, Title: "much of the time goes into making data durable",
		Evidence: []Number{{"sync_share", s, t.SyncShare}, {"syncs", float64(r.Syncs), 0}},
		Remedies: []Remedy{Async, StripeCount},
		Advice:   "The storage is the limit, not the way it is written to: let the job go on meanwhile."}
}
