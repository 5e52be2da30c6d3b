// Package plan decides which rank writes which bytes of a checkpoint where, and
// in what order. It does no I/O: an executor carries a plan out on files, a
// simulator costs it, a printer explains it.
//
// Every process of the job calls New with the same sources and settings, takes
// the part of its rank and needs no further agreement:
//
//	p, err := plan.New(sources, plan.Defaults())
//	file, offsets := p.Places(rank)          // where the pieces of the rank go
//	for round := range p.WriterPlan(rank) {  // what the rank has to write
//		// pull round.Gathers into the buffer, then carry out round.Writes
//	}
//	summary := p.Summary()                   // what `ckpt plan` prints
//
// # Placement
//
// The place of a byte depends on the layout. A file begins with Settings.Header
// bytes, which are the caller's.
//
//	per-rank    a file per rank, its pieces one after the other
//	aggregated  a file per aggregator: the pieces of the ranks that it serves,
//	            rank after rank, without gaps
//	shared      one file. The part of each rank, and in it every piece with
//	            Align, begins at a stripe boundary; the padding is a hole. The
//	            file depends on the sizes, the header and the stripe size, and
//	            on nothing else.
//
// Sizes that are known only when the data has been encoded are exchanged first: every
// rank then makes the same plan, which a prefix sum gives the places.
//
// # Schedule
//
// Two-phase writing (collective buffering) has aggregators gather the bytes of
// other ranks into a buffer that is reused round after round, and write them.
// Larrosa Jiménez (thesis, Málaga 2015, section 2.3) names four sources of
// parallelism in it, which an executor switches on or off as Plan.Settings says:
//
//	P1  writers work at the same time; without it each waits until the one
//	    before it in Plan.Writers is done
//	P2  the gathers of a round run at the same time; without it one by one
//	P3  two buffers: while round k is written from one, round k+1 is gathered
//	    into the other. They are exchanged when both are done, not before.
//	P4  several aggregators per OST. This one changes the plan itself.
//
// A gather is a pull by the aggregator. The gathers of a round that come from
// one rank follow each other, so that one message can fetch them all. An
// aggregator's own bytes are written from where they are.
//
// In the shared layout stripe s lies on OST (FirstOST+s) mod StripeCount, and
// with the two-phase strategy the aggregators divide the OSTs. Without P4 each
// OST has one aggregator; with fewer aggregators than OSTs each has a range of
// them. With P4 the ranks are divided into groups, each of which has one
// aggregator per OST; group size is a multiple of the number of OSTs, and the
// last group takes the remainder. A stripe with bytes of two groups, which only
// Settings.Unaligned can bring about, belongs as a whole to the group of its
// first byte.
//
// The other strategies are those of Open MPI's OMPIO:
//
//	dynamic     an aggregator per group of consecutive ranks; a round takes the
//	            next Buffer bytes of the group in file order
//	static      the same groups; in every round each member contributes the same
//	            number of bytes, its share of the buffer
//	individual  every rank writes its own bytes, up to WriteBytes at a time, of
//	            which as many may be under way as a buffer holds; nothing is
//	            gathered
//
// The aggregators of dynamic and static own whole stripes too, by the rule of
// the first byte. Individual ranks do not: there a shared stripe has several
// writers, and Summary.ContendedStripes counts them. In the aggregated layout
// two-phase and dynamic are the same.
//
// # Promises
//
//   - Every byte of every piece is written exactly once, at the place that
//     Places gives it, whatever the settings. Holes are not written.
//   - But for individual, every stripe of the shared file is written by one
//     writer.
//   - A round moves at most Settings.Buffer bytes, its own included, and its
//     gathers stay within that many bytes of buffer. With P3 there are two.
//   - All offsets and lengths are multiples of PageSize, as direct I/O wants.
//   - The plan is a function of its input; nothing depends on the order of a map.
//   - New takes time and memory linear in the number of pieces; the rounds of a
//     writer take what they contain, and are made while they are read.
package plan
