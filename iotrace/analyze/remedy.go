package analyze

// A Remedy is a setting of a checkpointer that would change what an insight is about.
// Programs put remedies in their own words, such as flags; see Report.Word.
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

// Word fills in the Flags of all insights: the remedies in the words of a program.
func (r *Report) Word(words map[Remedy]string) {
	for i := range r.Insights {
		in := &r.Insights[i]
		in.Flags = make([]string, len(in.Remedies))
		for k, remedy := range in.Remedies {
			in.Flags[k] = words[remedy]
		}
	}
}
