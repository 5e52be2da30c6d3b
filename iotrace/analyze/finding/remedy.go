package finding

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
